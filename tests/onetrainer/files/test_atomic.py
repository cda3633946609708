"""Files and folders are whole or absent, whoever else writes and whatever ends a writer."""

import os
import shutil
import stat
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from onetrainer.files import atomic
from onetrainer.files.atomic import (
    atomic_file,
    atomic_folder,
    remove_leftovers,
    temporary_path,
    write_atomic,
)


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomic(path, b"old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_strangers_have_next_to_a_target_stays(tmp_path):
    for name in ("x.part", "x.old", "y.part/in", "y.old/in", ".x.part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    for content in (b"1", b"2"):
        with atomic_file(tmp_path / "x") as file:
            file.write(content)
        with atomic_folder(tmp_path / "y") as folder:
            (folder / "new").write_bytes(content)
    names = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {"x", "y/new", "x.part", "x.old", "y.part/in", "y.old/in", ".x.part"}
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y" / "new").read_bytes() == b"2"


def _end_while_writing(path):
    with atomic_file(path), atomic_folder(path.with_name("folder")):
        os._exit(9)


def test_what_a_killed_writer_has_left_is_removed_and_nothing_else(tmp_path):
    killed = get_context("fork").Process(target=_end_while_writing, args=(tmp_path / "x",))
    killed.start()
    killed.join()
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 2
    elsewhere = [".onetrainer-x-01234567-1-89abcdef.part", ".onetrainer-x-89abcdef.part"]
    strangers = [".onetrainer-x-mine.part", "x.part", ".onetrainer-x-0-1.json"]
    with atomic_file(tmp_path / "y"):  # a living writer
        mine = {path.name for path in tmp_path.iterdir()}
        for name in [*elsewhere, *strangers]:
            (tmp_path / name).touch()
        remove_leftovers(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == mine | {*elsewhere, *strangers}
        for name in [*elsewhere, *strangers]:
            os.utime(tmp_path / name, (0, time.time() - 2 * 86400))
        remove_leftovers(tmp_path)  # older than any writing takes, so of no living writer
        assert {path.name for path in tmp_path.iterdir()} == mine | {*strangers}
    assert {path.name for path in tmp_path.iterdir()} == {"y", *strangers}


def _end_between_renames(path):
    def rename(self, target):
        if self.suffix == ".part":
            os._exit(9)
        return original(self, target)

    original, Path.rename = Path.rename, rename
    with atomic_folder(path) as folder:
        (folder / "new").touch()


def test_a_folder_whose_replacement_was_killed_gets_its_name_back(tmp_path):
    for name in ("model", "m" * 150):
        path = tmp_path / name
        path.mkdir()
        (path / "old").touch()
        killed = get_context("fork").Process(target=_end_between_renames, args=(path,))
        killed.start()
        killed.join()
        assert not path.exists()
        remove_leftovers(tmp_path)
        assert [file.name for file in path.iterdir()] == ["old"]
        shutil.copytree(path, tmp_path / f".onetrainer-{name}-89abcdef.old")
        os.utime(tmp_path / f".onetrainer-{name}-89abcdef.old", (0, time.time() - 2 * 86400))
        remove_leftovers(tmp_path)
        assert [file.name for file in tmp_path.iterdir()] == [name]
        shutil.rmtree(path)


def test_a_process_that_is_not_the_writer_protects_nothing(tmp_path):
    """One that began later under the same number, and a killed one that nobody has waited for."""
    zombie = get_context("fork").Process(target=_end_while_writing, args=(tmp_path / "x",))
    zombie.start()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    later = temporary_path(tmp_path / "later")
    later.touch()
    os.utime(later, (0, psutil.Process().create_time() - 3600))
    assert len(list(tmp_path.iterdir())) == 3
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
    zombie.join()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of Unix")
def test_a_replaced_file_keeps_its_permissions(tmp_path):
    (tmp_path / "x").touch(mode=0o600)
    (tmp_path / "x").chmod(0o600)
    write_atomic(tmp_path / "x", b"1")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600


def test_a_file_that_another_program_has_open_on_windows_is_replaced_once_it_is_closed(
    tmp_path, monkeypatch
):
    path, refused = tmp_path / "x", [PermissionError(), PermissionError()]
    replace = Path.replace

    def replace_closed(source, target):
        if refused:
            raise refused.pop()
        return replace(source, target)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(atomic, "_PAUSE", 0)
    monkeypatch.setattr(Path, "replace", replace_closed)
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"


def test_two_that_write_one_file_both_succeed(tmp_path):
    path = tmp_path / "x"
    with atomic_file(path) as first:
        first.write(b"first")
        with atomic_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert [found.name for found in tmp_path.iterdir()] == ["x"]


def test_bytes_reach_the_disk_before_they_take_the_place_and_then_the_folder(tmp_path, monkeypatch):
    path, sizes = tmp_path / "x", []

    def synchronize(descriptor):
        sizes.append((os.fstat(descriptor).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", synchronize)
    with atomic_file(path) as file:
        file.write(b"12345")
    assert sizes == [(5, False), (tmp_path.stat().st_size, True)]


def test_link_to_a_folder_is_replaced_and_the_folder_stays(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_folder(tmp_path / "link") as folder:
        (folder / "new").write_text("1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text() == "mine"


def test_folder_that_cannot_take_the_place_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").write_text("mine")
    rename = type(tmp_path).rename

    def rename_once(path, target):
        if (path / "new").exists():
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(type(tmp_path), "rename", rename_once)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "x") as folder:
        (folder / "new").write_text("1")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x" / "file").read_text() == "mine"
