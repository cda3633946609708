"""What is known of a picture is used as long as its file is unchanged, and never longer."""

import hashlib
import os
import sqlite3
import threading
from contextlib import closing

import pytest

from onetrainer.images import image_index as picture_memory
from onetrainer.images.header import Header
from onetrainer.images.image_index import FILE_NAME, PictureMemory

HEADER = Header(640, 480, True)


@pytest.fixture
def later(monkeypatch):
    """Lets every file seem to have been changed a minute ago."""
    now = picture_memory.time.time_ns
    monkeypatch.setattr(picture_memory.time, "time_ns", lambda: now() + 60_000_000_000)


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"some picture")
    return path


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def learn_all(folder, path):
    with closing(PictureMemory(folder)) as memory:
        assert (memory.known(path), memory.digest(path), memory.features(path, 1)) == (None,) * 3
        memory.learn(path, HEADER)
        memory.read(path)
        memory.learn_features(path, 1, b"looks")


def known(folder, path):
    with closing(PictureMemory(folder)) as memory:
        return memory.known(path), memory.digest(path), memory.features(path, 1)


def test_all_that_was_learned_is_known_the_next_time(later, picture, folder):
    learn_all(folder, picture)
    digest = hashlib.sha256(b"some picture").hexdigest()
    assert known(folder, picture) == (HEADER, digest, b"looks")


def test_what_is_learned_is_known_before_it_is_saved(later, picture, folder):
    memory = PictureMemory(folder)
    memory.read(picture)
    assert memory.digest(picture) == hashlib.sha256(b"some picture").hexdigest()
    assert not folder.exists()


def test_reading_gives_bytes_and_digest(picture, folder):
    data, digest = PictureMemory(folder).read(picture)
    assert data == b"some picture"
    assert digest == hashlib.sha256(data).hexdigest()


def test_missing_picture_cannot_be_read_and_is_not_known(later, picture, folder):
    with pytest.raises(OSError, match="No such file"):
        PictureMemory(folder).read(picture.with_name("gone.png"))
    assert known(folder, picture.with_name("gone.png")) == (None,) * 3


