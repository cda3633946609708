"""Our own files, damaged in every way: what reads them goes on, with the right types, and says so.

The window's is in tests/ui/model/test_window_state.py, the worker's in tests/modules/training.
"""

import json
from dataclasses import asdict, dataclass, field

import pytest

from onetrainer.captioning.own_files import OwnFile, notes_of, own_files, remember
from onetrainer.captioning.results import JobFolder, Result
from onetrainer.errors import UserError
from onetrainer.files.own_json import NotOurs, parse_json, read_own, say_once
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.metrics.files import LOSSES, SCORES, MeasurementFiles
from onetrainer.queue.queue import Entry, Queue, QueueState
from onetrainer.run.checkpoint_files import DamagedCheckpoint, read_state, state_content
from onetrainer.run.commands import Command, decode_command, encode_command
from onetrainer.run.event_log import read_all
from onetrainer.run.events import Evaluated, Event, Progress
from onetrainer.run.known_folders import known_run_folders, remember_run_folder
from onetrainer.run.own_notes import OwnNotes, change_notes, read_notes
from onetrainer.run.run_folder import create_run
from onetrainer.run.starred import star, starred_steps
from onetrainer.run.user_folder import user_folder
from onetrainer.run.wire import encode_event
from onetrainer.run.worker_mark import WorkerMark, own_mark, read_mark
from onetrainer.trust import trusted_files
from tests.corrupted import corruptions, require_type
from tests.each import each

EVALUATED = Evaluated(
    *(1, 0.5, 0.1, 1, True, "first", "better"),
    rewards={"a": {"mean": 1.0, "since_base": None}},
    images=[{"path": "a.png", "prompt": "a", "seed": 1, "rewards": {"": 1.0}}],
)


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path / "runs", name="a", config={"output": {"name": "a"}})


@dataclass
class Sound:
    """All that is read has a default."""

    number: int = 1
    texts: list[str] = field(default_factory=list)


@each(
    ("content", "read", "said"),
    [
        ({"number": 2, "texts": ["a", 1, "b", None], "later": 1}, Sound(2, ["a", "b"]), "texts.1"),
        ({"number": "two", "texts": ["a"]}, Sound(1, ["a"]), "number"),
        ({"texts": {"a": 1}}, Sound(), "texts"),
        ({"texts": ["a\0", "b"]}, Sound(1, ["b"]), "no file can hold"),
        ([1], Sound(), "as a whole"),
    ],
)
def test_what_is_sound_in_a_file_counts_and_the_rest_is_said_once(
    tmp_path, caplog, content, read, said
):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    caplog.clear()
    say_once.cache_clear()
    for _ in range(2):
        assert read_own(path, Sound, Sound(), lost="left out") == read
    (message,) = caplog.messages
    assert str(path) in message and said in message and message.endswith("left out")


def test_a_device_is_not_read_to_its_end_and_a_missing_file_says_nothing(tmp_path, caplog):
    (tmp_path / "endless").symlink_to("/dev/zero")
    assert read_own(tmp_path / "endless", Sound, Sound(), lost="left out") == Sound()
    caplog.clear()
    assert read_own(tmp_path / "none", Sound, Sound(), lost="left out") == Sound()
    assert not caplog.messages


def test_files_of_a_persons_own_are_read_whatever_is_in_them(folder):
    change_notes(folder, label="a", tags=("b", "c"))
    star(folder, 10, is_starred=True)
    for case, content in corruptions(folder.notes.read_bytes()):
        folder.notes.write_bytes(content)
        require_type(read_notes(folder), OwnNotes, case)
    for case, content in corruptions(folder.starred.read_bytes()):
        folder.starred.write_bytes(content)
        require_type(starred_steps(folder), frozenset[int], case)


def test_damaged_notes_are_kept_when_new_ones_are_written(folder):
    folder.notes.write_text('{"label": "mine", "tags": 3')
    change_notes(folder, notes="new")
    assert folder.notes.with_name("notes.json.damaged").read_text() == '{"label": "mine", "tags": 3'


