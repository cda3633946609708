"""Files of folders that may come from anybody."""

import os
import socket

import pytest

from onetrainer.captions.caption_file import CaptionError, read_captions
from onetrainer.edits.saving import read_content
from onetrainer.errors import UserError
from onetrainer.files.inside import (
    NotInside,
    delete_recorded,
    is_inside,
    open_inside,
    open_ordinary,
    own_files,
    read_inside,
    require_own_files,
    stamp_of,
)
from onetrainer.files.locks import locked
from onetrainer.files.names import is_inner_path, is_plain_name


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run" / "inner").mkdir(parents=True)
    (tmp_path / "run" / "inner" / "file").write_text("own")
    (tmp_path / "key").write_text("a stranger's")
    return tmp_path / "run"


@pytest.fixture
def odd(folder):
    """One of each that is no ordinary file, by what it is called in messages."""
    (folder / "link").symlink_to(folder.parent / "key")
    (folder / "gone").symlink_to(folder.parent / "nothing")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(folder)  # as such names are short; `back` undoes it
        made.bind("socket")
    return {"link": "a link", "gone": "a link", "pipe": "a pipe", "socket": "a pipe"}


@pytest.fixture(autouse=True)
def back(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_nothing_but_ordinary_files_is_opened_in_any_way(folder, odd):
    for name, what in {**odd, "inner": "a folder"}.items():
        for mode in ("rb", "ab", "r+b"):
            with pytest.raises(NotInside, match=what):
                open_inside(folder / name, mode)
        assert not is_inside(folder / name)
    assert (folder.parent / "key").read_text() == "a stranger's"
    assert not (folder.parent / "nothing").exists()
    assert [*own_files(folder)] == []


def test_folders_on_the_way_to_a_file_are_no_links_either(folder):
    assert read_inside(folder / "inner" / "file", below=folder) == b"own"
    (folder / "other").symlink_to(folder.parent)
    for path in (folder / "other" / "key", folder / "inner" / ".." / ".." / "key"):
        with pytest.raises(NotInside):
            read_inside(path, below=folder)


def test_the_first_that_is_no_ordinary_file_is_named(folder, odd):
    require_own_files(folder / "inner")
    for name, what in odd.items():
        (folder / name).rename(folder / "inner" / name)
        with pytest.raises(UserError, match=f"{name}: this is {what}"):
            require_own_files(folder / "inner")
        (folder / "inner" / name).unlink()
    (folder / "inner" / "/".join("d" * 25)).mkdir(parents=True)
    with pytest.raises(UserError, match="in more than 20 others"):
        require_own_files(folder / "inner")


def test_a_file_with_another_name_elsewhere_is_replaced_by_a_copy_before_it_is_changed(folder):
    key = folder.parent / "key"
    os.link(key, folder / "log")
    os.link(key, folder / "lock")
    with open_inside(folder / "log", "ab") as log:
        log.write(b" and more")
    with locked(folder / "lock", wait=0) as lock:
        lock.write(b"mine")
        with pytest.raises(BlockingIOError), locked(folder / "lock", wait=0):
            pass
    assert key.read_text() == "a stranger's"
    assert (folder / "log").read_text() == "a stranger's and more"


def test_what_is_larger_than_it_can_be_is_not_read(folder):
    os.truncate(folder / "inner" / "file", 1 << 40)
    with pytest.raises(NotInside, match="larger"):
        read_inside(folder / "inner" / "file")


def test_only_what_was_recorded_is_deleted_by_its_name(folder):
    inner = folder / "inner"
    stamp = stamp_of(inner / "file")
    for name in ("..", ".", "", "../../key", str(folder.parent / "key"), "a\\b", "c:d"):
        delete_recorded(inner, name, stamp_of(inner / name))
    delete_recorded(inner, "file", "")
    (inner / "file").write_text("another")
    delete_recorded(inner, "file", stamp)
    (folder / "link").symlink_to(inner)
    with pytest.raises(NotInside):
        delete_recorded(folder / "link", "file", stamp_of(inner / "file"))
    assert (inner / "file").exists()
    delete_recorded(inner, "file", stamp_of(inner / "file"))
    delete_recorded(folder, "inner", stamp_of(inner))
    assert not inner.exists()


def test_names_from_files_lead_nowhere_else_on_any_system():
    for text in (
        "..",
        "a/../b",
        "/a",
        "C:/a",
        "C:a",
        "a\\b",
        "a:b",
        "a//b",
        "a/",
        "",
        "\0",
        None,
        1,
    ):
        assert not is_inner_path(text), text
    assert is_inner_path("samples/step-000002-00.png")
    assert is_plain_name("a.png")
    assert not is_plain_name("samples/a.png")


def test_an_own_file_may_be_a_link_but_no_pipe_is_waited_for(folder, odd):
    with open_ordinary(folder / "link") as file:
        assert file.read() == b"a stranger's"
    (folder / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "inner"):
        with pytest.raises(NotInside):
            open_ordinary(folder / name)
        with pytest.raises(NotInside):
            read_content(folder / name)
        with pytest.raises(CaptionError, match="its caption cannot be read"):
            read_captions(folder / name, lines="each")
