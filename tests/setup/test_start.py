"""Starting what has been set up, and the parts of start-ui.py that need no process."""

import ast
import importlib.util
import shutil
import subprocess
import tomllib
from collections import namedtuple
from pathlib import Path

import pytest

from tests.each import each
from tests.setup.conftest import START_UI, Checkout

DiskUsage = namedtuple("DiskUsage", "total used free")


def test_without_display_the_demo_is_written_and_trained(ready: Checkout):
    done = ready.start()
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "There is no display (DISPLAY is empty). Training the demo in this terminal instead.",
        f"called onetrainer demo demo in {ready.folder}",
        f"called onetrainer train demo/demo.json in {ready.folder}",
    ]


def test_display_that_cannot_be_reached_means_the_terminal_too(ready: Checkout):
    lines = ready.start("mine", DISPLAY=":64321").stdout.splitlines()
    assert lines[0].startswith(("No window can be opened (couldn't", "This Python has no tkinter"))
    assert lines[1:] == [f"called onetrainer train mine in {ready.folder}"]


def test_exit_code_of_the_training_is_passed_on(ready: Checkout):
    assert ready.start("some.json", FAKE_EXIT_CODE="3").returncode == 3


def test_failure_to_write_the_demo_ends_the_start(ready: Checkout):
    done = ready.start(FAKE_EXIT_CODE="2")
    assert (done.returncode, done.stdout.count("called")) == (2, 1)


def test_preset_is_found_from_the_folder_of_the_caller(ready: Checkout):
    preset = ready.folder.parent / "mine.json"
    preset.touch()
    last = ready.start("mine.json").stdout.splitlines()[-1]
    assert last == f"called onetrainer train {preset} in {ready.folder}"


def test_name_of_a_preset_stays_a_name(ready: Checkout):
    last = ready.start("sd15/lora").stdout.splitlines()[-1]
    assert last == f"called onetrainer train sd15/lora in {ready.folder}"


@pytest.mark.parametrize(
    ("preset", "expected"),
    [(None, "--demo"), ("/x/a.json", "/x/a.json")],
)
def test_with_a_display_the_window_opens(bare: Checkout, monkeypatch, preset, expected):
    script = bare.load()
    calls = []
    monkeypatch.chdir(bare.folder)
    monkeypatch.setattr(script, "why_no_window", lambda: "")
    monkeypatch.setattr(script, "become", lambda arguments: calls.append(arguments) or 0)
    assert script.start(preset) == 0
    assert calls == [["-m", "onetrainer", "window", expected]]


def test_missing_tkinter_is_named_with_its_package(bare: Checkout, monkeypatch):
    script = bare.load()
    answer = subprocess.CompletedProcess([], 1, b"", b"...\nNo module named '_tkinter'\n")
    monkeypatch.setattr(script.subprocess, "run", lambda *_args, **_options: answer)
    monkeypatch.setenv("DISPLAY", ":0")
    assert "python3-tk" in script.why_no_window()


@pytest.mark.parametrize("version", [(3, 6), (3, 10), (3, 14)])
def test_python_out_of_range_is_refused_with_what_to_install(bare: Checkout, version):
    script = bare.load()
    with pytest.raises(script.SetupError) as caught:
        script.check_python(version)
    assert f"this is Python {version[0]}.{version[1]}." in str(caught.value)
    assert "python3.13 start-ui.py" in str(caught.value)


def test_range_of_pythons_is_that_of_pyproject(bare: Checkout):
    script = bare.load()
    with (START_UI.parent / "pyproject.toml").open("rb") as file:
        written = tomllib.load(file)["project"]["requires-python"]
    (low, high) = (".".join(map(str, each)) for each in (script.OLDEST, script.TOO_NEW))
    assert written == f">={low},<{high}"
    for version in ((3, 11), (3, 12), (3, 13)):
        script.check_python(version)


