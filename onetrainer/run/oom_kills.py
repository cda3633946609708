"""How often Linux has killed a process of a control group because memory ran out."""

from dataclasses import dataclass
from pathlib import Path

from onetrainer.files.inside import read_inside
from onetrainer.files.lines import split_lines

OWN_GROUPS = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
_NAMES = ("memory.events", "memory.oom_control")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class OomCount:
    """Number of kills since a group was made. file: Where the system counts them."""

    file: Path
    kills: int


def own_oom_count() -> OomCount | None:
    """Return the count of this process's group; None where the system does not count.

    A process that is started here is in the group as well. Version 2 of control groups is read, and
    version 1 where the group's memory is still controlled by that.
    Source: the kernel's admin guide, cgroup-v2 (memory.events) and cgroup-v1/memory (oom_control).
    """
    try:
        lines = split_lines(OWN_GROUPS.read_text(encoding="utf-8"))
    except OSError:
        return None
    for line in lines:
        number, controllers, group = line.split(":", 2)
        files = {
            "0": ROOT / group.lstrip("/") / "memory.events",
            "memory": ROOT / "memory" / group.lstrip("/") / "memory.oom_control",
        }
        file = files.get("memory" if "memory" in controllers.split(",") else number)
        kills = oom_kills(file) if file else None
        if file and kills is not None:
            return OomCount(file, kills)
    return None


def oom_kills(file: Path) -> int | None:
    """Return the number of kills that a group's file counts; None if the group is gone."""
    if file.name not in _NAMES or not file.is_file():  # a run's lock may name any file
        return None
    try:
        text = read_inside(file, most=_MOST_BYTES).decode()  # a lock, which names it, is anybody's
        counts = dict(entry.split() for entry in split_lines(text))
        return int(counts["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None
