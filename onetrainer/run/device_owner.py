"""Owners of devices: one process of this user computes on a GPU at a time, and others wait for it.

A processor has any number of owners: the system divides it among them, as it does all programs.
They wait for nobody but for those that let go.

The system releases an owner's locks when its process ends, however it ends.
"""

import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from time import monotonic, sleep, time
from typing import IO

from onetrainer.files.locks import try_lock, unlock
from onetrainer.files.own_json import MAX_BYTES, NotOurs, parse_json, typed
from onetrainer.gpu_driver.present import may_have_gpu
from onetrainer.run.events import Event, Phase, Report
from onetrainer.run.user_folder import user_folder

_PAUSE = 0.05
_LENGTH = 1000
"""Characters of an owner's text, with spaces at its end."""
_TRIES_BEFORE_WAITING = 4
"""Another process that asks for the owner holds the lock for a moment; it does not own."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
SHARED = frozenset({"cpu"})
"""Places that have several owners at once, each with a lock of its own."""
_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True)
class Owner:
    """What computes on a device.

    name: Of its run, or of what else it is. run: The run's folder; "" for no run. yields: Whether
    it ends, or lets go, when another process waits. ends: When it expects to be done, in seconds
    since the epoch; 0 if it does not know.
    """

    name: str
    run: str = ""
    yields: bool = False
    ends: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Holder:
    """Who owns a device, or waits for it. place: What the device is called among owners."""

    place: str
    owner: Owner
    waits: bool = False


Expect = Callable[[float], None]
"""Called by an owner with the seconds until it expects to be done; 0 if it does not know."""


def places_of(device: str, processes: int = 0) -> tuple[str, ...]:
    """Return what the devices of a setting such as "cuda:1" are called among owners.

    "auto" is the first GPU wherever there may be one, also where torch finds none, so that it is
    one name for all. A list of visible GPUs in the environment counts.

    processes: As many GPUs from the first on, if the setting names one; 0 for as many as it names.
    """
    names = device.split(",")
    if len(names) == 1 and processes > 1 and names[0] in ("auto", "cuda"):
        names = [f"cuda:{index}" for index in range(processes)]
    return tuple(dict.fromkeys(map(_place_of, names)))


def _place_of(name: str) -> str:
    visible = next((os.environ[key] for key in _VISIBLE if key in os.environ), None)
    if name == "cpu" or (name == "auto" and (visible == "" or not may_have_gpu())):
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
    return next((owner for place in places for owner in _owners(place, folder)), None)


def holders(folder: Path | None = None) -> list[Holder]:
    """Return who owns each of this computer's devices, and who is the first to wait for it."""
    found = []
    locks = (folder or owners_folder()).glob("*.lock")
    for place in sorted({lock.name.partition(".")[0] for lock in locks}):
        found += [Holder(place, owner) for owner in _owners(place, folder)]
        if waiting := _holder_of(_turn(place, folder)):
            found.append(Holder(place, waiting, waits=True))
    return found


def is_wanted(places: Sequence[str], folder: Path | None = None) -> bool:
    """Return whether another process waits for one of the devices."""
    return any(_holder_of(_turn(place, folder)) for place in places)


@contextmanager
def owning(
    places: Sequence[str],
    owner: Owner,
    *,
    on_wait: Callable[[Owner], object] = lambda _: None,
    check: Callable[[], object] = lambda: None,
    folder: Path | None = None,
) -> Iterator[Expect]:
    """Own devices within the context, after waiting until they are free.

    One that is shared is free unless an owner of it yields; owners that yield share it, too.

    on_wait: Called with each owner that is waited for. check: Called again and again meanwhile;
    an exception ends the wait.

    Raises:
        OSError: If the locks cannot be written.
    """
    (folder or owners_folder()).mkdir(parents=True, exist_ok=True)
    handles: list[IO[bytes]] = []

    def expect(seconds: float) -> None:
        ends = time() + seconds if seconds > 0 else 0.0
        with suppress(OSError):  # others know less then
            for handle in handles:
                _write(handle, _text_of(replace(owner, ends=ends)))

    with ExitStack() as stack:
        for place in sorted(places):  # in one order, so that no two wait for each other
            if place in SHARED:
                _wait_for_yielding(place, owner, on_wait, check, folder)
                handle = stack.enter_context(_locked_seat(place, folder))
            else:
                handle = stack.enter_context(_opened(_lock(place, folder)))
                _wait(handle, _turn(place, folder), owner, on_wait, check)
            _write(handle, _text_of(owner))
            stack.callback(_write, handle, "")
            handles.append(handle)
        yield expect


