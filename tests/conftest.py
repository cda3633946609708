"""Fixtures of all tests; those that need a GPU are skipped where there is none."""

import gc
import os
import signal
import sqlite3
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.left_behind import shared_state
from tests.own_user import own_current_folder, own_user
from tests.processors import comparing

# The many processes that tests start would compile the whole program each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection() -> None:
    # Nearly all that importing makes stays to the end: collecting garbage meanwhile takes a fifth
    # of the time.
    gc.disable()


@pytest.hookimpl(tryfirst=True)  # before marks select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests of the window wait for much: first, so that another worker computes meanwhile.
    items.sort(key=lambda item: item.get_closest_marker("gui") is None)
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in comparing(item.path):
            item.add_marker(pytest.mark.numeric)
    needing = [item for item in items if item.get_closest_marker("cuda")]
    if needing and not _has_cuda():
        for item in needing:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here"))


def _has_cuda() -> bool:
    import torch  # only here: seconds that a run without such tests need not spend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old driver warns, and means no
        return torch.cuda.is_available()


def pytest_collection_finish() -> None:
    # Nor are a million objects of libraries and tests gone through later.
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Presets, queue and owners of devices are not those of whoever tests, nor other processes'."""
    with own_user(tmp_path_factory.mktemp("user")):
        yield


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> None:
    """Processes obey them, also where tests run under nohup or in the background of a shell.

    What is ignored stays so in every process that is started.
    """
    for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing that tests write has to outlive a power failure: they read what the system holds."""

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = original(*arguments, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    original = sqlite3.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(sqlite3, "connect", connect)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_checkout_as_current_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_current_folder(tmp_path_factory.mktemp("current")):
        yield


@pytest.fixture(autouse=True)
def nothing_left_for_the_next_test() -> Iterator[None]:
    """What tests of a process share is as each has found it, in whatever order they run."""
    before = shared_state()
    yield
    after = shared_state()
    assert {name: after[name] for name in before} == before