@pytest.mark.parametrize("change", ["content", "size", "time", "replaced", "restored time"])
def test_changed_picture_is_not_known(later, picture, folder, change):
    learn_all(folder, picture)
    before = picture.stat()
    match change:
        case "content":
            picture.write_bytes(b"SOME PICTURE")
        case "size":
            picture.write_bytes(b"some picture.")
        case "time":
            os.utime(picture, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
        case "replaced":
            other = picture.with_name("other")
            other.write_bytes(b"SOME PICTURE")
            os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
            other.replace(picture)
        case "restored time":
            picture.write_bytes(b"SOME PICTURE")
            os.utime(picture, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known(folder, picture) == (None,) * 3


def test_just_written_picture_is_not_remembered(picture, folder):
    learn_all(folder, picture)
    assert known(folder, picture) == (None,) * 3
    assert not (folder / FILE_NAME).exists()


def test_picture_that_changes_while_it_is_looked_at_is_not_remembered(later, picture, folder):
    memory = PictureMemory(folder)
    assert memory.known(picture) is None
    assert memory.features(picture, 1) is None
    picture.write_bytes(b"another one")
    memory.learn(picture, HEADER)
    memory.learn_features(picture, 1, b"looks")
    assert (memory.known(picture), memory.features(picture, 1)) == (None, None)


def test_picture_that_changes_while_it_is_read_is_not_remembered(
    later, picture, folder, monkeypatch
):
    read = type(picture).read_bytes

    def read_late(path):
        data = read(path)
        path.write_bytes(b"another one")
        return data

    memory = PictureMemory(folder)
    monkeypatch.setattr(type(picture), "read_bytes", read_late)
    memory.read(picture)
    monkeypatch.undo()
    assert memory.digest(picture) is None


def test_features_of_another_version_are_not_known_and_learned_anew(later, picture, folder):
    learn_all(folder, picture)
    with closing(PictureMemory(folder)) as memory:
        assert memory.features(picture, 2) is None
        memory.learn_features(picture, 2, b"new looks")
        assert (memory.features(picture, 1), memory.features(picture, 2)) == (
            b"looks",
            b"new looks",
        )


def test_damage_is_known_until_the_file_changes(later, picture, folder):
    with closing(PictureMemory(folder)) as memory:
        assert not memory.has_damage()
        assert memory.features(picture, 1) is None
        memory.learn_damage(picture, 1, "damaged: ü")
        assert memory.has_damage()
    with closing(PictureMemory(folder)) as memory:
        assert memory.has_damage()
        assert memory.damage(picture) == "damaged: ü"
        picture.write_bytes(b"a longer picture by now")
        assert memory.damage(picture) is None


def test_damage_of_a_picture_that_was_replaced_meanwhile_is_not_remembered(later, picture, folder):
    with closing(PictureMemory(folder)) as memory:
        assert memory.features(picture, 1) is None
        picture.write_bytes(b"a longer picture by now")
        memory.learn_damage(picture, 1, "damaged")
        assert memory.damage(picture) is None


def test_moved_picture_is_another_one(later, picture, folder):
    learn_all(folder, picture)
    moved = picture.rename(picture.with_name("b.png"))
    assert known(folder, moved) == (None,) * 3


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
def test_damaged_file_is_forgotten_and_begun_anew(later, picture, folder, damage):
    learn_all(folder, picture)
    damage(folder / FILE_NAME)
    learn_all(folder, picture)
    learned = known(folder, picture)
    if learned == (None,) * 3:  # the damage was seen when something was to be written
        learn_all(folder, picture)
        learned = known(folder, picture)
    assert learned[0] == HEADER


@pytest.mark.parametrize("column", ["stamp", "value"])
def test_damaged_fact_is_not_believed(later, picture, folder, column):
    learn_all(folder, picture)
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute(f"UPDATE facts SET {column} = zeroblob(length({column}))")
    assert known(folder, picture) == (None,) * 3


def test_folder_that_cannot_be_made_costs_memory_alone(later, picture, folder):
    folder.write_text("a file is in the way")
    learn_all(folder, picture)
    assert known(folder, picture) == (None,) * 3


def test_locked_file_costs_memory_alone(later, picture, folder, monkeypatch):
    learn_all(folder, picture)
    monkeypatch.setattr(picture_memory, "_WAIT_SECONDS", 0.01)
    other = picture.with_name("b.png")
    other.write_bytes(b"b")
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        learn_all(folder, other)
        connection.execute("ROLLBACK")
    assert known(folder, other) == (None,) * 3
    assert known(folder, picture)[0] == HEADER


def test_two_memories_of_one_folder_share_what_they_learn(later, picture, folder):
    with closing(PictureMemory(folder)) as one, closing(PictureMemory(folder)) as other:
        one.read(picture)
        one.save()
        assert other.digest(picture) == one.digest(picture)
        assert other.features(picture, 1) is None
        other.learn_features(picture, 1, b"looks")
        other.save()
        assert one.features(picture, 1) == b"looks"


def test_threads_lose_nothing(later, tmp_path, folder):
    paths = [tmp_path / f"{number}.png" for number in range(60)]
    for path in paths:
        path.write_bytes(path.name.encode())
    with closing(PictureMemory(folder)) as memory:
        threads = [
            threading.Thread(target=lambda part=paths[start::4]: [*map(memory.read, part)])
            for start in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with closing(PictureMemory(folder)) as memory:
        expected = [hashlib.sha256(path.name.encode()).hexdigest() for path in paths]
        assert [memory.digest(path) for path in paths] == expected


def test_facts_asked_for_longest_ago_are_forgotten_first(later, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(picture_memory, "MOST_FACTS", 10)
    paths = [tmp_path / f"{number}.png" for number in range(12)]
    for day, part in enumerate((paths[:6], paths[6:])):
        monkeypatch.setattr(picture_memory, "_today", lambda day=day: day)
        with closing(PictureMemory(folder)) as memory:
            for path in part:
                path.write_bytes(b"x")
                memory.read(path)
            assert day == 0 or memory.digest(paths[0])
    with closing(PictureMemory(folder)) as memory:
        kept = [memory.digest(path) is not None for path in paths]
    assert kept[0]  # asked for on the second day
    assert kept[6:] == [True] * 6
    assert sum(kept) == 9  # ten, and a tenth less


def test_pictures_are_not_named_in_the_file(later, picture, folder):
    learn_all(folder, picture)
    assert b"a.png" not in (folder / FILE_NAME).read_bytes()
