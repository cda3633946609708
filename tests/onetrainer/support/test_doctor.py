"""What the doctor says of a computer, and what there is to do."""

import json
import subprocess
import sys

import pytest

from onetrainer import ROOT
from onetrainer.__main__ import main
from onetrainer.support import doctor
from onetrainer.support.devices import device_findings, explain_missing_gpu
from onetrainer.support.doctor import disk_findings, package_findings, requirements, window_findings
from onetrainer.support.findings import Finding
from tests.each import each

CUDA = {"cuda": "13.0", "rocm": "", "mps": False, "warning": ""}
ROCM = CUDA | {"cuda": "", "rocm": "7.1"}
TOO_OLD = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
CARD = "NVIDIA GeForce RTX 3090, 470.1"


@each(
    ("torch", "driver", "has_card", "visible", "level", "text", "remedy"),
    [
        (CUDA, "", False, None, "note", "no NVIDIA or AMD GPU", "CPU|slower"),
        (CUDA, "", "amd", None, "note", "torch is not built for it", "ROCm"),
        (ROCM, "", "amd", None, "problem", "ROCm 7.1 finds no AMD GPU", "groups render"),
        (CUDA | {"cuda": ""}, CARD, True, None, "problem", "built for the CPU only", "pytorch.org"),
        (CUDA, CARD, True, "", "problem", "hides the GPU", "Remove"),
        (CUDA, CARD, True, "-1", "problem", 'CUDA_VISIBLE_DEVICES is "-1"', "Remove"),
        (CUDA, "", True, None, "problem", "driver does not answer", "Install NVIDIA's driver"),
        (CUDA | {"warning": TOO_OLD}, CARD, True, "0", "problem", "old for CUDA 13.0", "Update"),
        (CUDA | {"warning": "unknown error"}, CARD, True, None, "problem", "(unknown error)",
         "Restart"),
    ],
)  # fmt: skip
def test_a_missing_gpu_is_explained_with_its_remedy(
    torch, driver, has_card, visible, level, text, remedy
):
    found = explain_missing_gpu(
        torch, driver, has_card=has_card is True, has_amd=has_card == "amd", visible=visible
    )
    assert (found.area, found.level) == ("gpu", level)
    assert text in found.text
    assert any(word in found.remedy for word in remedy.split("|"))


def test_gpus_are_listed_with_their_formats_and_what_other_programs_take():
    gpu = {"index": 0, "name": "RTX 2070", "total": 8 << 30, "free": 3 << 30, "compute": "7.5",
           "bf16": False}  # fmt: skip
    torch = CUDA | {"torch": "2.13.0", "cpu": "8 cores", "gpus": [gpu]}
    *_, found = device_findings(torch, "")
    assert (found.area, found.level) == ("gpu 0", "note")
    assert "RTX 2070, 8.0 GB, 3.0 free, compute 7.5, fp16, no bf16" in found.text
    assert "Close them" in found.remedy
    *_, built, found = device_findings(torch | {"cuda": "", "mps": True, "gpus": []}, "")
    assert "built for Apple's GPUs" in built.text
    assert (found.level, "not been tested" in found.text) == ("note", True)
    assert "hardware.device=mps" in found.remedy
    *_, found = device_findings({}, "OSError: libtorch.so: not found")
    assert (found.area, found.level) == ("torch", "problem")
    assert "libtorch.so" in found.text


REQUIRED = ["pytest==0.0.1", "no-such-package==2.0", "pip", 'x==1; extra == "test"',
            'no-such-package==2.0; extra == "odd"']  # fmt: skip


def test_packages_are_compared_with_the_pins():
    all_of_them, missing, other, extra = package_findings(REQUIRED)
    assert f"pytest {pytest.__version__}" in all_of_them.text
    assert (missing.level, missing.text) == ("problem", "not installed: no-such-package 2.0")
    assert str(ROOT) in missing.remedy
    assert (other.level, "(pinned: 0.0.1)" in other.text) == ("note", True)
    assert (extra.area, extra.level) == ("extra odd", "good")
    assert "--extra odd" in extra.text
    assert not any(finding.level == "problem" for finding in package_findings(requirements()))


def test_disks_are_judged_by_writing_and_by_what_is_free(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    found = list(disk_findings({"here": tmp_path, "there": tmp_path / "file"}))
    assert [(one.area, one.level) for one in found[1:]] == [("disk, there", "problem")]
    assert "cannot be written to (not a directory)" in found[1].text
    usage = type("Usage", (), {"free": 0})
    levels = []
    for free in (500 << 20, 5 << 30, 50 << 30):
        usage.free = free
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
        levels += [one.level for one in disk_findings({"here": tmp_path})]
    assert levels == ["problem", "note", "good"]


def test_a_window_that_cannot_be_opened_is_no_obstacle_to_training(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    (found,) = window_findings({"problem": "The window needs tkinter"}, "")
    assert (found.level, found.text) == ("note", "The window needs tkinter")
    fonts = {"tk": "8.6", "size": "1 × 1", "scale": 1.0, "font": "TkDefaultFont", "mono": "x",
             "fonts": 3}  # fmt: skip
    window, fonts, *_ = window_findings(fonts, "")
    assert (window.level, fonts.level) == ("good", "note")
    assert "Noto Sans" in fonts.remedy


BARE = """
import sys
missing = ("pydantic", "psutil", "torch", "tkinter", "PIL", "numpy", "regex")
sys.modules.update(dict.fromkeys(missing))
from onetrainer.support import doctor
doctor._ask = lambda *_: ({}, "ModuleNotFoundError: No module named 'torch'")
from onetrainer.__main__ import main
raise SystemExit(main(["doctor", "--json"]))
"""


def test_the_doctor_works_without_any_package():
    done = subprocess.run([sys.executable, "-c", BARE], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "")
    document = json.loads(done.stdout)
    wrong = [one for one in document["findings"] if one["level"] == "problem"]
    assert document["problems"] == len(wrong)
    assert "torch" in [one["area"] for one in wrong]
    assert not [one for one in document["findings"] if one["area"] == "self-test"]
    assert all(one["remedy"] for one in wrong)


def test_the_doctors_code_tells_whether_something_is_wrong(monkeypatch, capsys):
    found = [Finding("python", "3.11")]
    monkeypatch.setattr("onetrainer.cli.support.examine", lambda: iter(found))
    assert main(["doctor", "--quick"]) == 0
    assert capsys.readouterr().out == "good     python: 3.11\n"
    found.append(Finding("gpu", "hidden", "problem", "Show it."))
    assert main(["doctor", "--quick"]) == 2
    assert capsys.readouterr().out.splitlines()[1:] == [
        "problem  gpu: hidden",
        "         To do: Show it.",
    ]


def test_a_module_that_prints_nothing_is_explained_by_its_last_words():
    document, reason = doctor._ask("-m", "json.no_such_module")
    assert document == {}
    assert "no_such_module" in reason
