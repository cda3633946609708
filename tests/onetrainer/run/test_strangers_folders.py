"""Reading a run's folder that anybody may have made, without a worker."""

import json
import os
import shutil

import pytest

from onetrainer.captioning.results import JobFolder
from onetrainer.errors import UserError
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.queue.queue import entry_of
from onetrainer.run import client
from onetrainer.run.checkpoint_files import DamagedCheckpoint, state_content, verify
from onetrainer.run.event_log import EventReader, read_all
from onetrainer.run.events import Evaluated, Finished, Progress, Sample
from onetrainer.run.fork import copy_history, state_at
from onetrainer.run.history import run_folders, summary
from onetrainer.run.job_folders import is_job
from onetrainer.run.own_notes import OwnNotes, read_notes
from onetrainer.run.record import read_record
from onetrainer.run.run_folder import STATE_FILE, create_run, open_run
from onetrainer.run.starred import starred_steps
from onetrainer.run.wire import encode_event

SECRET = "a key"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "key").write_text(SECRET)
    return create_run(tmp_path / "runs", name="run", config={})


def checkpoint(folder, digests, **state):
    path = folder.checkpoint(2)
    path.mkdir()
    (path / STATE_FILE).write_bytes(state_content({"step": 2, "events_size": 0, **state}, digests))
    folder.events.touch()


def test_what_is_no_ordinary_file_counts_as_missing(folder, tmp_path):
    samples = folder.samples / "step-000002-00.png"
    for make in (lambda path: path.symlink_to(tmp_path / "key"), os.mkfifo):
        for path in (folder.events, folder.notes, folder.starred, folder.log, folder.lock, samples):
            make(path)
        assert (read_all(folder.events), client.log_tail(folder.log)) == ([], [])
        assert (read_notes(folder), starred_steps(folder)) == (OwnNotes(), frozenset())
        assert (folder.is_busy(), folder.last_worker(), folder.is_run()) == (False, None, False)
        record = read_record(folder)
        assert (record.sample, record.best, summary(folder).step) == (None, None, 0)
        for path in (folder.events, folder.notes, folder.starred, folder.log, folder.lock, samples):
            path.unlink()
    folder.config.unlink()
    folder.config.symlink_to(tmp_path / "key")
    assert run_folders(folder.path.parent) == []
    with pytest.raises(UserError, match=r"no config\.json"):
        open_run(folder.path)


def test_events_that_name_files_elsewhere_are_left_out(folder):
    elsewhere = ("/etc/passwd", "../../key", "C:\\key", "\\\\host\\share\\a.png", "")
    events = [Progress(1, 2, 1, 0.5, 0.1)]
    for path in elsewhere:
        image = {"path": path, "prompt": "", "seed": 1, "rewards": {}}
        events.append(Sample(1, 0, path, "", 1))
        events.append(Evaluated(1, 0.5, 0.0, 1, True, "first", "", images=[image]))
    own = [Sample(2, 0, "samples/a.png", "", 1), Finished(2, ["output/a.safetensors"])]
    ending = Finished(2, ["output/a.safetensors", *elsewhere])
    lines = (encode_event(event, time=0) for event in [*events, own[0], ending])
    folder.events.write_text("".join(lines))
    assert read_all(folder.events) == [events[0], *own]


def test_events_without_an_end_are_read_to_their_limit(folder):
    folder.events.write_text(encode_event(Progress(1, 2, 1, 0.5, 0.1), time=0))
    os.truncate(folder.events, 1 << 40)
    reader = EventReader(folder.events)
    assert len(reader.read().events) == 1
    reader._offset = (256 << 20) - 10
    assert [reader.read().is_complete, reader._offset] == [True, 256 << 20]


def test_a_state_that_names_files_elsewhere_is_damaged(folder):
    checkpoint(folder, {"/dev/zero": "0" * 64})
    with pytest.raises(DamagedCheckpoint, match=r"names a file elsewhere \(/dev/zero"):
        verify(folder.checkpoint(2), 2)


def test_no_digest_is_computed_of_a_file_that_is_larger_than_it_can_be(folder):
    checkpoint(folder, {"optimizer.json": "0" * 64})
    (folder.checkpoint(2) / "optimizer.json").touch()
    os.truncate(folder.checkpoint(2) / "optimizer.json", 1 << 40)
    with pytest.raises(DamagedCheckpoint, match=r"optimizer\.json is larger"):
        verify(folder.checkpoint(2), 2)


def test_a_job_is_one_in_this_users_own_place_alone(folder, tmp_path):
    request = CaptionRequest(images=str(tmp_path), model="model")
    own = JobFolder(request).write_request()
    assert is_job(own) and entry_of(own).job == "caption"
    assert own.path.parent.stat().st_mode & 0o777 == 0o700
    folder.config.write_text(own.config.read_text())
    (own.path.parent / "linked").symlink_to(folder.path)
    for place in (folder.path, own.path.parent / "linked", own.path / ".." / "linked"):
        with pytest.raises(UserError, match="no job is taken from a folder"):
            open_run(place)
    assert (is_job(folder), entry_of(folder).job) == (False, "")
    for start in (client.start, lambda run: state_at(run, None)):
        with pytest.raises(UserError, match="no job is taken from a folder"):
            start(folder)
    with pytest.raises(UserError, match="no job"):  # which is not a run to be resumed either
        open_run(own.path)


def test_a_fork_copies_nothing_that_is_elsewhere_and_no_more_than_there_is_room_for(
    folder, tmp_path
):
    checkpoint(folder, {})
    state = json.loads((folder.checkpoint(2) / STATE_FILE).read_bytes())
    link, fork = folder.samples / "key.png", create_run(tmp_path / "runs", name="fork", config={})
    link.symlink_to(tmp_path / "key")
    with pytest.raises(UserError, match=f"{link}: this is a link to {tmp_path / 'key'}"):
        state_at(folder, 2)
    copy_history(folder, state, fork)  # as if it had been put there a moment later
    assert [*fork.samples.iterdir()] == []
    link.unlink()
    link.touch()
    os.truncate(link, shutil.disk_usage(tmp_path).free + (1 << 30))
    other = create_run(tmp_path / "runs", name="fork", config={})
    with pytest.raises(UserError, match="no space left"):
        copy_history(folder, state, other)
    assert not other.path.exists()
