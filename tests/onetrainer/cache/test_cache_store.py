"""A cache folder is described and kept small, and nothing but the cache's own is removed."""

import json
import os
import time
from pathlib import Path

import pytest

from onetrainer.__main__ import main
from onetrainer.cache.format import entry_key, new_name, read_shard
from onetrainer.cache.index import CacheIndex
from onetrainer.cache.merge import merge
from onetrainer.cache.store import cache_report, prune
from onetrainer.cli import jobs
from onetrainer.errors import UserError
from onetrainer.messages.cache import format_cache_report, format_prune_report
from onetrainer.run.events import Failed, Finished
from tests.cache_files import ROW, counts, put, readable, used
from tests.each import each
from tests.ui.project import write_project

NUMBERS = range(12)
OLD = "ab" * 32


@pytest.fixture
def folder(tmp_path):
    """Twelve entries in a shard; 0 to 7 were last used a day ago, 0 to 3 two days ago."""
    folder = tmp_path / "cache"
    put(folder, NUMBERS)
    index = CacheIndex(folder)
    merge(index, "latents")
    used(index, range(8), ago=86400)
    used(index, range(4), ago=2 * 86400)
    index.close()
    return folder


def _old_entry(folder):
    path = folder / "text" / "ab" / f"{OLD}.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"?" * 1000)
    return path


def _lease(folder, *, started, host="elsewhere", pid=1):
    row = ("x", host, pid, 0.0, started, int(time.time()))
    index = CacheIndex(folder)
    index.database.transact(
        lambda connection: connection.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?)", row)
    )
    index.close()


def test_report_counts_entries_and_bytes(folder):
    put(folder, [1, 2], kind="masks")
    _old_entry(folder)
    (folder / "text" / "note.txt").write_text("mine")
    index = CacheIndex(folder)
    index.database.transact(lambda c: c.execute("UPDATE entries SET used = 7000 + row"))
    index.close()
    found = cache_report(folder)
    assert [(kind.kind, kind.entries, kind.shards) for kind in found.kinds] == [
        ("latents", 12, 1), ("masks", 2, 2), ("text", 0, 0)
    ]  # fmt: skip
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "note.txt"]
    assert found.bytes == sum(path.stat().st_size for path in files)
    assert (found.older_entries, found.older_bytes) == (1, 1000)
    assert found.foreign == ("text/note.txt",) and not found.is_in_use
    assert (found.kinds[0].oldest_used, found.kinds[0].last_used) == (7000, 7011)


def test_an_index_with_times_that_no_calendar_has_is_reported(folder):
    index = CacheIndex(folder)
    for when in (1 << 62, -(1 << 62), "never"):
        index.database.transact(lambda c, w=when: c.execute("UPDATE entries SET used = ?", (w,)))
        assert "12 in 1 file" in format_cache_report(cache_report(folder))[1]
    index.close()


def test_what_was_not_used_for_longest_goes_first(folder):
    limit = cache_report(folder).bytes - 3 * ROW
    done = prune(folder, limit_bytes=limit)
    left = readable(folder, NUMBERS)
    assert done.entries == 3 and len(left) == 9 and set(left) >= set(range(4, 12))
    assert counts(folder) == [9] and done.bytes <= limit


def test_rewritten_shard_keeps_checksums(folder):
    path = next((folder / "latents").iterdir())
    shard = read_shard(path)
    before = {shard.key(row): shard.checksums[row] for row in range(shard.count)}
    prune(folder, unused_s=1.5 * 86400)
    shard = read_shard(next((folder / "latents").iterdir()))
    assert shard.count == 8
    assert all(before[shard.key(row)] == shard.checksums[row] for row in range(8))


def test_entries_unused_for_so_long_go(folder):
    assert prune(folder, unused_s=3600).entries == 8
    assert readable(folder, NUMBERS) == [8, 9, 10, 11] and counts(folder) == [4]


