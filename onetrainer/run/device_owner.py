"""Owners of devices: one process of this user computes on each at a time, and others wait for it.

The system releases an owner's locks when its process ends, however it ends.
"""

import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import sleep
from typing import IO

from onetrainer.files.locks import try_lock, unlock
from onetrainer.run.events import Phase, Report
from onetrainer.run.user_folder import user_folder

_PAUSE = 0.05
_TRIES_BEFORE_WAITING = 4
"""Another process that asks for the owner holds the lock for a moment; it does not own."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True)
class Owner:
    """What computes on a device.

    name: Of its run, or of what else it is. run: The run's folder; "" for no run. yields: Whether
    it ends, or lets go, when another process waits.
    """

    name: str
    run: str = ""
    yields: bool = False


def places_of(device: str, processes: int = 0) -> tuple[str, ...]:
    """Return what the devices of a setting such as "cuda:1" are called among owners.

    "auto" is the first GPU, also where there is none, so that it is one name for all. A list of
    visible GPUs in the environment counts.

    processes: As many GPUs from the first on, if the setting names one; 0 for as many as it names.
    """
    names = device.split(",")
    if len(names) == 1 and processes > 1 and names[0] in ("auto", "cuda"):
        names = [f"cuda:{index}" for index in range(processes)]
    return tuple(dict.fromkeys(map(_place_of, names)))


def _place_of(name: str) -> str:
    visible = next((os.environ[key] for key in _VISIBLE if key in os.environ), None)
    if name == "cpu" or (visible == "" and name == "auto"):
        return "cpu"
    number = name.partition(":")[2] or "0"
    listed = visible.split(",") if visible else []
    if number.isdecimal() and int(number) < len(listed):
        number = listed[int(number)].strip()
    return f"gpu-{_UNSAFE.sub('-', number)}"


def owners_folder() -> Path:
    """Return the folder of the locks of this computer's devices; homes are shared by some."""
    return user_folder() / "devices" / (_UNSAFE.sub("-", platform.node()) or "computer")


def owner_of(places: Sequence[str], folder: Path | None = None) -> Owner | None:
    """Return what computes on one of the devices; None if all are free."""
    for place in places:
        with suppress(OSError), _lock(place, folder).open("rb") as handle:
            if not try_lock(handle, shared=True):
                return _read(handle) or Owner("another program")
            unlock(handle)
    return None


def is_wanted(places: Sequence[str], folder: Path | None = None) -> bool:
    """Return whether another process waits for one of the devices."""
    for place in places:
        with suppress(OSError), _turn(place, folder).open("rb") as handle:
            if not try_lock(handle, shared=True):
                return True
            unlock(handle)
    return False


@contextmanager
def owning(
    places: Sequence[str],
    owner: Owner,
    *,
    on_wait: Callable[[Owner], object] = lambda _: None,
    check: Callable[[], object] = lambda: None,
    folder: Path | None = None,
) -> Iterator[None]:
    """Own devices within the context, after waiting until they are free.

    on_wait: Called with each owner that is waited for. check: Called again and again meanwhile;
    an exception ends the wait.

    Raises:
        OSError: If the locks cannot be written.
    """
    (folder or owners_folder()).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for place in sorted(places):  # in one order, so that no two wait for each other
            lock, turn = _lock(place, folder), _turn(place, folder)
            handle = stack.enter_context(_opened(lock))
            _wait(handle, turn, on_wait, check)
            _write(handle, json.dumps(asdict(owner)))
            stack.callback(_write, handle, "")
        yield


def owning_for(device: str, name: str, report: Report) -> AbstractContextManager[None]:
    """Own the devices of a setting for a job, which reports what it waits for; see `owning`."""

    def wait(other: Owner) -> None:
        report(Phase("waiting", detail=f"{other.name} uses the device"))

    return owning(places_of(device), Owner(name), on_wait=wait)


def _wait(
    handle: IO[bytes],
    turn: Path,
    on_wait: Callable[[Owner], object],
    check: Callable[[], object],
) -> None:
    """Lock a device's file. Who waits first holds `turn`, by which an owner sees that one waits."""
    reported: Owner | None = None
    tries, is_first = 0, False
    with _opened(turn) as waiting:
        while not ((is_first := is_first or try_lock(waiting)) and try_lock(handle)):
            tries += 1
            other = _read(handle)
            if tries > _TRIES_BEFORE_WAITING and other is not None and other != reported:
                reported = other
                on_wait(other)
            check()
            sleep(_PAUSE)


def _lock(place: str, folder: Path | None) -> Path:
    return (folder or owners_folder()) / f"{place}.lock"


def _turn(place: str, folder: Path | None) -> Path:
    return (folder or owners_folder()) / f"{place}.wanted"


def _opened(path: Path) -> IO[bytes]:
    path.touch()
    return path.open("r+b", buffering=0)


def _read(handle: IO[bytes]) -> Owner | None:
    try:
        handle.seek(1)
        return Owner(**json.loads(handle.read()))
    except (OSError, ValueError, TypeError):
        return None


def _write(handle: IO[bytes], text: str) -> None:
    """Write after the first byte, which on Windows cannot be read while it is locked."""
    handle.seek(1)
    handle.write(text.encode())
    handle.truncate()
    handle.seek(0)  # where `unlock` begins on Windows
