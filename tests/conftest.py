"""Fixtures that several test modules share."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from helpers.bucket_files import new_bucket
from helpers.paths import ROOT

# Before gcsfs is loaded, which would ask emulators for kinds of buckets they lack.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

# Two devices, so that replicas can be told from one; before TensorFlow starts.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

# Libraries keep millions of objects. A collection of garbage that visits them all takes
# up to minutes in a process that has run many tests.
gc.set_threshold(50_000, 20, 50)
gc.freeze()


@pytest.fixture(autouse=True)
def freed_graphs() -> Iterator[None]:
    """Frees a test's graphs, and excludes what is left from later collections."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def bucket() -> str:
    """A new bucket, in the memory of this process."""
    return new_bucket()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real data beside the checkout; tests that need it skip without it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real data is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of numbers frozen from the original ALBERT."""
    return ROOT / "tests" / "reference"


@pytest.fixture(autouse=True)
def own_collectives() -> None:
    """Keeps strategies of one test apart from those of tests before it.

    TensorFlow remembers, for the life of the process, which operation bore which key of
    a group of devices; another strategy's first operations would get the same keys.
    """
    tf.distribute.MirroredStrategy._collective_key_base += 1000
