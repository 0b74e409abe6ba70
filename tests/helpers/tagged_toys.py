"""Sentences with tags in the toy language of `fine_tuning_toys`."""

import json

import numpy as np

from helpers.fine_tuning_toys import BAD, GOOD, WORDS

FIRST, LAST, OTHERS = WORDS[:5], WORDS[5:7], WORDS[7:]
LABELS = ["O", "B-bad", "I-bad", "B-good", "I-good"]


def sentences(count, seed, longest=12):
    """Sentences of many lengths with entities of one or two words, whose type another
    word tells that is anywhere in the sentence."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(count):
        cue, kind = ((GOOD, "good"), (BAD, "bad"))[place % 2]
        words, tags = [], []
        for _ in range(rng.integers(1, longest)):
            if rng.random() < 0.4:
                words.append(str(rng.choice(FIRST)))
                tags.append(f"B-{kind}")
                if rng.random() < 0.5:
                    words.append(str(rng.choice(LAST)))
                    tags.append(f"I-{kind}")
            else:
                words.append(str(rng.choice(OTHERS)))
                tags.append("O")
        # Not within an entity.
        places = [p for p, tag in enumerate([*tags, "O"]) if tag[0] != "I"]
        at = int(rng.choice(places))
        words.insert(at, cue)
        tags.insert(at, "O")
        found.append((words, tags))
    return found


def write_conll(path, pairs):
    """A file of two columns."""
    blocks = ["".join(f"{w}\t{t}\n" for w, t in zip(*p, strict=True)) for p in pairs]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def write_tokens(path, pairs):
    """JSON lines of tokens and tags."""
    lines = [json.dumps({"tokens": words, "tags": tags}) for words, tags in pairs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