def test_locks_events_and_commands_are_read_whatever_is_in_them(folder):
    for case, content in corruptions(own_mark().encode().encode()):
        mark = read_mark(content.decode(errors="replace"))
        require_type(mark, WorkerMark | None, case)
        assert mark is None or mark.pid > 0, case  # others mean groups of processes
    for event in (Progress(1, 9, 1, 0.5, 1e-4), EVALUATED):
        for case, content in corruptions(encode_event(event, time=1.0).encode()):
            folder.events.write_bytes(content + b"\n")
            for found in read_all(folder.events):
                require_type(found, Event, case)
                for image in getattr(found, "images", []):
                    require_type([*map(image.get, ("path", "prompt"))], list[str | None], case)
    for case, content in corruptions(encode_command("cancel", canceled="7").encode()):
        require_type(decode_command(content.decode(errors="replace")), Command | None, case)


def test_the_queue_is_read_whatever_is_in_its_file(tmp_path):
    queue = Queue(tmp_path / "queue")
    queue.folder.mkdir()
    sound = {"version": 1, "is_held": False, "entries": [asdict(Entry("/a")), asdict(Entry("/b"))]}
    for case, content in corruptions(json.dumps(sound).encode()):
        queue.file.write_bytes(content)
        require_type(queue.read(), QueueState, case)
        assert all(entry.places for entry in queue.read().entries), case


def test_files_of_the_user_are_read_whatever_is_in_them(tmp_path):
    remember_run_folder(tmp_path)
    for case, content in corruptions(b'["/a", "/b"]'):
        (user_folder() / "run-folders.json").write_bytes(content)
        assert all(path.exists() or not path.exists() for path in known_run_folders()), case
    for case, content in corruptions(b'{"/a.py": "123"}'):
        (user_folder() / trusted_files.FILE).write_bytes(content)
        require_type(dict(trusted_files._trusted_digests()), dict[str, str], case)
    remember(tmp_path, [OwnFile(tmp_path / "a.txt", "1", "2")])
    for case, content in corruptions(notes_of(tmp_path, "own").read_bytes()):
        notes_of(tmp_path, "own").write_bytes(content)
        require_type([*own_files(tmp_path).values()], list[OwnFile], case)


def test_results_of_captioning_are_read_whatever_is_in_them(tmp_path):
    job = JobFolder(CaptionRequest(images=str(tmp_path), model="a"), tmp_path)
    sound = Result("a.png", "1-2", "text", {"tag": 0.5}, rating="safe", seconds=1.5)
    job.path.mkdir()
    for case, content in corruptions(json.dumps(asdict(sound)).encode()):
        job.results.write_bytes(content)
        require_type([*job.read().values()], list[Result], case)


@each("file_format, kept", [(LOSSES, {"noises": 1, "losses": {"shown": {"a": [0.5]}}}), (SCORES, {
    "drift": {"contrast": 1.0},
    "pictures": [{"prompt": "a", "seed": 1, "path": "a", "rewards": {"a": 1.0}, "total": 1.0}],
})])  # fmt: skip
def test_measurements_are_read_or_left_out_whatever_is_in_their_files(tmp_path, file_format, kept):
    for case, content in corruptions(json.dumps({"step": 1, "grid": "g", **kept}).encode()):
        (tmp_path / "step-000001.json").write_bytes(content)
        files = MeasurementFiles(tmp_path, file_format, grid="g", until=9)
        assert len(files.damaged) + files.incomparable + len(files.by_step) == 1, case


def test_a_state_file_is_sound_or_damaged_whatever_is_in_it(tmp_path):
    state = {"step": 1, "config_digest": "a", "events_size": 0, "config": {"a": [1]}}
    for case, content in corruptions(state_content(state, {"a": "1"})):
        (tmp_path / "state.json").write_bytes(content)
        if case != "byte order mark":
            with pytest.raises(DamagedCheckpoint):
                pytest.fail(f"{case}: {read_state(tmp_path, 1)}")


def test_only_json_of_this_program_is_parsed():
    assert parse_json(b'\xef\xbb\xbf{"a": [1, 2.5, "\\u00e9", true, null]}')["a"][2] == "é"
    assert parse_json("[NaN]", with_nan=True)[0] != 0
    for text in ("[NaN]", "[1e400]", f"[{1 << 63}]", '{"a": 1, "a": 2}', '"\\u0000"', "[" * 51):
        with pytest.raises(NotOurs):
            parse_json(text)
    assert not issubclass(NotOurs, UserError)
