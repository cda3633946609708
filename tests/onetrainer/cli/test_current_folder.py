"""Python files in the folder that a person stands in are never run."""

import ast
import os
import subprocess
import sys

import pytest

from onetrainer import ROOT
from onetrainer.config.base.section import Section
from onetrainer.errors import EXIT_USER
from onetrainer.jobs.job import Job
from onetrainer.run import client
from onetrainer.run.events import Failed
from onetrainer.run.run_folder import RunFolder
from onetrainer.support import doctor

DEADLINE = 120
NAMES = ("argparse", "faulthandler", "json", "pathlib", "PIL", "pydantic", "tkinter", "torch")
NOT_PYTHON = {
    "onetrainer/gpu_driver/nvidia.py",
    "onetrainer/run/lost_worker.py",
    "ui/actions/run_actions.py",
    "ui/dialogs/desktop_dialog.py",
    "ui/widgets/clipboard.py",
}
PACKAGES = ("modules", "onetrainer", "ui")
# What setuptools writes as the installed command.
INSTALLED = "import sys; from onetrainer.__main__ import main; sys.exit(main())"


@pytest.fixture
def traps(tmp_path, monkeypatch):
    """The current folder, full of modules that leave a file when they are run."""
    folder, sprung = tmp_path / "downloads", tmp_path / "sprung"
    sprung.mkdir()
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
    places = [
        *NAMES,
        "modules/worker",
        "modules/devices",
        *(f"{name}/__init__" for name in PACKAGES),
    ]
    for place in places:
        text = f"open({str(sprung / place.replace('/', '.'))!r}, 'w').close()\n"
        (folder / f"{place}.py").write_text(text)
    monkeypatch.chdir(folder)
    # Both ways of naming the current folder, which an unset variable in a profile leaves behind.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    yield folder
    assert [path.name for path in sprung.iterdir()] == []


def test_workers_jobs_and_checks_run_nothing_from_the_current_folder(traps, tmp_path):
    run = client.start(_empty_run(tmp_path / "run"))
    job = Job("sample", Section())
    names = [*NAMES, *PACKAGES]
    code = "import json, importlib.util as tool; "
    code += f"print(json.dumps({{n: tool.find_spec(n).origin for n in {names}}}))"
    origins, reason = doctor._ask("-c", code)
    assert (reason, str(traps) in str(origins), len(origins)) == ("", False, len(names))
    *_, ending = job.events()
    assert isinstance(ending, Failed)  # an empty request, found before the engine is loaded
    assert run.wait(DEADLINE) == EXIT_USER
    assert "no config.json" in run.folder.log.read_text()


def test_the_command_line_and_the_window_run_nothing_from_the_current_folder(traps, tmp_path):
    script = tmp_path / "bin" / "onetrainer"
    script.parent.mkdir()
    script.write_text(INSTALLED)
    (traps / "onetrainer" / "__init__.py").unlink()  # Python itself prefers this one
    (traps / "ui" / "__init__.py").unlink()
    for command in (["-m", "onetrainer"], ["-m", "ui"], [str(script)]):
        done = subprocess.run(
            [sys.executable, *command, "--help"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "usage:" in done.stdout


def test_every_process_is_started_with_the_safe_environment():
    starts = []
    for path in (path for wing in PACKAGES for path in (ROOT / wing).rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "subprocess." in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("subprocess."):
                safe = ("env=environment()", "env={**environment(), ")
                is_safe = any(ast.unparse(word).startswith(safe) for word in node.keywords)
                starts.append((path.relative_to(ROOT).as_posix(), is_safe))
    assert {path for path, is_safe in starts if not is_safe} == NOT_PYTHON
    assert sum(is_safe for _, is_safe in starts) >= 3


def _empty_run(path):
    path.mkdir()
    return RunFolder(path)
