"""The record files of a run: their names, the finished ones, and the report on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from albert_tf.file_kinds import check_replaceable, check_suffix
from albert_tf.files import json_bytes
from albert_tf.records.features import MAX_DOCUMENTS
from albert_tf.records.file_names import shard_paths
from albert_tf.records.sidecar import read_metadata, sidecar_path
from albert_tf.records.writer import check_output
from albert_tf.storage import as_path
from data_prep.corpus.files import absolute, make_writable_folder, map_files
from data_prep.corpus.statistics import Statistics
from data_prep.pretraining.config import WITHOUT_LABEL

# A larger share of unknown tokens means that vocabulary and text do not fit.
MAX_UNKNOWN_SHARE = 0.02


@dataclass(frozen=True)
class Outputs:
    """All record files of a text, some of which this run makes.

    Attributes:
      paths: all files.
      first, end: half-open range of those that this run makes.
    """

    paths: tuple[str, ...]
    first: int
    end: int

    @property
    def own(self) -> range:
        """Numbers of the files that this run makes."""
        return range(self.first, self.end)

    @property
    def own_paths(self) -> tuple[str, ...]:
        """The files that this run makes."""
        return self.paths[self.first : self.end]

    @property
    def report_path(self) -> str:
        """The report's file, which lies beside the first record file."""
        name = "report.json"
        if len(self.own) < len(self.paths):
            name = f"report-{self.first:05d}-{self.end:05d}.json"
        return str(as_path(self.paths[0]).with_name(name))

    def all_finished(self) -> bool:
        """Tells whether every file is there, also those of other runs."""
        return all(map_files(is_finished, self.paths, self.paths))


def expand_outputs(outputs: str, shard_range: str = "", check: bool = True) -> Outputs:
    """Parses names of files, and proves that they can be written.

    Call it before the work starts, which may take hours.

    Args:
      outputs: a comma list of files, or of NAME@N for `NAME-00000-of-N` and so on.
      shard_range: FIRST:END, half-open, of the files to make; empty for all.
      check: False to make no folder and write nothing.
    Raises:
      ValueError: no file is named, or one twice, or a folder; a name is that of
        another kind of file; no such range.
      FileExistsError: a file of another kind would be replaced.
      OSError: a folder cannot be made or written.
    """
    names = [name.strip() for name in outputs.split(",") if name.strip()]
    paths = tuple(path for name in names for path in shard_paths(name))
    if not paths or len(set(map(absolute, paths))) < len(paths):
        raise ValueError(
            "The output files must be named, separated by commas, each once. "
            f"Received {outputs!r}."
        )
    for path in paths:
        check_suffix(path, "records")
    first, end = _parse_range(shard_range, len(paths))
    result = Outputs(paths, first, end)
    if result.report_path in map(str, map(sidecar_path, paths)):
        raise ValueError(
            f"{result.report_path} is the name of the report, and of the sidecar of a "
            "file named report: give that another name."
        )
    if not check:
        return result
    for path in paths[first:end]:
        if path.endswith("/") or as_path(path).is_dir():
            raise ValueError(f"{path} is a folder: name a file to write in it.")
    for folder in sorted({str(as_path(path).parent) for path in paths[first:end]}):
        make_writable_folder(folder, "output_file")
    for path in result.own_paths:
        check_output(path)
    check_replaceable(result.report_path, json_bytes({"shards": 0, "shares": {}}))
    return result


def _parse_range(shard_range: str, count: int) -> tuple[int, int]:
    if not shard_range:
        return 0, count
    first, colon, end = shard_range.partition(":")
    if colon and first.isdecimal() and end.isdecimal():
        numbers = int(first), int(end)
        if 0 <= numbers[0] < numbers[1] <= count:
            return numbers
    raise ValueError(
        f"shard_range must be FIRST:END within 0:{count}, as 0:{count} itself. "
        f"Received {shard_range!r}."
    )


def is_finished(path: str) -> bool:
    """Tells whether a file is there with its sidecar, which is written last."""
    return as_path(path).exists() and sidecar_path(path).exists()


