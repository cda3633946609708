import json

import pytest

from onetrainer.errors import UserError
from onetrainer.run.deleted import DELETED, delete_run, restore_run, size_of_run
from onetrainer.run.events import Progress, Started, Validated
from onetrainer.run.known_runs import find_runs
from onetrainer.run.own_notes import OwnNotes, change_notes, read_notes, split_tags
from tests.onetrainer.run.test_history import make_run, progress


def validated(step, loss, verdict="improving", weights="sampling"):
    return Validated(step, loss, 0.01, 4, step, True, verdict, "", weights=weights)


def test_the_best_validation_is_the_lowest_of_those_that_can_be_compared(tmp_path):
    make_run(
        tmp_path,
        "a",
        Started(1, 0, 100),
        validated(0, 0.1, "first"),  # measured other images: what follows begins anew
        validated(10, 0.5, "first"),
        validated(20, 0.3),
        *(progress(step) for step in range(2000)),  # beyond what is read of the end
        validated(30, 0.2, weights="without_ema"),
        validated(40, 0.4),
        validated(50, float("nan")),
    )
    best = find_runs(tmp_path, known={})[0].best
    assert (best.step, best.loss) == (20, 0.3)


def test_the_newest_sample_is_the_first_prompt_s_of_the_last_step_small_if_there_is_one(tmp_path):
    samples = make_run(tmp_path, "a").samples
    for name in ("step-000009-00.png", "step-000100-01.png", "step-000100-00.png", "note.txt"):
        (samples / name).write_bytes(b"")
    assert find_runs(tmp_path, known={})[0].sample.name == "step-000100-00.png"
    (samples / "step-000100-00.thumb.jpg").write_bytes(b"")
    assert find_runs(tmp_path, known={})[0].sample.name == "step-000100-00.thumb.jpg"


def test_only_runs_that_have_changed_are_read_again(tmp_path):
    runs = [make_run(tmp_path, name, Started(1, 0, 9), Progress(1, 9, 1, 0.1, 0)) for name in "ab"]
    before = {run.path: run for run in find_runs(tmp_path, known={})}
    change_notes(runs[1], notes="sharp")
    after = {run.path: run for run in find_runs(tmp_path, known=before)}
    assert after[runs[0].path] is before[runs[0].path]
    assert after[runs[1].path].notes.notes == "sharp"


def test_notes_change_one_by_one_and_whatever_else_is_in_their_file_is_no_note(tmp_path):
    folder = make_run(tmp_path, "a")
    assert read_notes(folder) == OwnNotes()
    change_notes(folder, tags=split_tags(" red ,blue,, red,"), label=" A  name ")
    change_notes(folder, is_starred=True)
    assert read_notes(folder) == OwnNotes("A name", "", ("red", "blue"), True)
    for content in (b"{", b"[1]", json.dumps({"tags": 3, "notes": [], "is_starred": 7}).encode()):
        folder.notes.write_bytes(content)
        assert read_notes(folder) == OwnNotes()


def test_notes_on_a_run_that_is_gone_make_no_folder(tmp_path):
    folder = make_run(tmp_path, "a")
    delete_run(folder.path)
    with pytest.raises(UserError):
        change_notes(folder, notes="late")
    assert not folder.path.exists()


def test_a_deleted_run_is_not_listed_and_comes_back_as_it_was(tmp_path):
    folder = make_run(tmp_path, "a", Started(1, 0, 9))
    (folder.output / "a.safetensors").write_bytes(bytes(1000))
    content = folder.events.read_bytes()
    assert size_of_run(folder.path) == 1000 + len(content) + folder.config.stat().st_size
    deleted = [delete_run(folder.path)]
    assert find_runs(tmp_path, known={}) == []
    make_run(tmp_path, "a")
    deleted.append(delete_run(folder.path))
    assert [path.name for path in deleted] == ["a-001", "a-001 2"]
    restore_run(deleted[0], folder.path)
    assert folder.events.read_bytes() == content
    with pytest.raises(UserError, match="something else"):
        restore_run(deleted[1], folder.path)


def test_a_run_that_is_running_is_not_deleted(tmp_path):
    folder = make_run(tmp_path, "a", Started(1, 0, 9))
    with folder.locked(), pytest.raises(UserError, match="another process is training"):
        delete_run(folder.path)
    assert folder.config.exists()
    assert not (tmp_path / DELETED).exists()
