"""Captions and masks are saved whole, with a way back, and never over another program's work."""

import os
import sqlite3
from multiprocessing import get_context

import pytest

from onetrainer.edits import history as history_module
from onetrainer.edits import saving
from onetrainer.edits.history import EditHistory
from onetrainer.edits.saving import (
    LEADS_OUT,
    READ_ONLY,
    Change,
    as_now,
    read_content,
    save,
    take_back,
)
from onetrainer.errors import UserError


@pytest.fixture
def place(tmp_path):
    """A folder with three captions, and a history beside it."""
    folder = tmp_path / "cats"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_bytes(b"a cat")
    return folder, EditHistory(tmp_path / "state")


def _changes(folder, after, names="abc"):
    paths = (folder / f"{name}.txt" for name in names)
    return [Change(path, read_content(path), after) for path in paths]


def _contents(folder):
    return {path.stem: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_batch_is_taken_back_whole_by_file_and_again_after_a_restart(place, tmp_path):
    folder, history = place
    new = Change(folder / "d.txt", None, b"new")
    saved = save([*_changes(folder, b"a dog"), new], "Replace cat by dog", history)
    assert len(saved.written) == 4 and not saved.conflicts and not saved.failures
    assert _contents(folder) == {**dict.fromkeys("abc", b"a dog"), "d": b"new"}
    # As after a restart: nothing but the folder is known.
    history = EditHistory(tmp_path / "state")
    batch = history.last()
    assert (batch.about, batch.left) == ("Replace cat by dog", 4)
    assert take_back(batch, history, [folder / "b.txt"]).written == (folder / "b.txt",)
    assert history.last().left == 3
    assert _contents(folder)["b"] == b"a cat"
    take_back(batch, history)
    assert _contents(folder) == dict.fromkeys("abc", b"a cat")
    assert history.last() is None
    # Taking back a taking back is to redo, one after the other, until something new is saved.
    undone = history.last_undone()
    assert undone.undoes == batch.number and undone.about == "Take back: Replace cat by dog"
    take_back(undone, history)
    assert _contents(folder) == {"a": b"a dog", "b": b"a cat", "c": b"a dog", "d": b"new"}
    assert history.last().about == "Replace cat by dog"
    take_back(history.last_undone(), history)
    assert _contents(folder)["b"] == b"a dog" and history.last_undone() is None
    versions = history.versions(folder / "b.txt")
    assert [(each.number, before) for each, before in versions] == [
        (5, b"a cat"),
        (2, b"a dog"),
        (1, b"a cat"),
    ]
    take_back(history.last(), history)
    assert history.last_undone() is not None
    save(_changes(folder, b"a bird"), "New", history)
    assert history.last_undone() is None


def test_what_another_program_has_written_is_kept_until_it_is_asked_about(place):
    folder, history = place
    changes = _changes(folder, b"mine")
    (folder / "a.txt").write_bytes(b"theirs")
    (folder / "b.txt").unlink()
    saved = save(changes, "Mine", history)
    assert [change.path.stem for change in saved.conflicts] == ["a", "b"]
    assert _contents(folder) == {"a": b"theirs", "c": b"mine"}
    save([as_now(change) for change in saved.conflicts], "Mine after all", history)
    assert _contents(folder) == dict.fromkeys("abc", b"mine")
    # Taking back does not lose later work either, but gives back what was there.
    (folder / "b.txt").write_bytes(b"later")
    taken = take_back(history.last(), history)
    assert [change.path.stem for change in taken.conflicts] == ["b"]
    assert _contents(folder) == {"a": b"theirs", "b": b"later", "c": b"mine"}
    # That one is stepped over, and what was saved before can be taken back.
    assert (history.last().about, history.last().left) == ("Mine", 1)
    take_back(history.last(), history)
    assert _contents(folder)["c"] == b"a cat" and history.last() is None


def test_a_file_written_between_the_check_and_the_writing_is_kept(place, monkeypatch):
    folder, history = place
    real = EditHistory.add

    def slow(*args, **kwargs):
        (folder / "b.txt").write_bytes(b"theirs")
        return real(*args, **kwargs)

    monkeypatch.setattr(EditHistory, "add", slow)
    saved = save(_changes(folder, b"mine"), "Mine", history)
    assert [change.path.stem for change in saved.conflicts] == ["b"]
    assert _contents(folder) == {"a": b"mine", "b": b"theirs", "c": b"mine"}
    assert history.last().left == 2


def _die_after_two(folder, state):
    real, count = saving.replace_file, 0

    def dying(path, content):
        nonlocal count
        count += 1
        if count == 3:
            os._exit(9)
        real(path, content)

    saving.replace_file = dying
    save(_changes(folder, b"new"), "New", EditHistory(state))


def test_a_batch_that_was_cut_off_can_be_taken_back(place, tmp_path):
    folder, history = place
    killed = get_context("fork").Process(target=_die_after_two, args=(folder, tmp_path / "state"))
    killed.start()
    killed.join()
    assert _contents(folder) == {"a": b"new", "b": b"new", "c": b"a cat"}
    taken = take_back(history.last(), history)
    assert not taken.conflicts and _contents(folder) == dict.fromkeys("abc", b"a cat")
    assert history.last() is None  # the third one was never written


def test_what_another_program_has_taken_back_is_stepped_over_in_both_directions(place):
    folder, history = place
    save(_changes(folder, b"first"), "First", history)
    save(_changes(folder, b"second", "a"), "Second", history)
    (folder / "a.txt").write_bytes(b"first")
    assert not take_back(history.last(), history).written
    assert history.last().about == "First" and history.last_undone() is None
    assert [before for _, before in history.versions(folder / "a.txt")] == [b"first", b"a cat"]
    take_back(history.last(), history)
    assert history.last() is None and _contents(folder) == dict.fromkeys("abc", b"a cat")
    (folder / "b.txt").write_bytes(b"first")
    (folder / "c.txt").write_bytes(b"theirs")
    redone = take_back(history.last_undone(), history)
    assert redone.written == (folder / "a.txt",) and len(redone.conflicts) == 1
    assert history.last_undone() is None and history.last().left == 1
    take_back(history.last(), history)
    assert _contents(folder) == {"a": b"a cat", "b": b"first", "c": b"theirs"}


def test_refused_files_are_reported_and_are_not_in_the_batch(place, monkeypatch):
    folder, history = place
    (folder / "a.txt").chmod(0o444)

    def refuse(path, content):
        if path.stem == "b":
            raise OSError(28, "No space left on device")
        path.write_bytes(content)

    monkeypatch.setattr(saving, "replace_file", refuse)
    saved = save(_changes(folder, b"new"), "New", history)
    refused = {path.stem: reason for path, reason in saved.failures}
    assert refused == {"a": READ_ONLY, "b": "No space left on device"}
    assert _contents(folder) == {"a": b"a cat", "b": b"a cat", "c": b"new"}
    assert history.last().left == 1
    assert save(_changes(folder, b"x", "a"), "x", history).batch is None
    assert len(history.batches()) == 1


def test_links_stay_links_and_permissions_stay(place):
    folder, history = place
    (folder / "c.txt").chmod(0o640)
    link = folder / "link.txt"
    link.symlink_to(folder / "c.txt")
    saved = save([Change(link, b"a cat", b"new")], "New", history)
    assert saved.written == (folder / "c.txt",) and link.is_symlink()
    assert (folder / "c.txt").read_bytes() == b"new"
    assert (folder / "c.txt").stat().st_mode & 0o777 == 0o640
    with pytest.raises(ValueError, match="two changes"):
        save([Change(each, b"new", b"2") for each in (link, folder / "c.txt")], "2", history)


def test_links_that_lead_out_of_their_folder_are_not_written(place, tmp_path):
    folder, history = place
    (tmp_path / "profile").write_bytes(b"somebody's own")
    for name, content in (("out.txt", b"somebody's own"), ("new.txt", None)):
        (folder / name).symlink_to(tmp_path / ("profile" if content else "made"))
        saved = save([Change(folder / name, content, b"new")], "New", history)
        assert [reason.startswith(LEADS_OUT) for _, reason in saved.failures] == [True]
    assert (tmp_path / "profile").read_bytes() == b"somebody's own"
    assert not (tmp_path / "made").exists()


def test_nothing_is_written_without_a_history(place, tmp_path):
    folder, history = place
    file = tmp_path / "state" / "edits.sqlite"
    file.parent.mkdir()
    damaged = (b"no database" * 100, None)
    for content in damaged:
        if content is None:
            file.unlink()
            with sqlite3.connect(file) as other:
                other.execute("PRAGMA user_version = 7")
            other.close()
        else:
            file.write_bytes(content)
        with pytest.raises(UserError, match="move this file away"):
            save(_changes(folder, b"new"), "New", history)
        assert _contents(folder) == dict.fromkeys("abc", b"a cat")


def test_two_savings_at_once_are_one_after_the_other(place, monkeypatch):
    folder, history = place
    monkeypatch.setattr(history_module, "_WAIT", 0.0)
    with history.locked(), pytest.raises(UserError, match="another window"):
        save(_changes(folder, b"new"), "New", history)
    assert _contents(folder) == dict.fromkeys("abc", b"a cat")


def test_the_oldest_batches_are_forgotten_and_the_last_one_never(place, monkeypatch):
    folder, history = place
    monkeypatch.setattr(history_module, "MAX_BYTES", 3000)
    for number in range(4):
        save(_changes(folder, bytes([number]) * 1000, "a"), f"{number}", history)
    # Of 1,000 bytes each: those of the last three, and what was there before.
    assert [batch.about for batch in history.batches()] == ["3", "2"]
    take_back(history.batches()[1], history)
    big = b"x" * 5000
    save([Change(folder / "b.txt", b"a cat", big)], "big", history)
    assert [batch.about for batch in history.batches()] == ["big"]
    take_back(history.last(), history)
    assert _contents(folder)["b"] == b"a cat"
