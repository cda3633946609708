"""What is known of an image is used as long as its file is unchanged, and never longer."""

import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from onetrainer import ROOT
from onetrainer.images import image_index as image_memory
from onetrainer.images.header import Header
from onetrainer.images.image_index import FILE_NAME, ImageIndex, recent_facts
from onetrainer.run.client import environment

HEADER = Header(640, 480, True)


@pytest.fixture
def later(monkeypatch):
    """Lets every file seem to have been changed a minute ago."""
    now = image_memory.time.time_ns
    monkeypatch.setattr(image_memory.time, "time_ns", lambda: now() + 60_000_000_000)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"some picture")
    return path


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def index_all(folder, path):
    with closing(ImageIndex(folder)) as memory:
        assert (memory.cached_header(path), memory.digest(path), memory.features(path, 1)) == (
            None,
        ) * 3
        memory.store_header(path, HEADER)
        memory.read(path)
        memory.store_features(path, 1, b"looks")


def known(folder, path):
    with closing(ImageIndex(folder)) as memory:
        return memory.cached_header(path), memory.digest(path), memory.features(path, 1)


def test_all_that_was_stored_is_known_the_next_time_by_the_hash_of_the_path(later, image, folder):
    index_all(folder, image)
    digest = hashlib.sha256(b"some picture").hexdigest()
    assert known(folder, image) == (HEADER, digest, b"looks")
    assert known(folder, image.rename(image.with_name("b.png"))) == (None,) * 3
    assert b"a.png" not in (folder / FILE_NAME).read_bytes()


def test_missing_image_cannot_be_read_and_is_not_known(later, image, folder):
    with pytest.raises(OSError, match="No such file"):
        ImageIndex(folder).read(image.with_name("gone.png"))
    assert known(folder, image.with_name("gone.png")) == (None,) * 3


@pytest.mark.parametrize("change", ["content", "size", "time", "replaced", "restored time"])
def test_changed_image_is_not_known(later, image, folder, change):
    index_all(folder, image)
    before = image.stat()
    match change:
        case "content":
            image.write_bytes(b"SOME PICTURE")
        case "size":
            image.write_bytes(b"some picture.")
        case "time":
            os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
        case "replaced":
            other = image.with_name("other")
            other.write_bytes(b"SOME PICTURE")
            os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
            other.replace(image)
        case "restored time":
            image.write_bytes(b"SOME PICTURE")
            os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known(folder, image) == (None,) * 3


def test_just_written_image_is_not_remembered(image, folder):
    index_all(folder, image)
    assert known(folder, image) == (None,) * 3
    assert not (folder / FILE_NAME).exists()


def test_image_that_changes_while_it_is_analyzed_is_not_remembered(later, image, folder):
    memory = ImageIndex(folder)
    assert memory.cached_header(image) is None
    assert memory.features(image, 1) is None
    image.write_bytes(b"another one")
    memory.store_header(image, HEADER)
    memory.store_features(image, 1, b"looks")
    assert (memory.cached_header(image), memory.features(image, 1)) == (None, None)


def test_image_that_changes_while_it_is_read_is_not_remembered(later, image, folder, monkeypatch):
    read = type(image).read_bytes

    def read_late(path):
        data = read(path)
        path.write_bytes(b"another one")
        return data

    memory = ImageIndex(folder)
    monkeypatch.setattr(type(image), "read_bytes", read_late)
    memory.read(image)
    monkeypatch.undo()
    assert memory.digest(image) is None


def test_features_of_another_version_are_not_known_and_trained_again(later, image, folder):
    index_all(folder, image)
    with closing(ImageIndex(folder)) as memory:
        assert memory.features(image, 2) is None
        memory.store_features(image, 2, b"new looks")
        assert (memory.features(image, 1), memory.features(image, 2)) == (
            b"looks",
            b"new looks",
        )


def test_damage_is_known_until_the_file_changes(later, image, folder):
    with closing(ImageIndex(folder)) as memory:
        assert memory.features(image, 1) is None
        memory.store_damage(image, 1, "damaged: ü")
    with closing(ImageIndex(folder)) as memory:
        assert memory.damage(image) == "damaged: ü"
        image.write_bytes(b"a longer picture by now")
        assert memory.damage(image) is None


def truncated(file):
    file.write_bytes(file.read_bytes()[:5000])


def another_table(file):
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE facts (a, b)")
        connection.execute("PRAGMA user_version = 1")


