"""Loops adapt to what a step costs, where no flag says their length."""

import itertools

from albert_tf.training.loop_length import SECONDS_PER_LOOP, LoopLength


def loops(seconds_per_step, count, first=0.0):
    """The lengths of loops whose first step takes `first` seconds more."""
    loop, lengths = LoopLength(0, is_tpu=False), []
    for number in range(count):
        lengths.append(loop.steps)
        loop.learn(loop.steps, loop.steps * seconds_per_step + first * (number == 0))
    return lengths


def test_loops_grow_to_the_time_that_they_are_to_take():
    lengths = loops(0.01, 8, first=31.0)
    assert lengths[:2] == [1, 1], "the first step traces the graph"
    assert lengths[-1] == SECONDS_PER_LOOP / 0.01
    assert all(after <= 8 * before for before, after in itertools.pairwise(lengths))


def test_slow_steps_are_looped_one_by_one():
    assert set(loops(41.0, 5)) == {1}


def test_loops_shrink_when_steps_get_slower():
    loop = LoopLength(0, is_tpu=False)
    loop.learn(1, 1e-3)
    loop.learn(8, 8e-3)
    assert loop.steps == 64
    loop.learn(64, 64 * 2.0)
    assert loop.steps == 4


def test_a_number_that_is_given_stays():
    loop = LoopLength(37, is_tpu=False)
    loop.learn(37, 1e-3)
    assert loop.steps == 37


def test_tpus_keep_long_loops():
    loop = LoopLength(0, is_tpu=True)
    loop.learn(1_000, 0.5)
    assert loop.steps == 1_000
