"""Whether a killed worker was killed for memory, as the system's control groups count it."""

import os
import signal
import subprocess
import sys

from onetrainer.run import oom_kills as groups
from onetrainer.run.client import Run
from onetrainer.run.failures import exit_failure
from onetrainer.run.oom_kills import own_oom_count
from onetrainer.run.run_folder import create_run

SECOND = "12:pids:/a\n0::/user.slice/app\n"
FIRST = "4:memory:/shell\n0::/\n"


def test_a_worker_that_the_system_ends_for_memory_is_told_from_one_that_was_killed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(groups, "OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(groups, "ROOT", tmp_path)
    folder = create_run(tmp_path, name="run", config={})
    assert own_oom_count() is None  # no Linux
    for own, place in (
        (SECOND, "user.slice/app/memory.events"),
        (FIRST, "memory/shell/memory.oom_control"),
    ):
        (tmp_path / "cgroup").write_text(own)
        counts = tmp_path / place
        counts.parent.mkdir(parents=True)
        counts.write_text("low 0\noom 1\noom_kill 3\n")
        for kills, failure, words in (
            (3, "killed by another", "another program probably killed it"),
            (4, "out of memory", "memory (RAM) ran out"),
        ):
            counts.write_text("low 0\noom_kill 3\n")
            with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
                run = Run(folder, made)
                counts.write_text(f"low 0\noom_kill {kills}\n")
                os.kill(made.pid, signal.SIGKILL)
            left = run.unexpected_exit()
            assert (left.failure, words in left.what) == (failure, True)
    assert "probably ran out of memory" in exit_failure(-signal.SIGKILL)[1]  # where nothing counts
