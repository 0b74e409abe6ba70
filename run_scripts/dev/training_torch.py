"""A training step of the same ALBERT in plain PyTorch, run eagerly.

Letters in shapes: B batch, S sequence, E embedding, H hidden, P predictions.
"""

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from albert_tf.config import AlbertConfig, OptimizerConfig
from dev.benchmark_train import Case, Times, random_batch

_EPSILON = 1e-12


class Block(nn.Module):
    """A transformer block, with PyTorch's fused attention."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        hidden = config.hidden_size
        self.heads = config.num_attention_heads
        self.joined = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.inner = nn.Linear(hidden, config.intermediate_size)
        self.outer = nn.Linear(config.intermediate_size, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, _EPSILON) for _ in range(2))
        self.drop = config.hidden_dropout_prob
        self.drop_attention = config.attention_probs_dropout_prob

    def forward(self, hidden: torch.Tensor, mask_logits: torch.Tensor) -> torch.Tensor:
        """[B, S, H], [B, 1, 1, S] -> [B, S, H]."""
        shape = (*hidden.shape[:2], 3, self.heads, -1)
        parts = self.joined(hidden).view(shape).permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(
            *parts, mask_logits.to(parts.dtype), self.drop_attention
        )
        context = self.output(context.transpose(1, 2).flatten(2))
        hidden = self.norms[0](hidden + functional.dropout(context, self.drop))
        inner = functional.gelu(self.inner(hidden), approximate="tanh")
        outer = functional.dropout(self.outer(inner), self.drop)
        return self.norms[1](hidden + outer)


class Albert(nn.Module):
    """ALBERT whose layers share one block, with both heads of pretraining."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.config = config
        width, hidden = config.embedding_size, config.hidden_size
        sizes = config.vocab_size, config.type_vocab_size
        self.tables = nn.ModuleList(
            nn.Embedding(size, width)
            for size in (*sizes, config.max_position_embeddings)
        )
        self.norm = nn.LayerNorm(width, _EPSILON)
        self.projection = nn.Linear(width, hidden)
        self.block = Block(config)
        self.pooler = nn.Linear(hidden, hidden)
        self.order = nn.Linear(hidden, 2)
        self.transform = nn.Linear(hidden, width)
        self.transform_norm = nn.LayerNorm(width, _EPSILON)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.trunc_normal_(module.weight, std=config.initializer_range)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The sum of both losses; the batch as of `random_batch`."""
        ids = batch["input_ids"]
        inputs = ids, batch["segment_ids"], torch.arange(ids.shape[1])
        embedded = sum(
            table(each) for table, each in zip(self.tables, inputs, strict=True)
        )
        hidden = functional.dropout(
            self.norm(embedded), self.config.hidden_dropout_prob
        )
        hidden = self.projection(hidden)
        mask_logits = (1.0 - batch["input_mask"][:, None, None]) * -10_000.0
        for _ in range(self.config.num_hidden_layers):
            hidden = self.block(hidden, mask_logits)
        pooled = torch.tanh(self.pooler(hidden[:, 0]))
        rows = torch.arange(len(ids))[:, None]
        masked = self.transform(hidden[rows, batch["masked_lm_positions"]])
        masked = self.transform_norm(functional.gelu(masked, approximate="tanh"))
        logits = functional.linear(masked, self.tables[0].weight, self.bias)
        masked_loss = functional.cross_entropy(
            logits.float().flatten(0, 1), batch["masked_lm_ids"].flatten()
        )
        order = self.order(pooled).float()
        labels = batch["next_sentence_labels"].flatten()
        return masked_loss + functional.cross_entropy(order, labels)


class Lamb(torch.optim.Optimizer):
    """LAMB without bias correction (You et al. 2019), which PyTorch does not have."""

    def __init__(self, parameters, config: OptimizerConfig):
        super().__init__(parameters, {})
        self.config = config

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Updates each parameter in place."""
        config = self.config
        for parameter in self.param_groups[0]["params"]:
            state, gradient = self.state[parameter], parameter.grad
            for name in ("first", "second"):
                state.setdefault(name, torch.zeros_like(parameter))
            first, second = state["first"], state["second"]
            first.lerp_(gradient, 1 - config.beta_1)
            second.mul_(config.beta_2)
            second.addcmul_(gradient, gradient, value=1 - config.beta_2)
            update = first / second.sqrt().add_(config.epsilon)
            update.add_(parameter, alpha=config.weight_decay)
            norm, update_norm = parameter.norm(), update.norm()
            ratio = torch.where(norm * update_norm > 0, norm / update_norm, 1.0)
            parameter.sub_(update.mul_(ratio * config.learning_rate))


def make_torch_step(case: Case) -> Callable[[], Times]:
    """Builds the step; returns a function that times one.

    Args:
      case: the step. bfloat16 is PyTorch's autocast.
    """
    torch.manual_seed(1)
    model, config = Albert(case.config), OptimizerConfig(optimizer=case.optimizer)
    optimizer: torch.optim.Optimizer = Lamb(model.parameters(), config)
    if case.optimizer == "adamw":
        optimizer = torch.optim.AdamW(
            model.parameters(),
            config.learning_rate,
            (config.beta_1, config.beta_2),
            config.epsilon,
            config.weight_decay,
            fused=True,
        )
    batch = {
        name: torch.from_numpy(rows).long() for name, rows in random_batch(case).items()
    }
    is_bfloat16 = case.train_config.precision == "bfloat16"

    def step() -> Times:
        began, busy = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
            loss = model(batch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        float(norm)
        return time.perf_counter() - began, time.process_time() - busy

    return step
