"""Learning curves of runs, from their TensorBoard events, as a PNG and an HTML page."""

import base64
import html
import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import tensorflow as tf

from albert_tf import files, storage
from albert_tf.checkpoints.output_names import RESULTS_FILE, SETTINGS_FILE
from albert_tf.file_kinds import check_replaceable
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.training.glyphs import shown_names

CURVES_IMAGE, CURVES_PAGE = "curves.png", "curves.html"
# What a curve is of -> the subfolder of a run that holds its events.
_SUBFOLDERS = {"training": "train", "evaluation": "eval"}
_LINES: dict[str, Any] = {"training": "-", "evaluation": "--"}
# Numbers in events that are no learning curve.
_HIDDEN = {
    *("rows", "steps_per_second", "eval_examples_per_second"),
    *("waiting_for_input", "minutes_left", "skipped_steps", "loss_scale"),
    "masked_tokens_cut",
}
# Panels after those of losses and metrics.
_LAST = ("learning_rate", "gradient_norm", "examples_per_second")
SOFTWARE = "albert-tf learning curves"
# The beginnings by which `file_kinds` knows both files.
_PAGE_HEAD = "<!DOCTYPE html>\n<!-- albert-tf learning curves -->\n"
IMAGE_HEAD = f"\x89PNG\r\n\x1a\n Software\0{SOFTWARE}".encode("latin-1")
_STYLE = (
    "body { font-family: sans-serif; margin: 2em; } img { max-width: 100%; } "
    "th, td { padding: 0.2em 1em; text-align: right; } "
    "th:first-child { text-align: left; }"
)
_COLUMNS = 3
# Curves of no more points have a dot at each.
_FEW_POINTS = 30


class Curve(NamedTuple):
    """A number over the steps of a run.

    Attributes:
      steps: optimizer steps, rising, int64 [N].
      values: the number after each of them, float64 [N].
    """

    steps: np.ndarray
    values: np.ndarray


# Name of the number -> "training" or "evaluation" -> its curve.
Curves = dict[str, dict[str, Curve]]


def read_curves(run: PathLike) -> Curves:
    """Reads the learning curves of a run, finished or not, from its events.

    A resumed run has several files of events. Of a step that several have, the event
    that was written last counts.

    Args:
      run: the output folder of the run.
    Returns:
      The curves: losses, metrics, learning rate, norm of gradients, and throughput, in
      this order; empty if there are no events.
    Raises:
      ValueError: the path's scheme is unknown.
      OSError: a file cannot be read.
    """
    found: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for phase, subfolder in _SUBFOLDERS.items():
        folder = as_path(run) / subfolder
        for name in sorted(storage.entries(folder).files):
            if not name.startswith("events.out.tfevents."):
                continue
            for tag, step, event in _scalars(folder / name):
                # Tasks with predictions report their loss in evaluation as eval_loss.
                number = tag.removeprefix("eval_")
                if tag not in _HIDDEN:
                    points = found.setdefault((number, phase), {})
                    points[step] = max(points.get(step, event), event)
    curves: Curves = {}
    for number, phase in sorted(found, key=_place):
        points = found[number, phase]
        steps = sorted(points)
        values = [points[step][1] for step in steps]
        curves.setdefault(number, {})[phase] = Curve(
            np.array(steps, np.int64), np.array(values, np.float64)
        )
    return curves


def _place(key: tuple[str, str]) -> tuple[int, str, bool]:
    """Sorts losses before metrics before `_LAST`, and training before evaluation."""
    number, phase = key
    rank = _LAST.index(number) + 2 if number in _LAST else not number.endswith("loss")
    return int(rank), number, phase != "training"


