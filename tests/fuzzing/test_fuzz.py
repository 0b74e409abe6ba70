"""The checks that judge a case, on made-up endings of commands."""

import numpy as np
import pytest

from fuzzing import fuzz, mutations


@pytest.mark.parametrize(
    ("code", "errors", "verdict"),
    [
        (0, "", "good"),
        (1, "ERROR: inputs/text.txt is empty.\n", "good"),
        (2, "ERROR: Unknown flag --x.\n", "good"),
        (1, "ERROR: MemoryError\n", "vague"),
        (1, "ERROR: one --a\nERROR: two --b\n", "bad"),
        (1, "Traceback (most recent call last):\nKeyError: 3\n", "bad"),
        (1, "ERROR: inputs" + "x" * 2_000, "bad"),
        (1, "", "bad"),
        (-11, "ERROR: inputs", "bad"),
        (None, "", "bad"),
    ],
)
def test_a_command_must_end_in_one_line(tmp_path, code, errors, verdict):
    assert fuzz._judge(code, errors, 0, "x: cut", tmp_path, {})[0] == verdict


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (".rows.partial", "", "left behind"),
        ("results.json", '{"a": NaN}', "NaN"),
        ("results.json", '{"a": 1', "delimiter"),
    ],
)
def test_what_a_command_leaves_is_checked(tmp_path, name, content, reason):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(content)
    verdict, why = fuzz._judge(0, "", 0, "x: cut", tmp_path, {})
    assert verdict == "bad" and reason in why


def test_a_changed_input_is_bad(tmp_path):
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "text.txt").write_text("a")
    before = fuzz._fingerprint(tmp_path)
    assert fuzz._judge(0, "", 0, "x: cut", tmp_path, before)[0] == "good"
    (tmp_path / "inputs" / "text.txt").write_text("b")
    assert fuzz._judge(0, "", 0, "x: cut", tmp_path, before)[0] == "bad"


def test_exit_code_0_on_a_damaged_binary_file_is_silent(tmp_path):
    damage = "models/cola/model.ckpt-8.index: cut to 3 of 9 bytes"
    assert fuzz._judge(0, "", 0, damage, tmp_path, {})[0] == "silent"


def test_the_same_number_makes_the_same_damage(tmp_path):
    descriptions = []
    for attempt in range(2):
        folder = tmp_path / str(attempt) / "inputs"
        folder.mkdir(parents=True)
        path = folder / "values.json"
        rng = np.random.default_rng(4)
        found = []
        for _ in range(60):
            path.write_text('{"a": [1, {"b": null}], "c": "d\\n"}\n')
            (folder / "other.txt").write_text("one\ntwo\n")
            found.append((mutations.damage_file(rng, path), _content(path)))
        descriptions.append(found)
    assert descriptions[0] == descriptions[1]
    assert len({what for what, _ in descriptions[0]}) > 25


def _content(path):
    """The content of a damaged file, which is removed."""
    if path.is_symlink() or path.is_file():
        content = path.read_bytes() if not path.is_symlink() else b""
        path.unlink()
        return content
    if path.is_dir():
        path.rmdir()
    return None
