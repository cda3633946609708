"""Why a worker is gone that another process has started, whose exit code nobody here knows.

Told from what it has left and what the system has recorded, never from its silence alone.
"""

import os
import platform
import re
import signal
import subprocess
from pathlib import Path

from onetrainer.files.inside import open_inside
from onetrainer.files.programs import find_program
from onetrainer.run.failures import LostBy, exit_failure, lost_failure
from onetrainer.run.oom_kills import oom_kills
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.worker_mark import WorkerMark

# What Python's faulthandler writes into the log, for each signal.
_CRASHES = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Floating-point exception": signal.SIGFPE,
    "Illegal instruction": getattr(signal, "SIGILL", signal.SIGABRT),
    "Bus error": getattr(signal, "SIGBUS", signal.SIGSEGV),
}
_CRASH = re.compile(rf"^Fatal Python error: ({'|'.join(_CRASHES)})", re.MULTILINE)
_BEGINNING = re.compile(r"^worker \d+ begins at ", re.MULTILINE)
_LOG_BYTES = 256 * 1024  # holds the stacks of all threads
_JOURNAL_SECONDS = 1.0  # a terminal waits for it
_KILLED_WITHIN = 3600.0  # seconds after a worker's last sign
_SLACK = 60.0  # seconds by which clocks and last writes may be off


def find_out(folder: RunFolder) -> tuple[str, str]:
    """Return kind and description of the end of a run's worker, which reported none."""
    if crash := _crash_in(folder.log):
        return exit_failure(-crash)
    return lost_failure(_lost_by(folder))


def _crash_in(log: Path) -> int:
    """Return the signal of the crash that the last worker has logged; 0 if it has logged none."""
    try:
        with open_inside(log) as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - _LOG_BYTES))
            text = handle.read().decode(errors="replace")
    except OSError:
        return 0
    found = _CRASH.search(_BEGINNING.split(text)[-1])
    return _CRASHES[found[1]] if found else 0


def _lost_by(folder: RunFolder) -> LostBy:
    mark = folder.last_worker()
    if mark is None or mark.host != platform.node():
        return "nothing known"
    last_sign = _last_sign(folder)
    if _boot_time() > last_sign + _SLACK:
        return "restart"
    kills = oom_kills(Path(mark.counts)) if mark.counts else None
    if kills is not None and kills < mark.oom_kills:  # the group was made anew since
        kills = None
    if kills is not None and kills > mark.oom_kills:
        return "memory"
    is_in_journal = _is_in_journal(mark, last_sign)
    if is_in_journal:
        return "memory"
    is_unknown = kills is None or is_in_journal is None
    return "nothing known" if is_unknown else "no lack of memory"


def _last_sign(folder: RunFolder) -> float:
    """Return when the worker last wrote something, in seconds since 1970; 0 if it never did."""
    files = (folder.events, folder.log, folder.lock)
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def _boot_time() -> float:
    import psutil  # only here: it takes a while to load

    return float(psutil.boot_time())


def _is_in_journal(mark: WorkerMark, last_sign: float) -> bool | None:
    """Return whether Linux, or systemd's guard of memory, has logged the kill; None if it failed.

    Where there is no journal, nothing is in it.

    The guard kills whole groups: a terminal with all that was started in it.
    Sources: the kernel's mm/oom_kill.c; systemd's src/oom/oomd-manager.c.
    """
    program = find_program("journalctl")
    if not program:
        return False
    words = [program, "--quiet", "--no-pager", "--output=cat", f"--since=@{last_sign - _SLACK:.0f}"]
    words += [f"--until=@{last_sign + _KILLED_WITHIN:.0f}"]
    words += ["_TRANSPORT=kernel", "+", "_SYSTEMD_UNIT=systemd-oomd.service"]
    try:
        found = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_JOURNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    group = "/".join(Path(mark.counts).parent.parts[-2:])
    signs = [f"Killed process {mark.pid} ", *([f"{group} due to memory"] if group else [])]
    return any(sign in found.stdout for sign in signs)
