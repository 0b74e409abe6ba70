"""Pictures of confusion matrices."""

import io

import numpy as np
import pytest
from matplotlib import image

from albert_tf.training import confusion
from albert_tf.training.glyphs import shown_names


@pytest.mark.parametrize("labels", [2, 7, 31, 61])
def test_pictures_grow_with_the_labels_up_to_a_bound(tmp_path, labels):
    rng = np.random.default_rng(1)
    matrix = rng.integers(0, 9, (labels, labels))
    names = [f"label {place}" for place in range(labels)]
    confusion.write_image(tmp_path, "dev", names, matrix.tolist())
    file = confusion.image_path(tmp_path, "dev")
    height, width, _ = image.imread(io.BytesIO(file.read_bytes()), "png").shape
    assert height == pytest.approx(100 * (3 + 0.35 * min(labels, 50)), abs=1)
    assert width == pytest.approx(height + 100, abs=1)


def test_files_of_another_kind_stay(tmp_path):
    confusion.check_outputs(tmp_path, ["dev"])
    confusion.write_image(tmp_path, "dev", ["a", "b"], [[1, 0], [2, 3]])
    confusion.check_outputs(tmp_path, ["dev"])
    confusion.image_path(tmp_path, "test").write_text("a diary")
    with pytest.raises(FileExistsError):
        confusion.check_outputs(tmp_path, ["dev", "test"])


def test_labels_that_no_font_or_formula_can_show_are_drawn(tmp_path):
    names = ["财经", "$a$b$", "x_{", "\\frac", "ok"]
    matrix = np.arange(25).reshape(5, 5)
    assert shown_names(names, range(5)) == ["0", *names[1:]]
    confusion.write_image(tmp_path, "dev", names, matrix.tolist())
    assert confusion.image_path(tmp_path, "dev").stat().st_size > 1000
