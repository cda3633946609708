"""The index finds what the shards hold, after damage to either."""

import os
import sqlite3
import subprocess
import sys

import pytest

from onetrainer.cache.database import INDEX_NAME
from onetrainer.cache.format import entry_key, read_shard, write_file
from onetrainer.cache.index import CacheIndex
from onetrainer.cache.merge import merge, remove_unused
from onetrainer.errors import UserError
from onetrainer.files.atomic import TEMPORARY
from tests.cache_files import counts, entry, put, readable

NUMBERS = range(6)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture
def folder(tmp_path):
    """A cache of six entries in one shard."""
    put(tmp_path, NUMBERS)
    index = CacheIndex(tmp_path)
    merge(index, "latents")
    index.close()
    assert counts(tmp_path) == [6]
    return tmp_path


def _shard(folder):
    return next((folder / "latents").glob("*.safetensors"))


def _alter(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_merged_entries_are_found_and_single_files_are_gone(folder):
    assert readable(folder, [*NUMBERS, 99]) == list(NUMBERS)
    assert len(list((folder / "latents").iterdir())) == 1


@pytest.mark.parametrize(
    "content", [None, b"", b"no database" * 99, b"SQLite format 3\0" + b"?" * 999]
)
def test_index_that_is_no_good_is_made_again(folder, content):
    (folder / INDEX_NAME).unlink()
    if content is not None:
        (folder / INDEX_NAME).write_bytes(content)
    assert readable(folder, NUMBERS) == list(NUMBERS)
    with sqlite3.connect(folder / INDEX_NAME) as connection:
        assert connection.execute("SELECT COUNT(*) FROM entries").fetchone() == (6,)
    connection.close()


def test_index_damaged_while_in_use_is_made_again(folder):
    index = CacheIndex(folder)
    size = (folder / INDEX_NAME).stat().st_size
    (folder / INDEX_NAME).write_bytes(b"?" * size)
    assert readable(folder, NUMBERS, index=index) == list(NUMBERS)
    put(folder, [7])
    index.refresh("latents")
    assert readable(folder, [7], index=index) == [7]
    index.close()


def test_index_removed_while_in_use_does_no_harm(folder):
    index = CacheIndex(folder)
    (folder / INDEX_NAME).unlink()
    put(folder, [7])
    index.refresh("latents")
    assert readable(folder, [*NUMBERS, 7], index=index) == [*NUMBERS, 7]
    index.close()
    assert readable(folder, [*NUMBERS, 7]) == [*NUMBERS, 7]


def test_index_of_another_program_is_left_alone(folder):
    (folder / INDEX_NAME).unlink()
    with sqlite3.connect(folder / INDEX_NAME) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = (folder / INDEX_NAME).read_bytes()
    assert readable(folder, NUMBERS) == list(NUMBERS)
    assert (folder / INDEX_NAME).read_bytes() == before


def test_damaged_entry_alone_is_dropped_and_named(folder):
    shard = read_shard(_shard(folder))
    left = [number for number in NUMBERS if entry_key(number) != shard.key(2)]
    _alter(_shard(folder), shard.tensors[0].begin + 2 * shard.tensors[0].row_bytes)
    index = CacheIndex(folder)
    assert readable(folder, NUMBERS, index=index) == left
    assert index.damaged == [f"latents/{_shard(folder).name}: entry 2 of 6"]
    index.close()
    again = CacheIndex(folder)
    assert again.damaged == [] and readable(folder, NUMBERS, index=again) == left
    again.close()


@pytest.mark.parametrize("left", [0, 5, 300, -1])
def test_truncated_shard_is_dropped_and_named(folder, left):
    path = _shard(folder)
    path.write_bytes(path.read_bytes()[:left])
    index = CacheIndex(folder)
    assert readable(folder, NUMBERS, index=index) == []
    assert index.damaged == [f"latents/{path.name}: it is truncated"]
    index.close()
    put(folder, NUMBERS)
    assert readable(folder, NUMBERS) == list(NUMBERS)
    index = CacheIndex(folder)
    remove_unused(index, "latents")
    index.close()
    assert not path.exists() and readable(folder, NUMBERS) == list(NUMBERS)


def test_removed_shard_is_missing_and_no_damage(folder):
    _shard(folder).unlink()
    index = CacheIndex(folder)
    assert readable(folder, NUMBERS, index=index) == [] and index.damaged == []
    index.close()


def test_untouched_shard_is_not_read_again(folder):
    index = CacheIndex(folder)
    opened = []
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
    index.refresh("latents")
    assert not [path for path in opened if path.endswith(".safetensors")]
    index.close()


def test_replaced_shard_is_read_again(folder):
    path = _shard(folder)
    path.write_bytes(entry(9))
    assert readable(folder, [*NUMBERS, 9]) == [9]


def test_foreign_files_are_neither_read_nor_removed(folder):
    theirs = [folder / "latents" / name for name in ("a.txt", "b.safetensors", "0" * 32)]
    theirs.append(folder / "latents" / ("0" * 32 + ".safetensors"))
    for path in theirs:
        path.write_text("theirs")
    index = CacheIndex(folder)
    put(folder, [7])
    index.refresh("latents")
    merge(index, "latents")
    remove_unused(index, "latents")
    index.close()
    assert readable(folder, [*NUMBERS, 7]) == [*NUMBERS, 7]
    assert [path.read_text() for path in theirs] == ["theirs"] * 4


def test_shards_of_other_shapes_stay_apart(tmp_path):
    put(tmp_path, [1, 2])
    put(tmp_path, [3, 4, 5], width=4)
    index = CacheIndex(tmp_path)
    merge(index, "latents")
    index.close()
    assert counts(tmp_path) == [2, 3]
    assert readable(tmp_path, range(9)) == [1, 2, 3, 4, 5]


def test_entry_that_is_there_twice_is_kept_once(folder):
    put(folder, [0, 7])
    index = CacheIndex(folder)
    remove_unused(index, "latents")
    assert counts(folder) == [1, 6] and readable(folder, [0, 7], index=index) == [0, 7]
    index.close()


def test_merged_shard_that_another_process_removes_costs_nothing(folder, monkeypatch):
    put(folder, [7])
    index, other = CacheIndex(folder), CacheIndex(folder)

    def overtaken(path, pieces, **options):
        write_file(path, pieces, **options)
        other.refresh("latents")
        remove_unused(other, "latents")
        assert not path.exists()

    monkeypatch.setattr("onetrainer.cache.merge.write_file", overtaken)
    merge(index, "latents")
    assert readable(folder, [*NUMBERS, 7], index=index) == [*NUMBERS, 7]
    index.close()
    other.close()


def test_old_shard_that_cannot_be_removed_is_left_to_the_next_time(folder, monkeypatch):
    put(folder, [7])
    index = CacheIndex(folder)
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", _refused)
        merge(index, "latents")
    assert counts(folder) == [1, 6, 7]
    assert readable(folder, [*NUMBERS, 7], index=index) == [*NUMBERS, 7]
    merge(index, "latents")
    index.close()
    assert counts(folder) == [7]


def _refused(path, missing_ok=False):
    raise PermissionError(13, "in use", str(path))


def test_disk_too_full_for_the_index_is_reported_and_loses_nothing(folder):
    def allow_no_more(connection):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    index, numbers = CacheIndex(folder), [*NUMBERS, *range(10, 300)]
    index.database.transact(allow_no_more)
    put(folder, numbers[len(NUMBERS) :])
    with pytest.raises(UserError, match="disk is full"):
        index.refresh("latents")
    index.close()
    assert readable(folder, numbers) == numbers


def test_locked_index_is_reported_as_such(folder, monkeypatch):
    monkeypatch.setattr("onetrainer.cache.database._PATIENCE_S", 0.01)
    connection = sqlite3.connect(folder / INDEX_NAME, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UserError, match="has locked the cache index"):
        CacheIndex(folder)
    connection.close()
    assert readable(folder, NUMBERS) == list(NUMBERS)


WORK = """
import os, sys
from pathlib import Path
from onetrainer.cache.index import CacheIndex
from onetrainer.cache.merge import merge
from tests.cache_files import put

def work(folder, last):
    done = 0
    def end(event, given):
        nonlocal done
        if event in ("os.rename", "os.remove") or event == "open" and "latents" in str(given[0]):
            done += 1
            if done == last:
                os._exit(9)
    folder.mkdir(exist_ok=True)
    sys.addaudithook(end)
    index = CacheIndex(folder)
    for number in range(4):
        put(folder, [number])
        with (folder / "put").open("a") as file:
            file.write(f"{number} ")
        if number in (1, 3):
            index.refresh("latents")
            merge(index, "latents")
    os._exit(0)

last, step, code = int(sys.argv[2]), int(sys.argv[3]), 9
while code == 9:
    folder = Path(sys.argv[1])
    child = os.fork()
    if not child:
        work(folder / str(last) if sys.argv[4] == "several" else folder, last)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    last += step
sys.exit(code)
"""


def _run(folder, *arguments):
    """Works in processes, each of which is killed at a later file; the last one is not."""
    command = [sys.executable, "-c", WORK, str(folder), *map(str, arguments)]
    return subprocess.Popen(command)


@needs_fork
def test_process_killed_at_any_file_loses_nothing_that_was_put(tmp_path):
    assert _run(tmp_path, 1, 4, "several").wait() == 0
    folders = list(tmp_path.iterdir())
    assert len(folders) > 7
    for folder in folders:
        marker = folder / "put"
        put_already = (
            [int(number) for number in marker.read_text().split()] if marker.exists() else []
        )
        assert readable(folder, range(4))[: len(put_already)] == put_already


@needs_fork
def test_killed_processes_leave_nothing_twice_in_the_end(tmp_path):
    assert _run(tmp_path, 1, 3, "one").wait() == 0
    assert readable(tmp_path, range(4)) == [0, 1, 2, 3] and counts(tmp_path) == [4]
    left = [path.name for path in (tmp_path / "latents").iterdir()]
    assert all(TEMPORARY.fullmatch(name) for name in left if not name.endswith(".safetensors"))


@needs_fork
def test_processes_that_write_the_same_at_once_lose_nothing(tmp_path):
    running = [_run(tmp_path, 10_000, 1, "one") for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert readable(tmp_path, range(4)) == [0, 1, 2, 3]
    index = CacheIndex(tmp_path)
    merge(index, "latents")
    index.close()
    assert sum(counts(tmp_path)) == 4
