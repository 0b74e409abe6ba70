"""Fixtures of the tests of training."""

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.sidecar import read_record_set
from helpers.tiny import random_rows, write_rows


@pytest.fixture(scope="module", autouse=True)
def graphs_as_written() -> Iterator[None]:
    """Runs graphs without optimizing them, which takes longer than these few steps.

    The tests that start processes train with optimized graphs.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A set of two files, 11 and 6 rows."""
    folder = tmp_path_factory.mktemp("rows")
    paths = [write_rows(folder / f"{n}.tfrecord", n, seed=n) for n in (11, 6)]
    return read_record_set(paths, {})


@pytest.fixture(scope="module")
def features():
    """A batch of four random rows of pretraining."""
    rows = list(random_rows(4, np.random.default_rng(3)))
    batch = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {
        name: tf.constant(values, tf.int32 if values.dtype == np.int64 else None)
        for name, values in batch.items()
    }
