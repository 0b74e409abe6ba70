"""Pictures of the confusion matrices of a classifier's splits."""

import io
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.files import write_whole
from albert_tf.storage import AnyPath
from albert_tf.training.curves import SOFTWARE, check_output
from albert_tf.training.glyphs import shown_names

# Of more labels the picture has the most frequent ones.
MOST_LABELS = 50
# Of fewer labels the cells have their numbers.
_MOST_NUMBERED = 20


def image_path(folder: AnyPath, split: str) -> AnyPath:
    """The picture of a split."""
    return folder / f"confusion_matrix_{split}.png"


def check_outputs(folder: AnyPath, splits: Iterable[str]) -> None:
    """Raises FileExistsError if pictures would replace files of another kind."""
    for split in splits:
        check_output(image_path(folder, split))


def write_image(
    folder: AnyPath, split: str, labels: Sequence[str], matrix: Sequence[Sequence[int]]
) -> None:
    """Draws a confusion matrix and writes it into a folder, a PNG.

    Args:
      folder: the folder.
      split: its name.
      labels: names of the labels.
      matrix: number of rows, by true label and by predicted one. The colors show them
        as shares of the true label's rows.
    """
    write_whole(image_path(folder, split), draw(split, labels, np.array(matrix)))


def draw(split: str, labels: Sequence[str], matrix: np.ndarray) -> bytes:
    """Draws a confusion matrix, a PNG; as `write_image`."""
    # Of all commands only those that draw wait for these.
    from matplotlib.figure import Figure
    from sklearn.metrics import ConfusionMatrixDisplay

    title = f"{split}: {matrix.sum():,} rows"
    places = np.arange(len(labels))
    if len(labels) > MOST_LABELS:
        kept = np.sort(np.argsort(-matrix.sum(axis=1), kind="stable")[:MOST_LABELS])
        title += f", the {MOST_LABELS} most frequent of {len(labels)} labels"
        matrix, labels = matrix[np.ix_(kept, kept)], [labels[place] for place in kept]
        places = kept
    shown = shown_names(labels, places)
    if shown != list(labels):
        title += "; numbers are places in task.json"
    rows = matrix.sum(axis=1, keepdims=True)
    shares = matrix / np.maximum(rows, 1)
    size = 3 + 0.35 * len(labels)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axes = figure.subplots()
    display = ConfusionMatrixDisplay(shares, display_labels=shown)
    display.plot(
        ax=axes,
        include_values=False,
        cmap="Blues",
        xticks_rotation="vertical",
        im_kw={"vmin": 0.0, "vmax": 1.0},
    )
    if len(labels) <= _MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(matrix):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count}", ha="center", va="center", color=color)
    # A dollar sign is no formula.
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    axes.set_title(title)
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": SOFTWARE})
    return content.getvalue()
