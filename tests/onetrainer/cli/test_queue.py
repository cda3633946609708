"""The command `queue` as a person in a terminal meets it."""

import json
import shutil
from pathlib import Path

import pytest

from onetrainer.__main__ import main
from tests.ui.project import write_project


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    return str(write_project(tmp_path / "project"))


def listed(capsys):
    capsys.readouterr()
    assert main(["queue", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_are_added_swept_ordered_and_removed(config, capsys):
    assert main(["queue", "add", config, "--no-forecast"]) == 0
    sweep = ["--sweep", "training.seed=1,2", "--device", "cpu", "--no-forecast"]
    assert main(["queue", "add", config, *sweep]) == 0
    assert "Nothing begins until the queue is started. To begin: queue serve" in (
        capsys.readouterr().out
    )
    names = [Path(entry["run"]).name for entry in listed(capsys)]
    assert names == ["paper-001", "paper-seed-1-001", "paper-seed-2-001"]
    frozen = json.loads((Path(listed(capsys)[2]["run"]) / "config.json").read_text())
    assert (frozen["training"]["seed"], frozen["hardware"]["device"]) == (2, "cpu")
    assert main(["queue", "clone", names[1], "--no-forecast"]) == 0
    assert main(["queue", "device", "paper-seed-1-002", "--device", "cuda:1", "--no-forecast"]) == 0
    clone = listed(capsys)[2]
    assert (Path(clone["run"]).name, clone["device"]) == ("paper-seed-1-002", "cuda:1")
    assert main(["queue"]) == 0
    assert "GPU 1" in capsys.readouterr().out
    assert main(["queue", "remove", "paper-seed-1-002"]) == 0
    assert main(["queue", "move", names[2], "--to", "1"]) == 0
    assert main(["queue", "remove", names[0]]) == 0
    assert [Path(entry["run"]).name for entry in listed(capsys)] == [names[2], names[1]]


def test_what_is_wrong_is_one_message_and_adds_nothing(config, capsys):
    for arguments, what in (
        (["add"], "a config, a preset or a run's folder is missing"),
        (["device", "nothing"], "the device is missing"),
        (["now", "nothing"], "nothing: this run is not in the queue"),
        (["add", config, "--set", "training.batch_size=none"], "training.batch_size"),
        (["add", config, "--sweep", "training.seed"], "there is nothing to sweep over"),
    ):
        assert main(["queue", *arguments]) == 2
        assert what in capsys.readouterr().err
    assert listed(capsys) == []
    assert main(["queue"]) == 0
    assert "No run is queued yet." in capsys.readouterr().out


def test_a_run_whose_folder_is_gone_is_listed_as_such(config, capsys):
    assert main(["queue", "add", config, "--no-forecast"]) == 0
    shutil.rmtree(listed(capsys)[0]["run"])
    assert listed(capsys)[0]["seconds_to_end"] is None
    assert main(["queue"]) == 0
    assert "Its folder is gone" in capsys.readouterr().out
