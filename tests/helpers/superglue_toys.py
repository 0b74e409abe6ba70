"""Tiny folders of SuperGLUE and XNLI, with the published names of files and fields."""

import json

import numpy as np

from helpers.fine_tuning_toys import BAD, GOOD, WORDS

FIELDS = {
    "BoolQ": ("passage", "question"),
    "CB": ("premise", "hypothesis"),
    "RTE": ("premise", "hypothesis"),
    "WiC": ("sentence1", "sentence2"),
}
LABELS = {
    "BoolQ": (False, True),
    "CB": ("contradiction", "entailment", "neutral"),
    "RTE": ("entailment", "not_entailment"),
    "WiC": (False, True),
}
SIZES = {"train": 13, "val": 7, "test": 5}


def _text(rng):
    return " ".join(rng.choice(WORDS, rng.integers(1, 6)))


def _write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_superglue(folder):
    """All tasks on sentences, COPA among them; returns the folder."""
    rng = np.random.default_rng(4)
    for name, fields in FIELDS.items():
        for split, count in SIZES.items():
            rows = []
            for place in range(count):
                row = {field: _text(rng) for field in fields}
                if name == "WiC":
                    row |= {"word": GOOD, "start1": 0, "end1": 3, "version": 1.1}
                if split != "test":
                    row["label"] = LABELS[name][place % len(LABELS[name])]
                rows.append({**row, "idx": place})
            _write(folder / name / f"{split}.jsonl", rows)
    for split, count in SIZES.items():
        rows = []
        for place in range(count):
            row = {n: _text(rng) for n in ("premise", "choice1", "choice2")}
            row["question"] = ("cause", "effect")[place % 2]
            if split != "test":
                row["label"] = place % 2
            rows.append({**row, "idx": place})
        _write(folder / "COPA" / f"{split}.jsonl", rows)
    return folder


def write_xnli(folder):
    """Two languages, of which one has a translation to train on; returns the folder."""
    rng = np.random.default_rng(5)
    labels = ("neutral", "contradiction", "entailment")
    (folder / "XNLI-1.0").mkdir(parents=True)
    for split, count in (("dev", 12), ("test", 9)):
        lines = ["language\tgold_label\tsentence1_parse\tsentence1\tsentence2\tpairID"]
        for place in range(count):
            language = ("de", "en", "de")[place % 3]
            cells = [language, labels[place % 3], "(ROOT)", _text(rng), _text(rng), "1"]
            lines.append("\t".join(cells))
        (folder / f"XNLI-1.0/xnli.{split}.tsv").write_text("\n".join(lines) + "\n")
    lines = ["premise\thypo\tlabel"]
    for place in range(11):
        label = ("neutral", "contradictory", "entailment")[place % 3]
        lines.append(f"{_text(rng)} {BAD}\t{_text(rng)}\t{label}")
    train = folder / "XNLI-MT-1.0/multinli/multinli.train.de.tsv"
    train.parent.mkdir(parents=True)
    train.write_text("\n".join(lines) + "\n")
    return folder
