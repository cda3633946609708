"""A checkout in miniature: the real start-ui.py over a program and pins of a few bytes each."""

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

START_UI = Path(__file__).parents[2] / "start-ui.py"

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "onetrainer"
version = "0.1.0"
dependencies = ["torch==0.0.1", "companion"]

[project.optional-dependencies]
test = ["checker==0.0.1"]
"""

# What setuptools does for the real one: an editable install, without anything to download.
BACKEND = """
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "onetrainer-0.1.0-py3-none-any.whl"
    info = "onetrainer-0.1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("onetrainer.pth", str(pathlib.Path.cwd()))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: onetrainer\\n"
            "Version: 0.1.0\\nRequires-Dist: torch==0.0.1\\nRequires-Dist: companion\\n"
            "Provides-Extra: test\\nRequires-Dist: checker==0.0.1; extra == 'test'\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""

# The command line only prints how it was called.
PROGRAM = """
import os, sys
print("called onetrainer", *sys.argv[1:], "in", os.getcwd(), flush=True)
sys.exit(int(os.environ.get("FAKE_EXIT_CODE", "0")))
"""

DEADLINE = 120.0


@dataclass(frozen=True)
class Checkout:
    """A miniature checkout, and the environment of a machine without network or display."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def venv(self) -> Path:
        return self.folder / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next(self.venv.glob("lib/python*/site-packages"))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(self.folder / "start-ui.py"), *arguments]

    def start(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs start-ui.py as people do, from another folder."""
        return subprocess.run(
            self.command(*arguments),
            env={**self.environment, **environment},
            cwd=self.folder.parent,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )

    def load(self) -> ModuleType:
        """The script as a module, to test its parts."""
        spec = importlib.util.spec_from_file_location("start_ui", self.folder / "start-ui.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def mark_as_set_up(self, *extras: str) -> None:
        script = self.load()
        script.write_stamp(script.required_digests(list(extras)))


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A machine whose pip sees nothing but tiny wheels."""
    wheels = tmp_path_factory.mktemp("wheels")
    for name in ("torch", "companion", "checker"):
        _write_wheel(wheels, name)
    _write_wheel(wheels, "companion", "0.0.2")  # newer than the lock's
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }


@pytest.fixture
def bare(tmp_path: Path, machine: dict[str, str]) -> Checkout:
    """A fresh checkout in a path with spaces."""
    return Checkout(_write_project(tmp_path / "my checkout of it"), machine)


@pytest.fixture
def ready(bare: Checkout) -> Checkout:
    """A checkout that counts as set up: a Python and the stamp, but no pip."""
    bare.python.parent.mkdir(parents=True)
    bare.python.symlink_to(sys.executable)
    bare.mark_as_set_up()
    return bare


@pytest.fixture(scope="session")
def _resumed(tmp_path_factory: pytest.TempPathFactory, machine: dict[str, str]) -> Path:
    """A checkout whose set-up was killed while it made .venv, and started once more."""
    folder = tmp_path_factory.mktemp("resumed") / "my checkout of it"
    checkout = Checkout(_write_project(folder), machine)
    command = checkout.command("--setup-only")
    with subprocess.Popen(command, env=machine, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert any(b"creating .venv" in line for line in first.stdout)
        first.kill()
    done = checkout.start("--setup-only", "--extra", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def installed(tmp_path: Path, machine: dict[str, str], _resumed: Path) -> Checkout:
    """A checkout that has been set up for real; tests have its pip in common, so write nothing."""

    def ignored(folder: str, _names: list[str]) -> list[str]:
        return ["pip"] if folder.endswith("site-packages") else []

    shutil.copytree(_resumed, tmp_path / "it", symlinks=True, ignore=ignored)
    checkout = Checkout(tmp_path / "it", machine)
    pip = next(_resumed.glob(".venv/lib/python*/site-packages/pip"))
    (checkout.site_packages / "pip").symlink_to(pip)
    checkout.mark_as_set_up("test")
    return checkout


def _write_project(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(START_UI, folder)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "constraints.txt").write_text("companion==0.0.1\n")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "onetrainer").mkdir()
    (folder / "onetrainer" / "__init__.py").touch()
    (folder / "onetrainer" / "__main__.py").write_text(PROGRAM)
    return folder


def _write_wheel(folder: Path, name: str, version: str = "0.0.1") -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        module = f"name = {name!r}\n"
        wheel.writestr(f"{name}.py", module)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,{len(module)}\n")
