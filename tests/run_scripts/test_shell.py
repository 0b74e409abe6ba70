"""Shell scripts paste no value into code."""

import re
import subprocess

import pytest

from albert_tf.files import write_json
from helpers.paths import ROOT
from helpers.scripts import succeed

SHELL = sorted((ROOT / "run_scripts").glob("*.sh"))
# The code of `python -c` in double quotes, and of other ways to run a text.
PASTED = re.compile(
    r'python[0-9.]* -c "|^\s*eval\b|\bbash -c "|\bsh -c "|<<[A-Z]+$', re.M
)


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_no_value_is_pasted_into_code(path):
    assert not PASTED.search(path.read_text(encoding="utf-8"))
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


@pytest.mark.parametrize(
    "name", ["it's mine", "a'+__import__('os').getcwd()+'b", 'two "quotes" $HOME `x`']
)
def test_the_quick_start_reads_its_progress_from_any_folder(name, tmp_path):
    folder = tmp_path / name / "model"
    folder.mkdir(parents=True)
    results = {"status": "out of time", "global_step": 7}
    write_json(folder / "results.json", results)
    printed = succeed("quickstart/status.py", f"--output_dir={folder}", cwd=tmp_path)
    assert printed == "out-of-time 7\n"
    # As the script calls it.
    line = 'python "$scripts/quickstart/status.py" --output_dir="$output/model"'
    assert line in (ROOT / "run_scripts" / "quickstart.sh").read_text()