@pytest.mark.parametrize("is_in_use", [True, False])
def test_what_is_left_above_a_limit_is_reported_by_its_reason(folder, is_in_use):
    index = CacheIndex(folder)
    if is_in_use:
        index.renew_lease()
        index.mark_used("latents", [entry_key(0)])
    reported = format_prune_report(prune(folder, limit_bytes=0), "cache", 0)[-1]
    index.close()
    assert reported.startswith("That is more than 0 bytes: ")
    assert ("running programs" in reported) == is_in_use
    assert ("the index" in reported) != is_in_use


def test_what_this_run_uses_stays_above_any_limit(folder):
    prune(folder, limit_bytes=0, since=time.time() - 3600)
    assert readable(folder, NUMBERS) == [8, 9, 10, 11]
    prune(folder, limit_bytes=0)
    assert readable(folder, NUMBERS) == [] and counts(folder) == []


def test_what_another_program_at_work_uses_stays(folder):
    index = CacheIndex(folder)
    used(index, NUMBERS, ago=60)
    index.renew_lease()
    used(index, [2, 9], ago=0)
    prune(folder, limit_bytes=0, unused_s=0)
    assert readable(folder, NUMBERS) == [2, 9]
    index.close()
    prune(folder, limit_bytes=0)
    assert readable(folder, NUMBERS) == []


def test_program_that_was_killed_keeps_nothing(folder):
    import socket

    _lease(folder, host=socket.gethostname(), pid=os.getpid(), started=0)
    prune(folder, limit_bytes=0)
    assert readable(folder, NUMBERS) == []


def test_no_file_goes_that_another_computer_may_be_reading(folder):
    _lease(folder, started=int(time.time()) - 1.5 * 86400)
    done = prune(folder, limit_bytes=0)
    assert done.computers == ("elsewhere",) and counts(folder) == [12]
    assert readable(folder, NUMBERS) == list(range(4, 12))


def test_entries_of_an_older_version_go_when_asked_or_needed(folder):
    path = _old_entry(folder)
    prune(folder)
    assert path.exists()
    prune(folder, removes_older=True)
    assert not path.exists() and not path.parent.exists()
    path = _old_entry(folder)
    prune(folder, limit_bytes=cache_report(folder).bytes - 1)
    assert not path.exists() and readable(folder, NUMBERS) == list(NUMBERS)


def test_nothing_but_the_cache_s_own_is_removed(folder):
    theirs = [
        folder / "a.txt",
        folder / "latents" / "cat.safetensors",
        folder / "latents" / new_name(),
        folder / "latents" / (new_name() + ".part"),
        folder / "text" / "ab" / "note.txt",
        folder / "text" / "ab" / ("cd" * 32 + ".safetensors"),
        folder / "more" / "ab" / f"{OLD}.safetensors",
    ]
    _old_entry(folder)
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")
    prune(folder, limit_bytes=0, removes_older=True)
    assert [path.read_text() for path in theirs] == ["theirs"] * len(theirs)
    assert {path for path in folder.rglob("*") if path.is_file()} == {
        *theirs,
        folder / "index.sqlite",
    }


def test_part_that_nobody_writes_any_more_is_removed(folder):
    old, new = (folder / "masks" / (new_name() + ".part") for _ in range(2))
    old.parent.mkdir()
    for path, age in ((old, 2 * 86400), (new, 60)):
        path.write_bytes(b"begun")
        os.utime(path, (time.time() - age,) * 2)
    done = prune(folder)
    assert not old.exists() and new.exists()
    assert done.freed_bytes == done.leftover_bytes == len(b"begun")


def test_bytes_of_no_entry_are_reported_as_what_was_left_behind(tmp_path):
    first, second = (put(tmp_path, [7]) for _ in range(2))  # the same entry twice
    size = first[0].stat().st_size
    done = prune(tmp_path)
    assert sum(path.exists() for path in (*first, *second)) == 1
    assert (done.entries, done.freed_bytes, done.leftover_bytes) == (0, size, size)
    (reported,) = format_prune_report(done, "cache", None)
    left = f"unused data, {size} bytes;"
    assert reported.startswith(f"cache: removed {left}")


def test_nothing_removed_is_reported_as_such(folder):
    (reported,) = format_prune_report(prune(folder), "cache", None)
    assert reported.startswith("cache: nothing to remove; ")


