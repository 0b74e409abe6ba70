"""The paper's parameter counts, and the way in which it probably counted them.

One way of counting gives the numbers of all rows of Tables 1, 3, 4, 11 and 12 but one:
positions and segments have tables of width H (of width E in the released models, and
here), the pooler counts only in models that share parameters, and no head counts. The
exception is xxlarge in Table 1, 235M; for the same model Table 12 has 225M, as this way
of counting.
"""

from typing import NamedTuple

from albert_tf.analysis import costs
from albert_tf.config import AlbertConfig


class Row(NamedTuple):
    """A row of a table.

    Attributes:
      table: number of the table.
      name: name of the row in the paper.
      config_file: name of the configuration that the overrides change.
      overrides: changes, as `--config_override` takes them.
      millions: parameters in the paper, in millions.
      other: the paper's count of the same model in another table, if it differs.
    """

    table: int
    name: str
    config_file: str
    overrides: tuple[str, ...]
    millions: int
    other: int | None = None


_NOT_SHARED = ("num_hidden_groups=12",)
_STRATEGIES = {
    "all-shared": (),
    "shared-attention": ("ffn_groups=12",),
    "shared-FFN": ("attention_groups=12",),
    "not-shared": _NOT_SHARED,
}
_WIDTHS = {1024: 18, 2048: 60, 4096: 225, 6144: 499}


def _width(hidden: int) -> tuple[str, ...]:
    return (
        "num_hidden_layers=3",
        f"hidden_size={hidden}",
        f"intermediate_size={4 * hidden}",
    )


ROWS = [
    Row(1, "BERT base", "bert_base", (), 108),
    Row(1, "BERT large", "bert_large", (), 334),
    Row(1, "ALBERT base", "albert_base", (), 12),
    Row(1, "ALBERT large", "albert_large", (), 18),
    Row(1, "ALBERT xlarge", "albert_xlarge", (), 60),
    Row(1, "ALBERT xxlarge", "albert_xxlarge", (), 235, other=225),
    *(
        Row(
            3,
            f"not-shared E={e}",
            "albert_base",
            (f"embedding_size={e}", *_NOT_SHARED),
            n,
        )
        for e, n in {64: 87, 128: 89, 256: 93, 768: 108}.items()
    ),
    *(
        Row(3, f"all-shared E={e}", "albert_base", (f"embedding_size={e}",), n)
        for e, n in {64: 10, 128: 12, 256: 16, 768: 31}.items()
    ),
    *(
        Row(
            4,
            f"{strategy} E={e}",
            "albert_base",
            (f"embedding_size={e}", *_STRATEGIES[strategy]),
            n,
        )
        for e, counts in {768: (31, 83, 57, 108), 128: (12, 64, 38, 89)}.items()
        for strategy, n in zip(_STRATEGIES, counts, strict=True)
    ),
    *(
        Row(11, f"{n} layers", "albert_large", (f"num_hidden_layers={n}",), 18)
        for n in (1, 3, 6, 12, 24, 48)
    ),
    *(Row(12, f"H={h}", "albert_large", _width(h), n) for h, n in _WIDTHS.items()),
]


def encoder_parameters(config: AlbertConfig) -> int:
    """Trainable parameters from the embeddings to the pooler."""
    parts = costs.parameter_counts(config)
    return sum(count for part, count in parts.items() if part not in costs.HEADS)


def as_the_paper_counts(config: AlbertConfig) -> int:
    """Parameters of the encoder, counted as in the paper."""
    tables = config.max_position_embeddings + config.type_vocab_size
    count = encoder_parameters(config)
    count += tables * (config.hidden_size - config.embedding_size)
    groups = (config.groups["attention_groups"], config.groups["ffn_groups"])
    if min(groups) == config.num_hidden_layers > 1:
        count -= config.hidden_size**2 + config.hidden_size
    return count


def compare(row: Row, config: AlbertConfig) -> tuple[str, bool]:
    """Compares the paper's count of a row with ours.

    Args:
      row: the row.
      config: its configuration.
    Returns:
      (a line of the table under `HEADER`, True if the counts agree).
    """
    ours = encoder_parameters(config) / 1e6
    counted = as_the_paper_counts(config) / 1e6
    agree = round(counted) == (row.other or row.millions)
    verdict = "agrees" if agree else "DIFFERS"
    if row.other:
        verdict += f" with the paper's {row.other} in Table 12, not with this one"
    return (
        f"{row.table:5}  {row.name:24} {row.millions:5}  {ours:8.3f} "
        f"{ours - row.millions:+8.3f}  {counted:8.3f}  {verdict}",
        agree,
    )


HEADER = (
    f"{'table':5}  {'row':24} {'paper':>5}  {'ours':>8} {'off by':>8}  "
    f"{'its way':>8}  (millions of parameters)"
)
