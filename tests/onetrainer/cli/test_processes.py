"""Runs of several processes, as the terminal starts them."""

import json

import pytest

from onetrainer.__main__ import main
from onetrainer.cli import configs, runs
from onetrainer.run import client
from onetrainer.run.run_folder import RunFolder


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The folders of the runs that were started; nothing is trained."""
    folders = []
    monkeypatch.setattr(configs, "require_startable", lambda _problems, **_named: [])
    monkeypatch.setattr(client, "start", folders.append)
    monkeypatch.setattr(runs, "follow", lambda start: start() or 0)
    (tmp_path / "config.json").write_text("{}")
    return folders


def train(folder, *options):
    return main(
        ["train", str(folder.with_name("config.json")), "--run-folder", str(folder), *options]
    )


def processes_of(folder):
    return json.loads(RunFolder(folder).config.read_text())["hardware"]["processes"]


def test_a_run_is_trained_and_resumed_in_as_many_processes_as_asked_for(started, tmp_path):
    folder = tmp_path / "run"
    assert train(folder, "--processes", "3") == 0
    assert processes_of(folder) == 3
    assert main(["resume", str(folder)]) == 0
    assert processes_of(folder) == 3
    assert main(["resume", str(folder), "--processes", "2"]) == 0
    assert processes_of(folder) == 2
    assert main(["resume", str(folder), "--processes", "-1"]) == 2
    assert [run.path for run in started] == [folder] * 3


def test_what_a_launcher_has_started_besides_follows_the_first_process(
    started, tmp_path, monkeypatch
):
    followed = []
    monkeypatch.setattr(client, "follow_first", lambda: followed.append(1) or 0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert train(tmp_path / "run") == 0
    assert (len(started), followed) == (1, [])
    monkeypatch.setenv("RANK", "1")
    assert train(tmp_path / "another") == 0
    assert (len(started), followed) == (1, [1])
    assert not (tmp_path / "another").exists()