def test_entries_and_leftovers_are_reported_apart(folder):
    put(folder, [11])  # again
    extra = min(path.stat().st_size for path in (folder / "latents").glob("*.safetensors"))
    done = prune(folder, unused_s=1.5 * 86400)
    assert (done.entries, done.leftover_bytes) == (4, extra)
    assert done.freed_bytes > extra
    (reported,) = format_prune_report(done, "cache", None)
    assert f"removed 4 entries and {extra} bytes of unused data" in reported


@each("work", [cache_report, prune])
def test_folder_that_is_no_cache_is_refused_and_left_alone(tmp_path, work):
    with pytest.raises(UserError, match="not a cache folder"):
        work(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        work(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_command_shows_of_a_folder(folder, capsys):
    assert main(["cache", str(folder)]) == 0
    assert "12 in 1 file" in capsys.readouterr().out
    assert main(["cache", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"][0]["entries"] == 12


def test_command_finds_a_config_s_cache_and_its_limit(folder, capsys, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"output": {"folder": str(tmp_path)}, "data": {"cache_limit": 0.000001}})
    )
    assert main(["cache", str(tmp_path / "config.json"), "--prune"]) == 0
    assert "removed 12 entries" in capsys.readouterr().out
    assert readable(folder, NUMBERS) == []


def test_a_config_whose_cache_is_yet_to_come_is_no_error(capsys, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"data": {"cache_folder": str(tmp_path / "new")}}))
    assert main(["cache", str(config)]) == 0
    assert "nothing is cached yet" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine.txt").touch()
    assert main(["cache", str(config)]) == 2


def test_a_cache_that_only_a_check_has_been_in_is_yet_to_come(capsys, tmp_path):
    config, folder = tmp_path / "config.json", tmp_path / "new"
    folder.mkdir()
    (folder / "pictures.sqlite").write_bytes(b"12345")
    config.write_text(json.dumps({"data": {"cache_folder": "new"}}))
    for place in (str(config), str(folder)):
        assert main(["cache", place]) == 0
        assert f"{folder}: nothing is cached yet" in capsys.readouterr().out
        assert main(["cache", place, "--json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        assert (reported["folder"], reported["bytes"], len(reported["kinds"])) == (
            str(folder),
            5,
            3,
        )
        assert main(["cache", place, "--prune", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bytes"] == 5
    assert [path.name for path in folder.iterdir()] == ["pictures.sqlite"]


def test_wrong_folder_is_reported_in_json_too(capsys, tmp_path):
    assert main(["cache", str(tmp_path / "nowhere"), "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["problem"] == err.strip()
    assert "a cache folder, a config file or a preset" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--limit", "5"], "--prune"),
        (["--prune", "--limit", "-1"], "not a number of GB"),
        (["--prune", "--older-than", "nan"], "not a number of days"),
        (["--encode"], "needs a config"),
    ],
)
def test_command_says_what_is_wrong(folder, capsys, arguments, words):
    assert main(["cache", str(folder), *arguments]) == 2
    assert words in capsys.readouterr().err
    assert readable(folder, NUMBERS) == list(NUMBERS)


@pytest.fixture
def encode(tmp_path, monkeypatch, capsys):
    """Asks for JSON of a job that leaves four entries and ends in a given way."""

    def run(ending):
        class Encoding:
            def __init__(self, _name, request):
                put(Path(request.folder), range(4))

            def events(self):
                yield ending

        monkeypatch.setattr(jobs, "Job", Encoding)
        code = main(["cache", str(write_project(tmp_path)), "--encode", "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out), err

    return run


def test_whoever_reads_json_gets_what_the_cache_holds_then(encode):
    code, reported, err = encode(Finished(0, [], ["4 pictures are there."]))
    assert (code, reported["kinds"][0]["entries"]) == (0, 4)
    assert "4 pictures are there." in err


def test_whoever_reads_json_gets_what_encoding_fails_of(encode):
    code, reported, err = encode(Failed("user", "no memory"))
    assert (code, reported) == (2, {"problem": "no memory."})
    assert "no memory." in err
