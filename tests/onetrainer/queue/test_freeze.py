import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from onetrainer.captioning.results import JobFolder
from onetrainer.errors import UserError
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.presets.presets import resolve
from onetrainer.queue.freeze import change_device, clone
from onetrainer.run.run_folder import create_run
from tests.runs import wait_until


def test_a_run_is_cloned_behind_itself_with_its_settings_and_forecast(queue, tmp_path):
    config = resolve({"training": {"seed": 7}}, source="a test").model_dump(mode="json")
    config["output"]["folder"] = "elsewhere"  # the folder of runs has moved since
    folders = [create_run(tmp_path / "runs", name=name, config=config) for name in "ab"]
    queue.add(folders, seconds=9.0)
    made = clone(queue, folders[0].path)
    assert [entry.folder.name for entry in queue.read().waiting] == ["a-001", made.name, "b-001"]
    assert {entry.seconds for entry in queue.read().waiting} == {9.0}
    copy = json.loads(made.config.read_text())
    assert made.path.parent == folders[0].path.parent
    assert copy == config | {"output": config["output"] | {"folder": str(made.path.parent)}}
    with queue.changing() as change:
        change.state = change.state.with_entry(str(folders[0].path), turn="over")
    last = clone(queue, folders[0].path)
    assert queue.read().waiting[-1].folder.name == last.name


def test_a_clone_of_a_run_that_begins_meanwhile_waits_behind_all_others(queue, tmp_path):
    config = resolve({}, source="a test").model_dump(mode="json")
    folders = [create_run(tmp_path / "runs", name=name, config=config) for name in "ab"]
    queue.add(folders)
    with ThreadPoolExecutor() as threads:
        with queue.changing() as change:  # which the clone waits for
            made = threads.submit(clone, queue, folders[0].path)
            wait_until(lambda: len([*folders[0].path.parent.iterdir()]) == 3)
            change.state = change.state.with_entry(str(folders[0].path), turn="running")
        names = [folders[1].name, made.result().name]
    assert [entry.folder.name for entry in queue.read().waiting] == names


def test_a_waiting_run_or_job_is_moved_to_another_device_and_forecast_anew(
    queue, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config = resolve({}, source="a test").model_dump(mode="json")
    run = create_run(tmp_path / "runs", name="a", config=config)
    request = {"images": str(tmp_path / "pictures"), "model": "tagger"}
    job = JobFolder(CaptionRequest.model_validate(request)).write_request()
    queue.add([run, job], seconds=9.0)
    for folder, device in ((run, "cuda:1,cuda:2"), (job, "cuda:1")):
        change_device(queue, folder.path, device)
    entries = queue.read().waiting
    assert [(entry.device, entry.seconds, entry.job) for entry in entries] == [
        ("cuda:1,cuda:2", 0.0, ""), ("cuda:1", 9.0, "caption"),
    ]  # fmt: skip
    assert (
        resolve(json.loads(run.config.read_text()), source="").hardware.device == entries[0].device
    )
    assert json.loads(job.config.read_text())["request"] == request | {"device": "cuda:1"}
    for folder in (run, job):
        with pytest.raises(UserError, match="device"):
            change_device(queue, folder.path, "toaster")
    assert queue.read().waiting == entries
    with pytest.raises(UserError, match="describes each image once"):
        clone(queue, job.path)
    with queue.changing() as change:
        change.state = change.state.with_entry(str(run.path), turn="running")
    with pytest.raises(UserError, match="does not wait"):
        change_device(queue, run.path, "cpu")
