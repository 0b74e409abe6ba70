"""Prints the costs of models: parameters, operations and activation memory.

    python run_scripts/model_table.py --configs='configs/*.json' --max_seq_length=512
    python run_scripts/model_table.py --paper

--paper prints the parameter counts of the paper's tables and ours; exit code 1 if they
differ.
"""

from pathlib import Path

from absl import flags
from tqdm import tqdm

from albert_tf.config import AlbertConfig
from albert_tf.storage import as_path, find
from flags import common_flags

FLAGS = flags.FLAGS
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def compare_with_paper() -> None:
    """Prints the table of `--paper`.

    Raises:
      ValueError: a count differs from the paper's.
    """
    from dev import paper_tables

    lines, differing = [paper_tables.HEADER], []
    for row in tqdm(paper_tables.ROWS, desc="rows", disable=None, leave=False):
        config = AlbertConfig.from_json(CONFIGS / f"{row.config_file}.json")
        line, agrees = paper_tables.compare(row, config.override(row.overrides))
        lines.append(line)
        if not agrees:
            differing.append(f"Table {row.table}, {row.name}")
    print("\n".join(lines))
    print(
        "its way: tables of positions and segments of width H; the pooler counts only "
        "if layers share parameters."
    )
    if differing:
        raise ValueError(f"Counts differ from the paper's: {'; '.join(differing)}.")


def describe(path: str) -> list[str]:
    """A row of the table: name, parts and total in millions, operations, memory."""
    from albert_tf.analysis import costs

    config = AlbertConfig.from_json(path).override(FLAGS.config_override)
    length = min(FLAGS.max_seq_length, config.max_position_embeddings)
    sizes = (length, FLAGS.max_predictions_per_seq)
    parts = costs.parameter_counts(config)
    heads = sum(parts.pop(name) for name in costs.HEADS)
    operations = costs.forward_operations(config, *sizes)
    memory = costs.activation_bytes(
        config, *sizes, FLAGS.precision, FLAGS.rematerialize
    )
    millions = [*parts.values(), sum(parts.values()), heads]
    return [
        as_path(path).stem,
        *(f"{count / 1e6:.3f}" for count in millions),
        f"{length}",
        f"{operations / 1e9:.1f}",
        f"{memory / 2**20:.1f}",
    ]


def find_configs() -> list[str]:
    """Paths of the configurations that the flags name."""
    paths = []
    for pattern in FLAGS.configs or [str(CONFIGS / "*.json")]:
        paths += find(pattern) or [pattern]
    return paths


def main() -> None:
    """Prints a line for each configuration."""
    if FLAGS.paper:
        compare_with_paper()
        return
    header = (
        "config embeddings attention feed-forward pooler encoder heads tokens GFLOP MiB"
    )
    rows = [header.split()]
    for path in tqdm(find_configs(), desc="configs", disable=None, leave=False):
        rows.append(describe(path))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells))
    print(
        "Parameters in millions. For a row of so many tokens, "
        f"{FLAGS.max_predictions_per_seq} of them masked: GFLOP of the forward pass (a "
        "training step: three times), and MiB that it keeps for the backward pass, "
        f"{FLAGS.precision}."
    )


if __name__ == "__main__":
    flags.DEFINE_list(
        "configs", [], "Configuration files and globs; default: those of configs/."
    )
    flags.DEFINE_bool(
        "paper", False, "Compare with the paper's parameter counts; nothing else."
    )
    common_flags.define_config_override_flag()
    common_flags.define_max_seq_length_flag(512)
    common_flags.define_max_predictions_flag()
    common_flags.define_precision_flag()
    common_flags.define_rematerialize_flag()
    common_flags.run(main)
