"""Windows of long texts, by their properties over random lengths."""

import numpy as np
import pytest

from albert_tf.text import packing
from albert_tf.text.windows import WindowRule, windows_of


def cases(pair, count=300, longest=60):
    rng = np.random.default_rng(6)
    for _ in range(count):
        length = int(rng.integers(5, 20))
        rule = WindowRule(length, int(rng.integers(1, 25)), int(rng.integers(1, 7)))
        first = list(range(100, 100 + rng.integers(0, longest)))
        second = list(range(500, 500 + rng.integers(0, longest))) if pair else None
        yield rule, first, second


@pytest.mark.parametrize("pair", [False, True])
def test_windows_follow_each_other_without_a_gap(pair):
    several = truncated = 0
    for rule, first, second in cases(pair):
        found = windows_of(first, second, rule)
        special = 3 if pair else 2
        room = rule.max_seq_length - special
        longer, shorter = first, second or []
        if pair and len(second) > len(first):
            longer, shorter = second, first
        assert 1 <= len(found.segments) <= rule.max_windows
        kept = shorter[: room // 2]
        parts = []
        for a, b in found.segments:
            assert (b is None) == (not pair)
            assert len(a) + len(b or ()) <= room
            whole, part = (b, a) if longer is first else (a, b)
            if pair:
                assert whole == kept
            parts.append(part)
        # Each window begins at most a window after the one before it, and at the
        # stride if that is less.
        place, size = 0, room - len(kept)
        step = min(rule.doc_stride, size)
        for part in parts:
            assert part == longer[place : place + size]
            place += step
        seen = {token for part in parts for token in part}
        lost = set(longer) - seen or set(shorter) - set(kept)
        assert found.truncated == bool(lost)
        if len(parts) < rule.max_windows:
            assert seen == set(longer)
        several += len(parts) > 1
        truncated += found.truncated
    assert several > 50 and truncated > 50


@pytest.mark.parametrize("pair", [False, True])
def test_a_text_that_fits_is_the_row_that_it_is_without_windows(pair):
    checked = 0
    for rule, first, second in cases(pair, longest=9):
        room = rule.max_seq_length - (3 if pair else 2)
        if len(first) + len(second or ()) > room:
            continue
        [segments] = windows_of(first, second, rule).segments
        a, b = packing.truncate_longest_first(
            np.array([len(first)]), np.array([len(second or ())]), room
        )
        assert segments == (first[: a[0]], second[: b[0]] if pair else None)
        checked += 1
    assert checked > 20