def _scalars(file: AnyPath) -> Iterator[tuple[str, int, tuple[float, float]]]:
    """Yields (tag, step, (time, value)) of each number in a file of events."""
    count = 0
    with storage.local_copy(file) as path:
        try:
            for record in tf.data.TFRecordDataset(str(path)):
                event = tf.compat.v1.Event.FromString(record.numpy())
                count += 1
                for value in event.summary.value:
                    array = tf.make_ndarray(value.tensor)
                    if array.ndim == 0:
                        yield value.tag, event.step, (event.wall_time, float(array))
        except tf.errors.DataLossError:
            # A process that was killed leaves half an event.
            print(
                f"WARNING: {file} breaks off after {count} events; the curves have "
                "these.",
                flush=True,
            )


def draw(runs: Mapping[str, Curves]) -> bytes:
    """Draws curves as a PNG, a panel for each number, a color for each run.

    Args:
      runs: name -> curves of a run, which are not all empty.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    numbers, colors = _numbers(runs), _colors(len(runs))
    rows = -(-len(numbers) // _COLUMNS)
    # Inches. A layout engine would take as long as the drawing.
    legend = 0.35 + 0.21 * (len(_LINES) + len(runs) * (len(runs) > 1))
    height = 2.8 * rows + legend
    figure = Figure(figsize=(4 * _COLUMNS, height))
    margins = {"top": 1 - 0.35 / height, "bottom": (0.6 + legend) / height}
    figure.subplots_adjust(left=0.06, right=0.985, wspace=0.22, hspace=0.4, **margins)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).flat
    # In this order, since the shorter one must be asked first.
    for number, axes in zip(numbers, panels, strict=False):
        for curves, color in zip(runs.values(), colors, strict=True):
            for phase, (steps, values) in curves.get(number, {}).items():
                style = {"linestyle": _LINES[phase], "color": color, "linewidth": 1}
                marker = "." if len(steps) <= _FEW_POINTS else ""
                axes.plot(steps, values, marker=marker, **style)
        axes.set(title=number.replace("_", " "), xlabel="step")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
    for axes in panels:  # those that are left
        axes.set_visible(False)
    _add_legend(figure, list(runs), colors)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=90, metadata={"Software": SOFTWARE})
    return image.getvalue()


def _colors(count: int) -> list[Any]:
    import matplotlib

    if count <= 10:
        return [matplotlib.colormaps["tab10"](number) for number in range(count)]
    return [matplotlib.colormaps["turbo"](n / (count - 1)) for n in range(count)]


def _add_legend(figure: Any, names: list[str], colors: list[Any]) -> None:
    """Tells runs, if there are several, by color, and training from evaluation."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color="gray", linestyle=each) for each in _LINES.values()]
    labels = list(_LINES)
    if len(names) > 1:
        handles += [Line2D([], [], color=color) for color in colors]
        # Without the blank, names that begin with "_" would be left out.
        shown = shown_names(names, range(1, len(names) + 1))
        labels += [f" {name}" for name in shown]
    legend = figure.legend(handles, labels, loc="lower center")
    for text in legend.get_texts():
        text.set_parse_math(False)


def _numbers(runs: Mapping[str, Curves]) -> list[str]:
    """The names of all numbers that runs have, in the order of `read_curves`."""
    names = {number for curves in runs.values() for number in curves}
    return sorted(names, key=lambda number: _place((number, "")))


def make_page(
    runs: Mapping[str, Curves], image: bytes, links: Mapping[str, Mapping[str, str]]
) -> bytes:
    """Makes a page that needs no other file: the figure and a table of last values.

    Args:
      runs: name -> curves of a run.
      image: the figure, a PNG.
      links: name of the run -> name of a file -> its address.
    """
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in runs)
    rows = [f"<tr><th>last values</th>{cells}</tr>"]
    for number in _numbers(runs):
        for phase in _SUBFOLDERS:
            last = [
                _last(curves.get(number, {}).get(phase)) for curves in runs.values()
            ]
            if any(last):
                title = html.escape(f"{number.replace('_', ' ')}, {phase}")
                cells = "".join(f"<td>{each}</td>" for each in last)
                rows.append(f"<tr><th>{title}</th>{cells}</tr>")
    cells = "".join(f"<td>{_anchors(links[name])}</td>" for name in runs)
    rows.append(f"<tr><th>files</th>{cells}</tr>")
    table = "\n".join(rows)
    picture = base64.b64encode(image).decode()
    title = html.escape(f"Learning curves of {', '.join(runs)}")
    return (
        f'{_PAGE_HEAD}<html lang="en">\n<head><meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f'<h1>{title}</h1>\n<img alt="{title}" src="data:image/png;base64,{picture}">\n'
        f"<table>\n{table}\n</table>\n</body>\n</html>\n"
    ).encode()


