"""Flags of the columns of tables of texts, and of what their labels are."""

from absl import flags


def define_text_column_flag(kind: str = "") -> None:
    """Defines `--text_column`; `kind` says of which tables, as "Custom task: "."""
    flags.DEFINE_string("text_column", "text", f"{kind}Column of the text.")


def define_label_column_flag(default: str, content: str) -> None:
    """Defines `--label_column`."""
    flags.DEFINE_string("label_column", default, content)


def define_multi_label_flag(content: str) -> None:
    """Defines `--multi_label`."""
    flags.DEFINE_bool("multi_label", False, content)


def define_batch_size_flag(default: int, things: str) -> None:
    """Defines `--batch_size` of commands that only answer."""
    flags.DEFINE_integer("batch_size", default, f"{things} at a time.", lower_bound=1)
