"""What a worker writes about itself into its lock: who it is, and what the system counted then."""

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass

from onetrainer.files.own_json import NotOurs, parse_json, typed
from onetrainer.run.oom_kills import own_oom_count


@dataclass(frozen=True)
class WorkerMark:
    """A worker, as its lock tells of it, also after its end.

    Attributes:
        host: The name of its computer or container.
        counts: The file in which the system counts kills of its control group; "" if in none.
        oom_kills: The count when it began.
    """

    pid: int
    host: str = ""
    counts: str = ""
    oom_kills: int = 0

    def encode(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))


def own_mark() -> WorkerMark:
    """Return the mark of this process."""
    count = own_oom_count()
    pid, host = os.getpid(), platform.node()
    return WorkerMark(pid, host, str(count.file), count.kills) if count else WorkerMark(pid, host)


def read_mark(text: str) -> WorkerMark | None:
    """Return the mark in the text of a lock; None if there is none."""
    with suppress(NotOurs):
        found = parse_json(text)
        mark = typed({"pid": found} if isinstance(found, int) else found, WorkerMark)
        return mark if mark.pid > 0 else None  # others mean groups of processes
    return None