def _last(curve: Curve | None) -> str:
    """The last value and its step; empty: there is none."""
    if curve is None:
        return ""
    return f"{curve.values[-1]:.5g} (step {curve.steps[-1]:,})"


def _anchors(links: Mapping[str, str]) -> str:
    return " ".join(
        f'<a href="{html.escape(address)}">{html.escape(name)}</a>'
        for name, address in links.items()
    )


def links_to(run: PathLike, page: PathLike) -> dict[str, str]:
    """Addresses of the settings and results of a run, for a page.

    Args:
      run: the output folder.
      page: path of the page. Between local paths addresses are relative.
    Returns:
      Name of the file -> address, of the files that are there.
    """
    folder, target = as_path(run), as_path(page).parent
    there = storage.entries(folder).files
    names = [name for name in (SETTINGS_FILE, RESULTS_FILE) if name in there]
    if folder == target:
        return {name: name for name in names}
    if isinstance(folder, Path) and isinstance(target, Path):
        place = quote(os.path.relpath(folder, target))
    else:
        place = (
            str(folder) if not isinstance(folder, Path) else folder.resolve().as_uri()
        )
    return {name: f"{place}/{name}" for name in names}


def check_outputs(folder: PathLike) -> None:
    """Raises FileExistsError if curves would replace a file of another kind."""
    for name in (CURVES_IMAGE, CURVES_PAGE):
        check_output(as_path(folder) / name)


def check_output(path: PathLike) -> None:
    """Checks the path of a figure or page.

    Raises:
      ValueError: it ends neither in .png nor in .html.
      FileExistsError: a file of another kind is there.
    """
    is_page = _is_page(path)
    check_replaceable(path, _PAGE_HEAD.encode() if is_page else IMAGE_HEAD)


def _is_page(path: PathLike) -> bool:
    suffix = as_path(path).suffix.lower()
    if suffix not in (".png", ".html"):
        raise ValueError(
            f"{path} must end in .png (a figure) or .html (a page): give it another "
            "name."
        )
    return suffix == ".html"


def write_comparison(runs: Mapping[str, Curves], path: PathLike) -> None:
    """Writes the curves of runs, each by its folder, as a figure or a page.

    Args:
      runs: output folder -> curves.
      path: a path that `check_output` allows.
    Raises:
      ValueError, FileExistsError, OSError: as `check_output` and `files.write_whole`.
    """
    content = draw(runs)
    if _is_page(path):
        content = make_page(runs, content, {run: links_to(run, path) for run in runs})
    files.write_whole(path, content)


def write_curves(run: AnyPath, check: Callable[[], None]) -> None:
    """Writes the curves of a run into its folder, if it has any events.

    Args:
      run: the output folder.
      check: raises OSError once another process writes the same run.
    Raises:
      OSError: a file cannot be written, or `check` says so.
    """
    name = storage.resolve(run).name
    curves = {name: read_curves(run)}
    if not curves[name]:
        return
    image = draw(curves)
    page = make_page(curves, image, {name: links_to(run, run / CURVES_PAGE)})
    for file, content in {CURVES_PAGE: page, CURVES_IMAGE: image}.items():
        check()
        files.write_whole(run / file, content)
