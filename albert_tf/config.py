"""Settings as frozen dataclasses that stop a wrong value when they are made."""

import dataclasses
import difflib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_tf.files import json_bytes, read_json, write_whole

# Keys of released configuration files that change nothing.
_IGNORED_KEYS = frozenset(
    {
        "net_structure_type",
        "gap_size",
        "num_memory_blocks",
        "down_scale_factor",
        "ln_type",
        "layers_to_keep",
        # Of BERT's.
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)
# A file that holds none of these describes a BERT, which knows no sharing.
_ALBERT_KEYS = ("embedding_size", "num_hidden_groups", "inner_group_num")
_ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """Shape of an ALBERT model, under the released key names.

    The defaults, which stand in for keys that a file leaves out, are the original's:
    those of ALBERT-xxlarge. Every file states `vocab_size`.

    Attributes:
      vocab_size: V, pieces in the vocabulary.
      embedding_size: E, width of the embedding tables (128 in the paper).
      hidden_size: H, width of the layers.
      num_hidden_layers: L, layers that are applied.
      num_hidden_groups: distinct parameter sets that the layers share (1 in the paper).
      num_attention_heads: N; H must be a multiple of it.
      intermediate_size: width inside the feed-forward part (4H in the paper).
      inner_group_num: transformer blocks in one layer.
      hidden_act: "gelu" (its tanh form), "gelu_erf" (its exact form), "relu", "tanh" or
        "linear".
      hidden_dropout_prob: probability of dropping after embeddings and sub-layers.
      attention_probs_dropout_prob: probability of dropping an attention weight.
      max_position_embeddings: longest input, in pieces.
      type_vocab_size: number of segments.
      initializer_range: standard deviation of the truncated normal initialiser.
      attention_groups: distinct attention parameter sets; None: num_hidden_groups.
      ffn_groups: distinct feed-forward parameter sets; None: num_hidden_groups.
      project_embeddings: whether a projection E -> H follows the embeddings; None:
        where E differs from H, as the original; some models have one with E = H.
    """

    vocab_size: int
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    inner_group_num: int = 1
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    attention_groups: int | None = None
    ffn_groups: int | None = None
    project_embeddings: bool | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            self._check_field(field.name)
        heads, hidden = self.num_attention_heads, self.hidden_size
        _require(
            hidden % heads == 0,
            "hidden_size must be a multiple of num_attention_heads. Received "
            f"{hidden} and {heads}: change one of them.",
        )
        _require(
            self.has_embedding_projection or self.embedding_size == hidden,
            "project_embeddings may be false only where embedding_size is hidden_size. "
            f"Received {self.embedding_size} and {hidden}: leave it out.",
        )
        for name, groups in self.groups.items():
            _require(
                self.num_hidden_layers % groups == 0,
                f"{name} must divide num_hidden_layers. Received {groups} and "
                f"{self.num_hidden_layers}: change one of them.",
            )

    @property
    def groups(self) -> dict[str, int]:
        """How many parameter sets the layers share, a sub-layer kind each."""
        return {
            "num_hidden_groups": self.num_hidden_groups,
            "attention_groups": self.attention_groups or self.num_hidden_groups,
            "ffn_groups": self.ffn_groups or self.num_hidden_groups,
        }

    @property
    def has_embedding_projection(self) -> bool:
        """Whether a projection E -> H follows the embeddings."""
        if self.project_embeddings is None:
            return self.embedding_size != self.hidden_size
        return self.project_embeddings

    def _check_field(self, name: str) -> None:
        value = getattr(self, name)
        if name == "hidden_act":
            _require(
                value in _ACTIVATIONS,
                f"hidden_act must be one of {', '.join(_ACTIVATIONS)}. "
                f"Received {value!r}.",
            )
        elif name == "project_embeddings":
            _require(
                value is None or isinstance(value, bool),
                f"{name} must be true or false. Received {value!r}.",
            )
        elif name.endswith("_prob"):
            _require(
                _is_number(value) and 0 <= value < 1,
                f"{name} must be a probability in [0, 1). Received {value!r}.",
            )
        elif name == "initializer_range":
            _require(
                _is_number(value) and value > 0,
                f"{name} must be above 0. Received {value!r}.",
            )
        elif not (value is None and name in ("attention_groups", "ffn_groups")):
            _require(
                _is_count(value, 1),
                f"{name} must be a whole number above 0. Received {value!r}.",
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "AlbertConfig":
        """A configuration from released keys, ALBERT's or BERT's.

        BERT's, of a published `bert_config.json`, give a model with E = H that shares
        nothing.

        Raises:
          ValueError: an unknown key (the nearest is suggested), one that is missing, or
            a value out of range.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        for key in values:
            if key not in known and key not in _IGNORED_KEYS:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
                raise ValueError(f"Unknown key {key!r}: did you mean {near!r}?")
        _require("vocab_size" in values, "The key 'vocab_size' is missing: add it.")
        values = {key: values[key] for key in values if key in known}
        shape = ("hidden_size", "num_hidden_layers")
        if all(k in values for k in shape) and not any(
            k in values for k in _ALBERT_KEYS
        ):
            values["embedding_size"] = values["hidden_size"]
            values["num_hidden_groups"] = values["num_hidden_layers"]
        return cls(**values)

    @classmethod
    def from_json(cls, path: str | os.PathLike) -> "AlbertConfig":
        """Reads a released or own `albert_config.json`.

        Raises:
          FileNotFoundError: no such file.
          ValueError: as `from_dict`, with the file's name.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"No configuration file {str(path)!r}: see configs/ for the models."
            )
        values = read_json(path)
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"Configuration file {str(path)!r}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Released keys and values; sharing keys only where they were set."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes `to_dict` as JSON."""
        write_whole(path, json_bytes(self.to_dict(), indent=2))

    def replace(self, **changes: Any) -> "AlbertConfig":
        """A copy with some values changed, checked again."""
        return dataclasses.replace(self, **changes)

    def override(self, changes: Sequence[str]) -> "AlbertConfig":
        """A copy with the values of `key=value` strings.

        Raises:
          ValueError: no such key, no value, or one out of range.
        """
        values = self.to_dict()
        for change in changes:
            key, equals, value = change.partition("=")
            _require(bool(equals), f"Received {change!r}: write it as key=value.")
            try:
                values[key.strip()] = json.loads(value)
            except ValueError:  # a word, as an activation's name
                values[key.strip()] = value.strip()
        return self.from_dict(values)

    def unshared(self) -> "AlbertConfig":
        """A copy whose layers have parameters of their own, if all share one set."""
        if max(self.groups.values()) > 1:
            return self
        return self.replace(
            num_hidden_groups=self.num_hidden_layers,
            attention_groups=None,
            ffn_groups=None,
        )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its learning rate; the paper's section 4.1 as defaults.

    Attributes:
      optimizer: the optimizer.
      learning_rate: peak learning rate, reached at the end of warm-up.
      num_train_steps: optimizer steps; the decay of the learning rate ends there.
      num_warmup_steps: steps of linear warm-up; 0: no warm-up.
      start_warmup_step: step at which warm-up starts; the rate is 0 before it.
      poly_power: power of the polynomial decay; 1: linear.
      end_learning_rate: learning rate after the last step.
      weight_decay: decoupled weight decay; not on LayerNorm and biases.
      beta_1: decay rate of the first moment.
      beta_2: decay rate of the second moment.
      epsilon: added to the root of the second moment.
      clip_norm: bound of the gradients' global norm.
    """

    optimizer: str = dataclasses.field(
        default="lamb", metadata={"choices": ("lamb", "adamw")}
    )
    learning_rate: float = 0.00176
    num_train_steps: int = 125_000
    num_warmup_steps: int = 3_125
    start_warmup_step: int = 0
    poly_power: float = 1.0
    end_learning_rate: float = 0.0
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0

    def __post_init__(self):
        _require(
            self.optimizer in ("lamb", "adamw"),
            f"optimizer must be lamb or adamw. Received {self.optimizer!r}.",
        )
        for name in ("num_warmup_steps", "start_warmup_step"):
            value = getattr(self, name)
            _require(
                _is_count(value, 0),
                f"{name} must be a whole number of at least 0. Received {value!r}.",
            )
        _require(
            _is_count(self.num_train_steps, 1),
            f"num_train_steps must be above 0. Received {self.num_train_steps!r}.",
        )
        for name in ("learning_rate", "poly_power", "epsilon", "clip_norm"):
            value = getattr(self, name)
            _require(
                _is_number(value) and value > 0,
                f"{name} must be above 0. Received {value!r}.",
            )
        for name in ("weight_decay", "end_learning_rate"):
            value = getattr(self, name)
            _require(
                _is_number(value) and value >= 0,
                f"{name} must be at least 0. Received {value!r}.",
            )
        for name in ("beta_1", "beta_2"):
            value = getattr(self, name)
            _require(
                _is_number(value) and 0 <= value < 1,
                f"{name} must be in [0, 1). Received {value!r}.",
            )

    def warnings(self, train_batch_size: int) -> list[str]:
        """What looks like a slip, though it may be meant."""
        found = []
        if self.num_warmup_steps >= self.num_train_steps:
            found.append(
                f"num_warmup_steps {self.num_warmup_steps} is not below "
                f"num_train_steps {self.num_train_steps}: the learning rate does not "
                "come near its peak."
            )
        # The paper's rate for another batch; LAMB's goes with the root of the batch
        # (You et al. 2019).
        usual = 0.00176 * (train_batch_size / 4096) ** 0.5
        if abs(self.learning_rate / 0.00176 - 1) < 0.01 and usual < 0.001:
            found.append(
                f"learning_rate {self.learning_rate:g} belongs to a batch of 4096, not "
                f"of {train_batch_size}: by the root of the batch, {usual:.2g}."
            )
        return found


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How large, how often and on what: the loop's settings.

    Attributes:
      output_dir: folder of checkpoints, TensorBoard events and results.json. A run that
        finds its checkpoints there resumes; checkpoints of another configuration are
        refused.
      train_batch_size: rows in an optimizer step, over all devices.
      eval_batch_size: rows in an evaluation step, over all devices.
      gradient_accumulation_steps: parts into which each device splits its rows of a
        step, to need less memory.
      precision: of activations; weights, LayerNorm, softmax and losses are float32
        always.
      jit_compile: compile the gradient's computation with XLA. TPUs always do; on CPUs
        it is slower than without.
      rematerialize: what the backward pass recomputes to need less memory: nothing,
        attention probabilities, or whole blocks.
      iterations_per_loop: steps in one graph call and between log lines. SIGTERM is
        answered between loops: keep a loop shorter than the notice that your machine
        gives.
      save_checkpoints_steps: steps between checkpoints.
      keep_checkpoint_max: checkpoints to keep; 0: all.
      eval_steps: steps between evaluations while training; the best weights are kept in
        OUTPUT_DIR/best. 0: evaluate only after training; fine-tuning then takes
        save_checkpoints_steps.
      early_stopping: evaluations in a row without a better one after which training
        stops; 0: never.
      length_buckets: pad batches to about their longest row; if false, and on TPUs, to
        the longest row allowed. The results are the same.
      max_eval_steps: most batches of an evaluation; 0: the whole data set.
      max_train_hours: hours of training, resumptions included, after which it stops
        with a checkpoint; 0: no limit.
      random_seed: seed of initial weights, dropout and the order of rows.
    """

    output_dir: str
    train_batch_size: int = 4096
    eval_batch_size: int = 64
    gradient_accumulation_steps: int = 1
    precision: str = dataclasses.field(
        default="float32", metadata={"choices": ("float32", "bfloat16")}
    )
    jit_compile: bool = False
    rematerialize: str = dataclasses.field(
        default="none", metadata={"choices": ("none", "attention", "block")}
    )
    iterations_per_loop: int = 1_000
    save_checkpoints_steps: int = 5_000
    keep_checkpoint_max: int = 5
    eval_steps: int = 0
    early_stopping: int = 0
    length_buckets: bool = True
    max_eval_steps: int = 0
    max_train_hours: float = 0.0
    random_seed: int = 12345

    def __post_init__(self):
        _require(bool(self.output_dir), "output_dir is empty: pass --output_dir.")
        _require(
            "://" not in self.output_dir,
            f"output_dir must be a folder of this machine. Received {self.output_dir}: "
            "mount the bucket.",
        )
        _require(
            not set("[]*?") & set(self.output_dir),
            "output_dir must not have any of []*? in its name, which TensorFlow takes "
            f"for a pattern. Received {self.output_dir}: rename it.",
        )
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), field.metadata.get("choices")
            _require(
                not choices or value in choices,
                f"{field.name} must be one of {', '.join(choices or ())}. "
                f"Received {value!r}.",
            )
        _require(
            _is_number(self.max_train_hours) and self.max_train_hours >= 0,
            f"max_train_hours must be at least 0. Received {self.max_train_hours!r}.",
        )
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            lowest = 0 if field.name in _ZERO_ALLOWED else 1
            _require(
                field.type is not int or (type(value) is int and value >= lowest),
                f"{field.name} must be a whole number of at least {lowest}. "
                f"Received {value!r}.",
            )


_ZERO_ALLOWED = (
    "keep_checkpoint_max",
    "eval_steps",
    "early_stopping",
    "max_eval_steps",
    "random_seed",
)


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and math.isfinite(value)


def _is_count(value: Any, lowest: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and value >= lowest
