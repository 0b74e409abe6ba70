"""Configurations: frozen dataclasses that refuse a wrong value when they are made.

A field's `metadata` holds the rule for its values, and for a field with fixed values
these values as "choices".
"""

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from albert_tf import field_rules
from albert_tf.field_rules import (
    BELOW_ONE,
    COUNT,
    COUNT_OR_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
)
from albert_tf.files import json_bytes, read_json, write_whole
from albert_tf.optimizer_config import OptimizerConfig as OptimizerConfig
from albert_tf.storage import PathLike, as_path

ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")
# Keys of released configuration files that change nothing.
_IGNORED_KEYS = frozenset(
    {
        *("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor"),
        *("ln_type", "layers_to_keep"),
        # The following are keys of BERT.
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads"),
        *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
    }
)
# If all of these keys are missing, the file is a BERT configuration, without sharing.
_ALBERT_KEYS = frozenset({"embedding_size", "num_hidden_groups", "inner_group_num"})
_COUNT_OR_NONE = field_rules.optional(COUNT)
_BOOL_OR_NONE = field_rules.optional(field_rules.BOOL)
# A file that says more is damaged, and no memory is taken for it.
MAX_PARAMETERS = 10**11
MAX_BLOCKS = 10_000


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """Configuration of an ALBERT model, under the released key names.

    The defaults, used for keys that a file leaves out, are the original's: those of
    ALBERT-xxlarge. Every file states `vocab_size`.

    Attributes:
      vocab_size: V, tokens in the vocabulary.
      embedding_size: E, width of the embedding tables (128 in the paper).
      hidden_size: H, width of the layers.
      num_hidden_layers: L, layers that are applied.
      num_hidden_groups: parameter groups that the layers share (1 in the paper).
      num_attention_heads: N; H must be a multiple of it.
      intermediate_size: width inside the feed-forward part (4H in the paper).
      inner_group_num: transformer blocks in one layer.
      hidden_act: "gelu" (its tanh form), "gelu_erf" (its exact form), "relu", "tanh" or
        "linear".
      hidden_dropout_prob: probability of dropping after embeddings and sub-layers.
      attention_probs_dropout_prob: probability of dropping an attention weight.
      max_position_embeddings: longest input, in tokens.
      type_vocab_size: number of segments.
      initializer_range: standard deviation of the truncated normal initializer.
      attention_groups: parameter groups of attention; None: num_hidden_groups.
      ffn_groups: parameter groups of feed-forward parts; None: num_hidden_groups.
      project_embeddings: true if a projection E -> H follows the embeddings; None: if E
        differs from H, as in the original; some models have one although E = H.
      attention_window: tokens on either side that a token attends to; None: all, as in
        the paper.
      global_attention_tokens: with attention_window, first tokens of a row that attend
        to all tokens, and all to them; None: none of them.
    """

    vocab_size: int = field(metadata=COUNT)
    embedding_size: int = field(default=128, metadata=COUNT)
    hidden_size: int = field(default=4096, metadata=COUNT)
    num_hidden_layers: int = field(default=12, metadata=COUNT)
    num_hidden_groups: int = field(default=1, metadata=COUNT)
    num_attention_heads: int = field(default=64, metadata=COUNT)
    intermediate_size: int = field(default=16384, metadata=COUNT)
    inner_group_num: int = field(default=1, metadata=COUNT)
    hidden_act: str = field(default="gelu", metadata=field_rules.choices(*ACTIVATIONS))
    hidden_dropout_prob: float = field(default=0.0, metadata=BELOW_ONE)
    attention_probs_dropout_prob: float = field(default=0.0, metadata=BELOW_ONE)
    max_position_embeddings: int = field(default=512, metadata=COUNT)
    type_vocab_size: int = field(default=2, metadata=COUNT)
    initializer_range: float = field(default=0.02, metadata=POSITIVE)
    attention_groups: int | None = field(default=None, metadata=_COUNT_OR_NONE)
    ffn_groups: int | None = field(default=None, metadata=_COUNT_OR_NONE)
    project_embeddings: bool | None = field(default=None, metadata=_BOOL_OR_NONE)
    attention_window: int | None = field(default=None, metadata=_COUNT_OR_NONE)
    global_attention_tokens: int | None = field(default=None, metadata=_COUNT_OR_NONE)

    def __post_init__(self):
        field_rules.check_fields(self)
        heads, hidden = self.num_attention_heads, self.hidden_size
        _require(
            hidden % heads == 0,
            "hidden_size must be a multiple of num_attention_heads. Received "
            f"{hidden} and {heads}: change one of them.",
        )
        _require(
            self.has_embedding_projection or self.embedding_size == hidden,
            "project_embeddings may be false only if embedding_size is hidden_size. "
            f"Received {self.embedding_size} and {hidden}: leave it out.",
        )
        first = self.global_attention_tokens
        _require(
            first is None or first <= (self.attention_window or 0),
            "global_attention_tokens needs an attention_window of at least as many "
            f"tokens. Received {first} and {self.attention_window}: raise the latter.",
        )
        _require(
            (self.attention_window or 0) <= self.max_position_embeddings,
            "attention_window must be at most max_position_embeddings. Received "
            f"{self.attention_window} and {self.max_position_embeddings}: lower it, or "
            "leave it out.",
        )
        for name, groups in self.groups.items():
            _require(
                self.num_hidden_layers % groups == 0,
                f"{name} must divide num_hidden_layers. Received {groups} and "
                f"{self.num_hidden_layers}: change one of them.",
            )
        blocks = self.num_hidden_layers * self.inner_group_num
        _require(
            blocks <= MAX_BLOCKS,
            "num_hidden_layers times inner_group_num must be at most "
            f"{MAX_BLOCKS:,}. Received {blocks:,}: lower one of them.",
        )
        _require(
            self.num_parameters <= MAX_PARAMETERS,
            f"A model may have at most {MAX_PARAMETERS:,} parameters. Received a "
            f"configuration of {self.num_parameters:,}: lower {self._largest_size()}.",
        )

    def _largest_size(self) -> str:
        values = {k: v for k, v in self.to_dict().items() if isinstance(v, int)}
        name = max(values, key=lambda key: values[key])
        return f"{name}, {values[name]:,}"

    @property
    def groups(self) -> dict[str, int]:
        """Number of parameter groups that the layers share, for each kind of part."""
        return {
            "num_hidden_groups": self.num_hidden_groups,
            "attention_groups": self.attention_groups or self.num_hidden_groups,
            "ffn_groups": self.ffn_groups or self.num_hidden_groups,
        }

    @property
    def num_parameters(self) -> int:
        """Number of trainable parameters, those of the pretraining heads included."""
        embedding, hidden = self.embedding_size, self.hidden_size
        inner, groups = self.intermediate_size, self.groups
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        norm = 2 * hidden
        attention = 4 * hidden * (hidden + 1) + norm
        feed_forward = hidden * (inner + 1) + inner * (hidden + 1) + norm
        masked_lm = (hidden + 1) * embedding + 2 * embedding + self.vocab_size
        return (
            rows * embedding
            + 2 * embedding
            + self.has_embedding_projection * (embedding + 1) * hidden
            + groups["attention_groups"] * self.inner_group_num * attention
            + groups["ffn_groups"] * self.inner_group_num * feed_forward
            + hidden * (hidden + 1)
            + masked_lm
            + 2 * (hidden + 1)
        )

    @property
    def has_embedding_projection(self) -> bool:
        """True if a projection E -> H follows the embeddings."""
        if self.project_embeddings is None:
            return self.embedding_size != self.hidden_size
        return self.project_embeddings

    def require_full_attention(self, what: str) -> None:
        """Raises ValueError if tokens attend to a window, which `what` cannot hold."""
        _require(
            self.attention_window is None
            or self.attention_window + 1 >= self.max_position_embeddings,
            f"{what} has no attention_window, and this model has one of "
            f"{self.attention_window}: its numbers would differ.",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "AlbertConfig":
        """Reads released keys, those of ALBERT or of BERT.

        Keys of a BERT's `bert_config.json` make a model with E = H that shares nothing.

        Raises:
          ValueError: an unknown key (with the nearest), a missing key, a wrong value.
        """
        known = {one.name for one in dataclasses.fields(cls)}
        for key in values:
            if key not in known and key not in _IGNORED_KEYS:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
                raise ValueError(f"Unknown key {key!r}: did you mean {near!r}?")
        _require("vocab_size" in values, "The key 'vocab_size' is missing: add it.")
        values = {key: values[key] for key in values if key in known}
        has_sizes = {"hidden_size", "num_hidden_layers"} <= values.keys()
        if has_sizes and not values.keys() & _ALBERT_KEYS:
            values["embedding_size"] = values["hidden_size"]
            values["num_hidden_groups"] = values["num_hidden_layers"]
        return cls(**values)

    @classmethod
    def from_json(cls, path: PathLike) -> "AlbertConfig":
        """Reads an `albert_config.json`, a released one or one of this library.

        Raises:
          FileNotFoundError: no such file.
          ValueError: as in `from_dict`, with the file's name.
        """
        if not as_path(path).is_file():
            raise FileNotFoundError(
                f"No configuration file {str(path)!r}: see configs/ for the models."
            )
        return cls.from_values(read_json(path), path)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], path: PathLike) -> "AlbertConfig":
        """Makes a configuration of the content of a file, which errors name."""
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"Configuration file {str(path)!r}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Released keys and values; keys of sharing only if they are set."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}

    def to_json(self, path: PathLike) -> None:
        """Writes `to_dict` as JSON."""
        write_whole(path, json_bytes(self.to_dict(), indent=2))

    def replace(self, **changes: Any) -> "AlbertConfig":
        """A copy with some values changed, checked again."""
        return dataclasses.replace(self, **changes)

    def override(self, changes: Sequence[str]) -> "AlbertConfig":
        """A copy with the values of `key=value` strings.

        Raises:
          ValueError: an unknown key, no value, or a value out of range.
        """
        values = self.to_dict()
        for change in changes:
            key, equals, value = change.partition("=")
            _require(bool(equals), f"Received {change!r}: write it as key=value.")
            try:
                values[key.strip()] = json.loads(value)
            except ValueError:  # a word, as the name of an activation
                values[key.strip()] = value.strip()
        return self.from_dict(values)

    def unshared(self) -> "AlbertConfig":
        """A copy whose layers have their own parameters, if all layers share one group.

        A model with several groups is returned as it is.
        """
        if max(self.groups.values()) > 1:
            return self
        return self.replace(
            num_hidden_groups=self.num_hidden_layers,
            attention_groups=None,
            ffn_groups=None,
        )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Configuration of the training loop: sizes, intervals, precision and seed.

    Attributes:
      output_dir: folder of checkpoints, TensorBoard events and results.json. A run that
        finds its checkpoints there resumes; checkpoints of another configuration are
        refused.
      train_batch_size: rows in an optimizer step, over all devices.
      eval_batch_size: rows in an evaluation step, over all devices.
      gradient_accumulation_steps: parts into which each device splits its rows of a
        step, to need less memory.
      precision: of activations; weights, LayerNorm, softmax and losses are float32
        always. float16 is for GPUs without bfloat16: training scales the loss so that
        small gradients are kept, and lowers the scale after a step that overflows.
      jit_compile: compile the gradient's computation with XLA. TPUs always do; on CPUs
        it is slower than without.
      rematerialize: what the backward pass recomputes to need less memory: nothing,
        attention probabilities, or whole blocks.
      iterations_per_loop: steps in one graph call. SIGTERM is answered between loops:
        keep a loop shorter than the notice that your machine gives. 0: as many as take
        about eight seconds; on TPUs 1000.
      save_checkpoints_steps: steps between checkpoints.
      keep_checkpoint_max: checkpoints to keep; 0: all.
      eval_steps: steps between evaluations while training; the best weights are kept in
        OUTPUT_DIR/best. 0: evaluate only after training; fine-tuning then takes
        save_checkpoints_steps.
      early_stopping: evaluations in a row without a better one after which training
        stops; 0: never.
      batching: rows of a batch, where rows are stored without padding: "length", of
        about one length, or "random", shuffled as the paper has them. Without XLA,
        padding costs little in either, since only attention computes it.
      hard_examples: where rows are stored without padding, on one device: power of a
        row's last loss in its chance to be drawn, after the first epoch, as 1; rows
        then repeat in an epoch. 0: every row comes once an epoch, as in the paper.
      row_order: order of rows that are stored with padding: "lanes", or "window", that
        of runs which earlier releases began. A run that is resumed keeps its own.
      length_buckets: pad batches to about their longest row; if false, and on TPUs, to
        the longest row allowed, which takes longer. The results differ only in which
        values dropout drops.
      max_eval_steps: most batches of an evaluation while training and at its end: a
        sample of the rows, drawn at random by random_seed once. SQuAD: of whole
        questions. The best weights are always evaluated on all rows. 0: all rows.
      max_train_hours: hours of training, resumptions included, after which it stops
        with a checkpoint; 0: no limit. With lr_schedule_by=time the learning rate
        reaches its end then.
      use_ema: where there are averaged weights beside the last ones (ema_decay), take
        the averages: to evaluate, to choose and keep the best ones, to start from and
        to export; if false, the last ones. None: the averages where there are any.
      random_seed: seed of initial weights, dropout and the order of rows.
    """

    output_dir: str
    train_batch_size: int = field(default=4096, metadata=COUNT)
    eval_batch_size: int = field(default=64, metadata=COUNT)
    gradient_accumulation_steps: int = field(default=1, metadata=COUNT)
    precision: str = field(
        default="float32",
        metadata=field_rules.choices("float32", "bfloat16", "float16"),
    )
    jit_compile: bool = False
    rematerialize: str = field(
        default="none", metadata=field_rules.choices("none", "attention", "block")
    )
    iterations_per_loop: int = field(default=0, metadata=COUNT_OR_ZERO)
    save_checkpoints_steps: int = field(default=5_000, metadata=COUNT)
    keep_checkpoint_max: int = field(default=5, metadata=COUNT_OR_ZERO)
    eval_steps: int = field(default=0, metadata=COUNT_OR_ZERO)
    early_stopping: int = field(default=0, metadata=COUNT_OR_ZERO)
    batching: str = field(
        default="length", metadata=field_rules.choices("length", "random")
    )
    hard_examples: float = field(default=0.0, metadata=NOT_NEGATIVE)
    row_order: str = field(
        default="lanes", metadata=field_rules.choices("lanes", "window")
    )
    length_buckets: bool = True
    max_eval_steps: int = field(default=0, metadata=COUNT_OR_ZERO)
    max_train_hours: float = field(default=0.0, metadata=NOT_NEGATIVE)
    use_ema: bool | None = field(default=None, metadata=_BOOL_OR_NONE)
    random_seed: int = field(default=12345, metadata=COUNT_OR_ZERO)

    def __post_init__(self):
        _require(bool(self.output_dir), "output_dir is empty: pass --output_dir.")
        as_path(self.output_dir)
        _require(
            not set("[]*?") & set(self.output_dir),
            "output_dir must not have any of []*? in its name, which TensorFlow reads "
            f"as a pattern. Received {self.output_dir}: rename it.",
        )
        field_rules.check_fields(self)
