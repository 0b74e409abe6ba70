"""Fixtures of the tests of training."""

from collections.abc import Iterator

import pytest
import tensorflow as tf


@pytest.fixture(scope="module", autouse=True)
def graphs_as_written() -> Iterator[None]:
    """Runs graphs without optimizing them, which takes longer than these few steps.

    The tests that start processes train with optimized graphs.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