def finished_sidecars(
    outputs: Outputs, expected: Mapping[str, Any]
) -> dict[int, dict[str, Any]]:
    """Reads the sidecars of this run's files that an earlier run finished.

    Args:
      outputs: the files.
      expected: values that every sidecar must have.
    Returns:
      Sidecars by number of the file.
    Raises:
      ValueError: a file was made with another configuration, or is damaged.
    """
    sidecars = {}
    for number in outputs.own:
        path = outputs.paths[number]
        if not is_finished(path):
            continue
        sidecar = read_metadata(path)
        # Rows that are not packed lack this key.
        for key, value in {MAX_DOCUMENTS: None, **expected, "shard": number}.items():
            if sidecar.get(key) != value:
                raise ValueError(
                    f"{path} is there already, made with {key}={sidecar.get(key)}, but "
                    f"{key}={value} is asked for: name another --output_file, or "
                    "remove the old files and their sidecars."
                )
        sidecars[number] = sidecar
    return sidecars


@dataclass
class RunFigures:
    """Time and memory of a run; unlike the rest they differ from run to run.

    Attributes:
      input_bytes: of all input files; packed bytes of packed files.
      shards_kept: shards that an earlier run had finished.
      text_seconds: until the text was tokenized.
      seconds: of the whole run.
      peak_memory_bytes: sum of the peak resident sizes of all processes.
    """

    input_bytes: int
    shards_kept: int = 0
    text_seconds: float = 0.0
    seconds: float = 0.0
    peak_memory_bytes: int = 0


def make_report(
    sidecars: Sequence[Mapping[str, Any]], figures: RunFigures
) -> dict[str, Any]:
    """Adds up the counts in the sidecars of a run's shards.

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
        for name, value in total.to_dict().items()
    }
    return {
        "shards": len(sidecars),
        **counts,
        "unknown_share": total.unknown_pieces / total.pieces,
        **padding_shares(total, MAX_DOCUMENTS in sidecars[0]),
        "shares": {
            name: _shares(counts[name])
            for name in ("pair_labels", "ngrams_drawn", "ngrams_placed", "replacements")
        },
        "record_bytes": sum(sidecar["bytes"] for sidecar in sidecars),
        "input_bytes": figures.input_bytes,
        "shards_kept_from_earlier_runs": figures.shards_kept,
        "seconds": round(figures.seconds, 3),
        "text_seconds": round(figures.text_seconds, 3),
        # The input counts once, although each duplicate of it became rows.
        "input_megabytes_per_second": round(
            figures.input_bytes / 1e6 / figures.seconds, 3
        ),
        "peak_memory_megabytes": round(figures.peak_memory_bytes / 1e6, 1),
    }


def padding_shares(statistics: Statistics, is_packed: bool) -> dict[str, float]:
    """Returns the shares of padding in rows as they are and, of packed rows, with a row
    for each pair."""
    places = statistics.row_pieces + statistics.padding_pieces
    shares = {"padding_share": statistics.padding_pieces / places}
    if is_packed:
        length = places // statistics.rows
        alone = statistics.pair_labels.total() * length
        shares["unpacked_padding_share"] = 1.0 - statistics.row_pieces / alone
    return shares


def _shares(counts: Mapping[Any, int]) -> dict[Any, float]:
    total = sum(counts.values())
    return {key: count / total for key, count in counts.items()} if total else {}


def report_table(report: Mapping[str, Any]) -> str:
    """Formats a report as text, a line a number; counts by kind with their shares."""
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
            lines.append(table_line(name, ", ".join(items) or "none"))
        else:
            lines.append(table_line(name, value))
    return "\n".join(lines)


def table_line(name: str, value: Any) -> str:
    """Formats a name and its value: a share as percentage, a number with commas."""
    if isinstance(value, str):
        text = value
    elif name.endswith("_share"):
        text = f"{value:.2%}"
    else:
        text = f"{value:,}"
    return f"{name.replace('_', ' '):<32}{text}"


def label_warning(report: Mapping[str, Any]) -> str:
    """Returns a warning if most pairs have no order label; else an empty text."""
    without = report.get("pair_labels", {}).get(WITHOUT_LABEL, 0)
    if without <= report["rows"] / 2:
        return ""
    return (
        f"{without:,} of {report['rows']:,} rows are of one sentence, or of a part of "
        "one, so that they have no order to learn: check --input_format (lines: a "
        "sentence a line, raw: running text), or raise --max_seq_length."
    )


def unknown_warning(report: Mapping[str, Any]) -> str:
    """Returns a warning if the vocabulary does not fit the text; else an empty text."""
    if report["unknown_share"] <= MAX_UNKNOWN_SHARE:
        return ""
    return (
        f"{report['unknown_share']:.1%} of the tokens are unknown to the vocabulary: "
        "check that it was made for this text, and --do_lower_case."
    )
