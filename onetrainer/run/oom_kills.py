"""How often Linux has killed a process of this one's control group because memory ran out."""

from pathlib import Path

OWN_GROUPS = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def oom_kills() -> int | None:
    """Return the number of kills since the group was made; None where the system does not count.

    A process that is started here is in the group as well. Version 2 of control groups is read, and
    version 1 where the group's memory is still controlled by that.
    Source: the kernel's admin guide, cgroup-v2 (memory.events) and cgroup-v1/memory (oom_control).
    """
    try:
        lines = OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, group = line.split(":", 2)
        places = {
            "0": ROOT / group.lstrip("/") / "memory.events",
            "memory": ROOT / "memory" / group.lstrip("/") / "memory.oom_control",
        }
        place = places.get("memory" if "memory" in controllers.split(",") else number)
        if place is None:
            continue
        try:
            counts = dict(entry.split() for entry in place.read_text(encoding="utf-8").splitlines())
            return int(counts["oom_kill"])
        except (OSError, ValueError, KeyError):
            continue
    return None
