"""Makes what this folder holds, with the version whose files are to be kept.

    cd tests && python -m previous_version.make

Never again with a later version: the test compares that version with this one.
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

from previous_version import commands, evidence
from previous_version.make_inputs import Inputs
from previous_version.runner import Runner

FOLDER = Path(__file__).resolve().parent
# SavedModels that are kept, packed: their graphs have many bytes that are alike.
_KEPT_EXPORTS = ("exported_table", "exported_squad_v2")
# What a folder of a model needs to be loaded, predicted with, exported, converted.
_UNUSED = ("cache", "train", "eval", "predictions", ".lock")


def main():
    for name in ("inputs", "models", "stopped", "expected", "saved_models"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder, Runner() as runner:
        work = Path(folder)
        Inputs(work / "inputs").make_all()
        train_vocabulary = [
            "train_sentencepiece.py",
            "--input_file=inputs/text.txt",
            "--model_prefix=inputs/spiece",
            "--vocab_size=50",
        ]
        run(runner, work, [train_vocabulary])
        run(runner, work, [commands.RECORDS["records_sop"]])
        shutil.copytree(work / "out" / "records_sop", work / "inputs" / "records")
        run(runner, work, [*commands.TRAIN.values()])
        stopped = [[*each, commands.STOP] for each in commands.RESUMED.values()]
        run(runner, work, stopped)
        for source, target in (
            (commands.TRAIN, "models"),
            (commands.RESUMED, "stopped"),
        ):
            for name in source:
                shutil.copytree(work / "out" / name, work / target / name)
                trim(work / target / name, target == "models")
        for name in ("inputs", "models", "stopped"):
            shutil.copytree(work / name, FOLDER / name)
        for vocabulary in FOLDER.rglob("*/spiece.model"):
            share_vocabulary(vocabulary)
        shutil.rmtree(work / "out")
        shutil.copytree(work / "stopped", work / "out")
        write_expected(runner, work)


def run(runner: Runner, work: Path, lines: list[list[str]]) -> list[str]:
    """Runs commands, none of which may fail; returns their output."""
    found = runner.run(work, lines)
    for line, done in zip(lines, found, strict=True):
        assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
    return [done.out for done in found]


def trim(folder: Path, best_only: bool) -> None:
    """Removes what no command needs; of a finished run all but the best weights."""
    for path in sorted(folder.rglob("*"), reverse=True):
        has_best = best_only and (path.parent / "best").is_dir()
        unused = path.name in _UNUSED or "predictions" in path.name
        if path.name.startswith(("model.ckpt-", "checkpoint")):
            unused = has_best or path.match("model.ckpt-0.*")
        if path.is_dir() and unused:
            shutil.rmtree(path)
        elif unused:
            path.unlink()


def share_vocabulary(path: Path) -> None:
    """Replaces a copy of the vocabulary, 240 kB, by a link to the one in `inputs`."""
    whole = FOLDER / "inputs" / "spiece.model"
    if path != whole:
        up = len(path.parent.relative_to(FOLDER).parts)
        path.unlink()
        path.symlink_to(Path(*[".."] * up, "inputs", "spiece.model"))


def write_expected(runner: Runner, work: Path) -> None:
    """Runs what the test will run, and keeps what that leaves."""
    out, expected = work / "out", FOLDER / "expected"
    run(runner, work, [*commands.RECORDS.values(), *commands.PREDICTED.values()])
    run(runner, work, [*commands.RESUMED.values()])
    for name in (*commands.PREDICTED, *commands.RESUMED):
        keep_results(out / name, expected / name)
    write_json(expected / "records.json", evidence.records(out))
    printed = run(runner, work, [*commands.ASKED.values()])
    write_json(expected / "asked.json", dict(zip(commands.ASKED, printed, strict=True)))
    run(runner, work, [*commands.EXPORTED.values(), *commands.CONVERTED.values()])
    conversions = {name: evidence.conversion(out / name) for name in commands.CONVERTED}
    write_json(expected / "converted.json", conversions)
    for name in commands.EXPORTED:
        np.savez(expected / f"{name}.npz", **evidence.answers(out / name / "1"))
    for name in _KEPT_EXPORTS:
        target = FOLDER / "saved_models" / name
        target.parent.mkdir(exist_ok=True)
        shutil.make_archive(str(target), "xztar", out / name)


def keep_results(folder: Path, target: Path) -> None:
    """Copies results, predictions, and the last checkpoint of a run that trained."""
    steps = [int(path.stem.split("-")[1]) for path in folder.glob("model.ckpt-*.index")]
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_result = name.parts[0] in ("predictions", "GLUE") or (
            len(name.parts) == 1
            and ("results" in path.name or "predictions" in path.name)
        )
        is_last = steps and path.match(f"model.ckpt-{max(steps)}.*")
        if path.is_file() and (is_result or (is_last and len(name.parts) == 1)):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)


def write_json(path: Path, content) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
