"""How messages call this program."""

import shutil
import sys

import pytest

from onetrainer import program


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A folder with a Python alone, which the shell does not search."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    return tmp_path


def test_a_command_can_be_pasted_where_it_is_read(bare, monkeypatch):
    assert program() == f'"{bare / "python"}" -m onetrainer'
    script = bare / ("onetrainer.exe" if sys.platform == "win32" else "onetrainer")
    script.touch(mode=0o755)
    assert program() == str(bare / "onetrainer")
    monkeypatch.setenv("PATH", str(bare))
    assert program() == "onetrainer"
    (bare / "other").mkdir()
    shutil.copy(script, bare / "other")  # another installation comes first
    monkeypatch.setenv("PATH", str(bare / "other"))
    assert program() == str(bare / "onetrainer")
