"""Fixtures of the tests of the package without torch."""

import sys
from collections.abc import Callable

import psutil
import pytest


@pytest.fixture
def bytes_read() -> Callable[[], int]:
    """How many bytes this process has read from files so far, from the cache or the disk."""
    if sys.platform != "linux":
        pytest.skip("only Linux counts them")
    return lambda: psutil.Process().io_counters().read_chars