def another_version(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")


DAMAGES = [
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"no database at all" * 1000),
    truncated,
    another_table,
    another_version,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_forgotten_and_begun_again(later, image, folder, damage):
    index_all(folder, image)
    damage(folder / FILE_NAME)
    index_all(folder, image)
    trained = known(folder, image)
    if trained == (None,) * 3:  # the damage was seen when something was to be written
        index_all(folder, image)
        trained = known(folder, image)
    assert trained[0] == HEADER


@pytest.mark.parametrize("column", ["stamp", "value"])
def test_damaged_fact_is_not_believed(later, image, folder, column):
    index_all(folder, image)
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute(f"UPDATE facts SET {column} = zeroblob(length({column}))")
    assert known(folder, image) == (None,) * 3


def test_folder_that_cannot_be_made_costs_memory_alone(later, image, folder):
    folder.write_text("a file is in the way")
    index_all(folder, image)
    assert known(folder, image) == (None,) * 3


def test_locked_file_costs_memory_alone(later, image, folder, monkeypatch):
    index_all(folder, image)
    monkeypatch.setattr(image_memory, "_WAIT_SECONDS", 0.01)
    other = image.with_name("b.png")
    other.write_bytes(b"b")
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        index_all(folder, other)
        connection.execute("ROLLBACK")
    assert known(folder, other) == (None,) * 3
    assert known(folder, image)[0] == HEADER


def test_two_indexes_of_one_folder_use_the_same_entries(later, image, folder):
    with closing(ImageIndex(folder)) as one, closing(ImageIndex(folder)) as other:
        one.read(image)
        one.save()
        assert other.digest(image) == one.digest(image)
        assert other.features(image, 1) is None
        other.store_features(image, 1, b"looks")
        other.save()
        assert one.features(image, 1) == b"looks"


def test_threads_lose_nothing(later, tmp_path, folder):
    paths = [tmp_path / f"{number}.png" for number in range(60)]
    for path in paths:
        path.write_bytes(path.name.encode())
    with closing(ImageIndex(folder)) as memory:
        threads = [
            threading.Thread(target=lambda part=paths[start::4]: [*map(memory.read, part)])
            for start in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with closing(ImageIndex(folder)) as memory:
        expected = [hashlib.sha256(path.name.encode()).hexdigest() for path in paths]
        assert [memory.digest(path) for path in paths] == expected


def test_facts_asked_for_longest_ago_are_forgotten_first(later, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(image_memory, "MAX_FACTS", 10)
    paths = [tmp_path / f"{number}.png" for number in range(12)]
    for day, part in enumerate((paths[:6], paths[6:])):
        monkeypatch.setattr(image_memory, "_today", lambda day=day: day)
        with closing(ImageIndex(folder)) as memory:
            for path in part:
                path.write_bytes(b"x")
                memory.read(path)
            assert day == 0 or memory.digest(paths[0])
    with closing(ImageIndex(folder)) as memory:
        kept = [memory.digest(path) is not None for path in paths]
    assert kept[0]  # asked for on the second day
    assert kept[6:] == [True] * 6
    assert sum(kept) == 9  # ten, and a tenth less


def end_with_facts(image):
    recent_facts.cache_clear()
    recent_facts().read(image)
    recent_facts().save()
    os._exit(9)


def test_facts_without_a_cache_folder_are_kept_as_long_as_the_process_lives(
    later, image, folder, monkeypatch
):
    """Those of a killed one go when the next one asks; a file is closed before it goes."""
    facts = recent_facts()
    assert facts is recent_facts() and facts.cached_header(image) is None
    facts.store_header(image, HEADER)
    facts.save()
    assert facts.cached_header(image) == HEADER and (facts.folder / FILE_NAME).exists()
    image.write_bytes(b"something else")
    assert facts.cached_header(image) is None
    code = """
import shutil
from psutil import Process
from onetrainer import ROOT
from onetrainer.images.image_index import FILE_NAME, recent_facts
def removing(folder, **more):
    assert not any(FILE_NAME in file.path for file in Process().open_files())
    print("closed")
    remove(folder, **more)
remove, shutil.rmtree = shutil.rmtree, removing
recent_facts().read(ROOT / "pyproject.toml")
recent_facts().save()
assert recent_facts().folder.is_dir()
print(recent_facts().folder)
"""
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    killed = get_context("fork").Process(target=end_with_facts, args=(image,))
    killed.start()
    killed.join()
    assert len([*folder.rglob(FILE_NAME)]) == 1
    command, place = [sys.executable, "-c", code], environment() | {"TMPDIR": str(folder)}
    shown = subprocess.run(command, cwd=ROOT, env=place, capture_output=True, check=True)
    left, own, closed = shown.stdout.decode().split()
    assert (left, closed) == ("closed", "closed") and folder in Path(own).parents
    assert [*folder.iterdir()] == []
