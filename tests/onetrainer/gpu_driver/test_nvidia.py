"""What NVIDIA's driver tells, by a program of its name that is found on the path."""

import os
from pathlib import Path

import pytest

from onetrainer.gpu_driver.nvidia import ask_nvidia


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts a program in the driver's place, which says its arguments and ends with a code."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def write(code=0):
        program = tmp_path / "nvidia-smi"
        program.write_text(f'#!/bin/sh\necho "$*"\necho second\nexit {code}\n')
        program.chmod(0o755)
        return program

    return write


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for the program")
def test_each_gpu_is_a_line_and_a_driver_that_fails_or_is_not_there_none(driver):
    assert ask_nvidia("name") == []
    driver()
    asked = "--query-gpu=name,power.draw --format=csv,noheader,nounits"
    assert ask_nvidia("name", "power.draw") == [asked, "second"]
    assert ask_nvidia("name", "power.draw", gpu="GPU-7")[0] == f"{asked} --id=GPU-7"
    driver(code=9)
    assert ask_nvidia("name") == []


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for the program")
def test_a_program_of_the_current_folder_is_never_run(driver, monkeypatch):
    monkeypatch.chdir(driver().parent)
    monkeypatch.setenv("PATH", ".")
    assert not Path(os.environ["PATH"]).is_absolute()
    assert ask_nvidia("name") == []
