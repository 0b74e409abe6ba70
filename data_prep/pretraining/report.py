"""The report of a run: what was read and made, in numbers and as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.corpus.statistics import Statistics

# More unknown pieces than this share mean that vocabulary and text do not fit.
MAX_UNKNOWN_SHARE = 0.02


@dataclass
class RunFigures:
    """What a run took; unlike the rest it differs from run to run.

    Attributes:
      input_bytes: of all input files, packed where they are packed.
      shards_kept: shards that an earlier run had finished.
      text_seconds: until the text was tokenized.
      seconds: of the whole run.
      peak_memory_bytes: the largest resident sizes of all processes, added up.
    """

    input_bytes: int
    shards_kept: int = 0
    text_seconds: float = 0.0
    seconds: float = 0.0
    peak_memory_bytes: int = 0


def make_report(
    sidecars: Sequence[Mapping[str, Any]], figures: RunFigures
) -> dict[str, Any]:
    """Adds up what the sidecars of a run's shards tell.

    Args:
      sidecars: at least one; all of the same text.
      figures: of the run.
    Returns:
      JSON values; shares are from 0 to 1.
    """
    total = Statistics.from_dict(sidecars[0]["text"])
    for sidecar in sidecars:
        total.merge(Statistics.from_dict(sidecar["statistics"]))
    counts = {
        name: {key: count for key, count in value.items() if count}
        if isinstance(value, Mapping)
        else value
        for name, value in total.as_dict().items()
    }
    row_places = total.row_pieces + total.padding_pieces
    return {
        "shards": len(sidecars),
        **counts,
        "unknown_share": total.unknown_pieces / total.pieces,
        "padding_share": total.padding_pieces / row_places,
        "shares": {
            name: _shares(counts[name])
            for name in ("pair_labels", "ngrams_drawn", "ngrams_placed", "replacements")
        },
        "record_bytes": sum(sidecar["bytes"] for sidecar in sidecars),
        "input_bytes": figures.input_bytes,
        "shards_kept_from_earlier_runs": figures.shards_kept,
        "seconds": round(figures.seconds, 3),
        "text_seconds": round(figures.text_seconds, 3),
        # Input that became rows, once for each duplicate, would be many times as much.
        "input_megabytes_per_second": round(
            figures.input_bytes / 1e6 / figures.seconds, 3
        ),
        "peak_memory_megabytes": round(figures.peak_memory_bytes / 1e6, 1),
    }


def _shares(counts: Mapping[Any, int]) -> dict[Any, float]:
    total = sum(counts.values())
    return {key: count / total for key, count in counts.items()} if total else {}


def report_table(report: Mapping[str, Any]) -> str:
    """The report as text, a line a number; counts by kind with their shares."""
    lines = []
    for name, value in report.items():
        if name == "shares":
            continue
        if isinstance(value, Mapping):
            shares = report["shares"].get(name, {})
            items = [
                f"{key}: {count:,}" + (f" ({shares[key]:.1%})" if shares else "")
                for key, count in value.items()
            ]
            text = ", ".join(items) or "none"
        elif name.endswith("_share"):
            text = f"{value:.2%}"
        else:
            text = f"{value:,}"
        lines.append(f"{name.replace('_', ' '):<32}{text}")
    return "\n".join(lines)


def unknown_warning(report: Mapping[str, Any]) -> str:
    """What to say where the vocabulary does not know the text; else empty."""
    if report["unknown_share"] <= MAX_UNKNOWN_SHARE:
        return ""
    return (
        f"{report['unknown_share']:.1%} of the pieces are unknown to the vocabulary: "
        "check that it was made for this text, and --do_lower_case."
    )
