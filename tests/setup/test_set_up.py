"""Setting up for real: processes, a venv, pip; only the packages are tiny."""

import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from tests.setup.conftest import DEADLINE, Checkout

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="speaks of POSIX signals and paths")


def _imports(checkout: Checkout, name: str) -> bool:
    command = [checkout.python, "-c", f"import {name}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_killed_set_up_is_taken_up_again_by_the_next_start(installed: Checkout):
    assert all(_imports(installed, name) for name in ("torch", "companion", "checker"))
    assert not (installed.venv / "tmp").exists()


def test_versions_are_those_of_the_lock(installed: Checkout):
    assert (installed.site_packages / "companion-0.0.1.dist-info").exists()


def test_torch_is_asked_for_by_its_pin_before_all_else(installed: Checkout):
    log = (installed.venv / "setup.log").read_text()
    assert re.findall(r"-m pip install .*=off (.*)", log) == ["torch==0.0.1", "-e .[test]"]


def test_half_installed_packages_are_installed_again(installed: Checkout):
    site = installed.site_packages
    (site / "companion.py").unlink()
    (site / "torch-0.0.1.dist-info" / "INSTALLER").unlink()
    (site / "~orch").mkdir()
    (installed.venv / "setup-stamp.json").unlink()

    done = installed.start("--setup-only")

    assert done.returncode == 0, done.stdout + done.stderr
    assert _imports(installed, "companion")
    assert (site / "torch-0.0.1.dist-info" / "INSTALLER").exists()
    assert not (site / "~orch").exists()


def test_set_up_waits_for_another_one(installed: Checkout):
    (installed.venv / "setup-stamp.json").rename(installed.venv / "kept")
    with (installed.venv / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            installed.command("--setup-only"),
            env=installed.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert "waiting" in process.stdout.readline()
        (installed.venv / "kept").rename(installed.venv / "setup-stamp.json")
    rest, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, rest) == (0, ""), "the other one had done it all"


def test_termination_ends_the_running_step_and_says_so(installed: Checkout):
    (installed.folder / "backend.py").write_text("import time\ntime.sleep(600)\n")
    (installed.venv / "setup-stamp.json").unlink()
    log = installed.venv / "setup.log"
    before = len(log.read_text())
    process = subprocess.Popen(
        installed.command("--setup-only"),
        env=installed.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + DEADLINE
    while not any(line.endswith(" -e .") for line in log.read_text()[before:].splitlines()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)

    _, errors = process.communicate(timeout=DEADLINE)

    assert process.returncode == 3
    assert errors == "start-ui.py: interrupted. Start it again to continue.\n"


def test_unreachable_index_is_reported_in_one_line(installed: Checkout):
    _change_pin(installed)
    done = installed.start(
        "--setup-only", PIP_NO_INDEX="", PIP_INDEX_URL="http://127.0.0.1:9/", PIP_RETRIES="1"
    )
    assert done.returncode == 2
    assert done.stderr.startswith("start-ui.py: the package index cannot be reached.")
    assert done.stderr.count("\n") == 1


def test_refused_pin_is_reported_with_the_place_of_the_log(installed: Checkout):
    _change_pin(installed)
    done = installed.start("--setup-only")
    assert done.returncode == 2
    assert "No matching distribution found for torch==0.0.2" in done.stderr
    assert str(installed.venv / "setup.log") in done.stderr


def test_unfinished_change_of_pins_is_not_believed_after_going_back(installed: Checkout):
    before = (installed.folder / "pyproject.toml").read_text()
    _change_pin(installed)
    installed.start("--setup-only")
    (installed.folder / "pyproject.toml").write_text(before)
    assert not installed.load().is_current([])


def test_file_in_the_way_is_reported_without_a_traceback(bare: Checkout):
    bare.venv.touch()
    done = bare.start()
    assert done.returncode == 2
    assert done.stderr.startswith(f"start-ui.py: {bare.venv} cannot be written (File exists).")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_read_only_folder_is_reported_without_a_traceback(bare: Checkout):
    bare.folder.chmod(0o555)
    done = bare.start()
    bare.folder.chmod(0o755)
    assert done.returncode == 2
    assert f"{bare.venv} cannot be written (Permission denied)" in done.stderr


def test_finished_set_up_is_left_alone_and_costs_next_to_nothing(installed: Checkout):
    log = (installed.venv / "setup.log").read_bytes()
    ours, bare = [], []
    for _ in range(5):
        begin = _seconds_of_ended_processes()
        assert installed.start("--setup-only").stdout == ""
        between = _seconds_of_ended_processes()
        subprocess.run([sys.executable, "-c", "import json, hashlib, argparse"], check=True)
        ours.append(between - begin)
        bare.append(_seconds_of_ended_processes() - between)
    assert (installed.venv / "setup.log").read_bytes() == log
    # Little more than Python's own start; pip alone would take ten times as long.
    assert min(ours) < 4 * min(bare)


def _seconds_of_ended_processes() -> float:
    """Processor time, which is nearly the same however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("pip", ["", "raise SystemExit(1)"])
def test_broken_pip_means_a_new_venv(installed: Checkout, monkeypatch, pip):
    script = installed.load()
    (installed.site_packages / "pip").unlink()
    (installed.site_packages / "pip" / "_internal" / "cli").mkdir(parents=True)
    (installed.site_packages / "pip" / "_internal" / "cli" / "main.py").write_text(pip)
    (installed.venv / "leftover").mkdir()
    commands = []
    monkeypatch.setattr(script, "run", lambda command, *_rest: commands.append(command))
    script.install([])
    assert commands[0] == [sys.executable, "-m", "venv", str(installed.venv)]
    assert not (installed.venv / "leftover").exists()


def test_stamp_names_the_python_that_was_set_up(installed: Checkout):
    stamp = json.loads((installed.venv / "setup-stamp.json").read_text())
    (installed.venv / "setup-stamp.json").write_text(json.dumps({**stamp, "interpreter": "/gone"}))
    assert not installed.load().is_current([])


def _change_pin(checkout: Checkout) -> None:
    path = checkout.folder / "pyproject.toml"
    path.write_text(path.read_text().replace("torch==0.0.1", "torch==0.0.2"))
