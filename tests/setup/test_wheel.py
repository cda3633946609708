"""The wheel of the real project: what is in it, and that it works far from the project."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onetrainer import ROOT
from onetrainer.errors import EXIT_USER
from onetrainer.support.doctor import requirements

BUILD = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
USE = """
from pathlib import Path
from onetrainer import install_command
from onetrainer.__main__ import main
from onetrainer.run.client import start
from onetrainer.run.run_folder import RunFolder
from onetrainer.support.doctor import requirements

print(*requirements(), install_command("bits"), sep="\\n")
for command in (["presets"], ["demo", "demo"], ["check", "demo/demo.json"]):
    assert main(command) == 0
folder = RunFolder(Path("run"))  # holds no config, which the worker finds at once
folder.path.mkdir()
print("worker", start(folder).wait(120), folder.log.read_text())
main(["window", "--demo"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy, since setuptools leaves files next to its source."""
    project = tmp_path_factory.mktemp("project")
    for name in ("modules", "onetrainer", "ui", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, project / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    command = [sys.executable, "-W", "ignore", "-c", BUILD]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return next((project / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Site-packages with the program alone; its dependencies come from where the tests run."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_wheel_has_every_file_below_the_name_of_the_program(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        points = archive.read("onetrainer-0.1.0.dist-info/entry_points.txt").decode()
    sources = [path for wing in ("modules", "ui") for path in (ROOT / wing).rglob("*.py")]
    data = [path for path in (ROOT / "configs").rglob("*") if path.is_file()]
    data += (ROOT / "ui").rglob("*.ttf")
    own = [path.relative_to(ROOT).as_posix() for path in (ROOT / "onetrainer").rglob("*.py")]
    bundled = [f"onetrainer/bundled/{path.relative_to(ROOT).as_posix()}" for path in sources + data]
    assert names == {*own, *bundled}
    assert "[gui_scripts]\nonetrainer-window = " in points


def test_installed_wheel_works_in_any_folder_and_writes_there_alone(installed, tmp_path):
    before = _files(installed)
    here = tmp_path / "here"
    here.mkdir()
    places = {"PYTHONPATH": str(installed), "XDG_CONFIG_HOME": str(tmp_path), "DISPLAY": ""}
    done = subprocess.run(
        [sys.executable, "-P", "-c", USE],
        cwd=here,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
    )
    assert "sdxl/lora" in done.stdout, done.stderr
    assert set(requirements()) <= set(done.stdout.splitlines())
    assert '-m pip install "onetrainer[bits]"' in done.stdout
    assert "demo/demo.json: ready to train\n" in done.stdout
    assert re.search(rf"worker {EXIT_USER} .*no config\.json", done.stdout)
    assert done.stderr.startswith("No window can be opened"), done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["demo", "run"]
    assert _files(installed) == before


def _files(folder: Path) -> set[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path for path in found if path.suffix != ".pyc"}