def owning_for(device: str, name: str, report: Report) -> AbstractContextManager[Expect]:
    """Own the devices of a setting for a job, which reports what it waits for; see `owning`."""

    def wait(other: Owner) -> None:
        report(Phase("waiting", detail=f"{other.name} uses the device"))

    return owning(places_of(device), Owner(name), on_wait=wait)


def expecting(report: Report, expect: Expect) -> Report:
    """Return what reports and tells, by the images so far, when all of them will be done."""
    begun: tuple[float, int] | None = None

    def tell(event: Event) -> None:
        nonlocal begun
        report(event)
        if not isinstance(event, Phase) or event.name != "sampling":
            return
        if begun is None or event.done < begun[1]:  # of the next request
            begun = monotonic(), event.done
        elif event.done > begun[1]:
            seconds = (monotonic() - begun[0]) / (event.done - begun[1])
            expect(seconds * (event.total - event.done))

    return tell


def _wait(
    handle: IO[bytes],
    turn: Path,
    owner: Owner,
    on_wait: Callable[[Owner], object],
    check: Callable[[], object],
) -> None:
    """Lock a device's file. Who waits first holds `turn`, by which an owner sees that one waits."""
    reported: Owner | None = None
    tries, is_first = 0, False
    with _opened(turn) as waiting:
        while not ((is_first := is_first or _takes(waiting, owner)) and try_lock(handle)):
            tries += 1
            other = _read(handle)
            if tries > _TRIES_BEFORE_WAITING and other is not None and other != reported:
                reported = other
                on_wait(other)
            check()
            sleep(_PAUSE)


def _wait_for_yielding(
    place: str,
    owner: Owner,
    on_wait: Callable[[Owner], object],
    check: Callable[[], object],
    folder: Path | None,
) -> None:
    """Wait until those have let go of a shared device that do so for others, with their memory."""
    if owner.yields:
        return
    reported: Owner | None = None
    with _opened(_turn(place, folder)) as waiting:
        while other := next((each for each in _owners(place, folder) if each.yields), None):
            _takes(waiting, owner)  # or another waits already, which they see as well
            if other != reported:
                reported = other
                on_wait(other)
            check()
            sleep(_PAUSE)


def _locked_seat(place: str, folder: Path | None) -> IO[bytes]:
    """Open and lock the first file of a shared device that nobody has locked."""
    for number in count():
        handle = _opened(_lock(f"{place}.{number}" if number else place, folder))
        if try_lock(handle):
            return handle
        handle.close()
    raise AssertionError  # there is always another number


def _owners(place: str, folder: Path | None) -> Iterator[Owner]:
    """Yield who owns a device: one at most, unless it is shared."""
    locks = [_lock(place, folder)]
    if place in SHARED:
        locks = sorted((folder or owners_folder()).glob(f"{place}.*lock"), key=_number_of)
    yield from filter(None, map(_holder_of, locks))


def _number_of(seat: Path) -> tuple[int, str]:
    return len(seat.name), seat.name  # "cpu", "cpu.1", "cpu.10"


def _takes(handle: IO[bytes], owner: Owner) -> bool:
    """Lock a file and write into it who has; return whether it was free."""
    if not try_lock(handle):
        return False
    _write(handle, _text_of(owner))
    return True


def _holder_of(path: Path) -> Owner | None:
    """Return who holds the lock of a file; None if nobody does."""
    with suppress(OSError), path.open("rb") as handle:
        if not try_lock(handle, shared=True):
            return _read(handle) or Owner("another program")
        unlock(handle)
    return None


def _text_of(owner: Owner) -> str:
    """Return what stands in a lock: as long after a change as before, for who reads meanwhile."""
    values = {key: value for key, value in asdict(owner).items() if key != "ends" or value}
    return json.dumps(values).ljust(_LENGTH)


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
        return typed(parse_json(handle.read(MAX_BYTES)), Owner)
    except (OSError, NotOurs):
        return None


def _write(handle: IO[bytes], text: str) -> None:
    """Write after the first byte, which on Windows cannot be read while it is locked."""
    handle.seek(1)
    handle.write(text.encode())
    handle.truncate()
    handle.seek(0)  # where `unlock` begins on Windows