def test_python_36_can_read_the_script():
    tree = ast.parse(START_UI.read_text(), feature_version=(3, 6))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    annotations = [argument.annotation for f in functions for argument in f.args.args]
    for annotation in (*annotations, *(f.returns for f in functions)):
        # Evaluated when the script is loaded: list[str] and X | Y must stand in quotes.
        assert annotation is None or isinstance(annotation, ast.Name | ast.Attribute | ast.Constant)


def test_old_python_that_is_here_gets_a_message_and_no_traceback():
    olds = [shutil.which(f"python3.{minor}") for minor in range(6, 11)]
    for old in filter(None, olds):
        done = subprocess.run([old, START_UI], capture_output=True, text=True)
        if "pyenv" in done.stderr:  # a name without a Python behind it
            continue
        assert done.returncode == 2
        assert done.stderr.startswith("start-ui.py: this is Python 3.")


def test_missing_ensurepip_is_named_with_its_package(bare: Checkout, monkeypatch, capsys):
    script = bare.load()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert script.main([]) == 2
    assert "python3-venv" in capsys.readouterr().err
    assert not bare.venv.exists()


@pytest.mark.parametrize(("has_nvidia", "needed"), [(True, "6 GB"), (False, "3 GB")])
def test_small_disk_is_refused_beforehand(bare: Checkout, monkeypatch, has_nvidia, needed):
    script = bare.load()
    monkeypatch.setattr(script.shutil, "disk_usage", lambda _path: DiskUsage(9e9, 7e9, 2e9))
    monkeypatch.setattr(script.shutil, "which", lambda _name: "nvidia-smi" if has_nvidia else None)
    with pytest.raises(script.SetupError, match=f"2.0 GB are free .* need {needed}"):
        script.check_space()


def test_disk_that_runs_full_is_reported(bare: Checkout):
    script = bare.load()
    output = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left\n"
    assert "is full" in str(script.explain_failure(1, output))


def test_changed_pin_or_lock_or_extra_asks_for_a_set_up(ready: Checkout):
    script = ready.load()
    assert script.is_current([])
    assert not script.is_current(["test"])
    for name in ("pyproject.toml", "constraints.txt"):
        before = (ready.folder / name).read_text()
        (ready.folder / name).write_text(before.replace("companion", "another"))
        assert not script.is_current([])
        (ready.folder / name).write_text(before)
    assert script.is_current([])


def test_unknown_extra_is_refused_with_the_known_ones(ready: Checkout):
    done = ready.start("--extra", "tset")
    assert done.returncode == 2
    assert "there is no extra 'tset'. Available: test." in done.stderr


@each(
    ("output", "expected"),
    [
        ("", ""),
        ("Collecting torch==2.13.0\n", "looking up torch==2.13.0"),
        (
            "  Downloading torch-2.13.0-cp311-linux.whl (888 MB)\n",
            "downloading torch 2.13.0 (888 MB)",
        ),
        ("Installing collected packages: a, b, c\n", "installing 3 packages"),
        ("WARNING: Retrying (Retry(total=4\n", "no answer from the network, trying again"),
    ],
)
def test_stage_says_what_pip_is_doing(bare: Checkout, output, expected):
    assert bare.load().stage(output) == expected


def test_progress_in_a_terminal_stays_on_one_line(bare: Checkout, monkeypatch, capsys):
    script = bare.load()
    monkeypatch.setattr(script.sys.stdout, "isatty", lambda: True)
    wheel = Path(bare.venv, "tmp", "pip-unpack-1", "torch.whl")
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(bytes(2_000_000))
    progress = script.Progress()
    progress.show("downloading torch")
    progress.show("installing")
    first, second = capsys.readouterr().out.split("\r")[1:]
    assert first.rstrip() == "  0:00  downloading torch, 2 MB"
    assert second.rstrip() == "  0:00  installing"
    assert len(first) == len(second) and "\n" not in first + second
