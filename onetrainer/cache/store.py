"""What a cache folder holds, and how it is kept small.

Only files that the cache itself has written are ever removed: shards by their names and headers,
parts of such by their names, and entries of an older version by their names and folders.
"""

import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onetrainer.cache.database import INDEX_NAME
from onetrainer.cache.format import KINDS, Kind, is_part_name, is_shard_name
from onetrainer.cache.index import CacheIndex, IndexedShard
from onetrainer.cache.leases import in_use_since, other_computers
from onetrainer.cache.merge import copy_entries, merge_small_shards, remove_unused, shard_groups
from onetrainer.errors import UserError

_ABANDONED_S = 24 * 3600
"""A shard that is being written takes seconds; after so long nobody writes it any more."""

_WASTE = 4
"""A shard is written anew once a fourth of it is of no use."""

_AT_ONCE = 1000
_OLD_FOLDER = re.compile(r"[0-9a-f]{2}")
_OLD_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_MEMORY_NAME = "pictures.sqlite"


@dataclass(frozen=True)
class KindReport:
    """What is kept of one kind. bytes: of its files; unused_bytes: of them, what nothing is looked
    up in. last_used: when the newest and the oldest entry were, in seconds since 1970; None without
    entries.
    """

    kind: Kind
    entries: int
    shards: int
    bytes: int
    unused_bytes: int
    last_used: int | None
    oldest_used: int | None


@dataclass(frozen=True)
class CacheReport:
    """What a cache folder holds.

    older_entries, older_bytes: files of an older version, which are not read any more. foreign:
    files among the shards that are none. other_bytes: the index, and what is known of pictures.
    is_in_use: whether programs use it now. damaged: what was found to be damaged just now, by name.
    """

    folder: str
    kinds: tuple[KindReport, ...]
    older_entries: int
    older_bytes: int
    foreign: tuple[str, ...]
    other_bytes: int
    is_in_use: bool
    damaged: tuple[str, ...]

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return sum(kind.entries for kind in self.kinds)

    @property
    def bytes(self) -> int:
        """What the folder takes on the disk."""
        return sum(kind.bytes for kind in self.kinds) + self.older_bytes + self.other_bytes


@dataclass(frozen=True)
class PruneReport:
    """What was removed from a cache folder, and what it takes now.

    entries: how many that could still have been used. older_entries: files of an older version.
    freed_bytes, bytes: what the folder takes less, and what it takes now. computers: others at work
    with the folder, for whose sake no shard was removed. is_in_use: whether programs use it now.
    leftover_bytes: of those freed, what no entry was read from any more: entries that were replaced
    or given up before, files that were never finished, and the headers of files that are one now.
    """

    entries: int
    older_entries: int
    freed_bytes: int
    bytes: int
    computers: tuple[str, ...] = ()
    is_in_use: bool = False
    leftover_bytes: int = 0


def cache_report(folder: Path) -> CacheReport:
    """What a cache folder holds. Raises UserError if the folder is none."""
    _require_cache(folder)
    index = CacheIndex(folder)
    try:
        older = list(_legacy_files(folder))
        return CacheReport(
            folder=str(folder),
            kinds=tuple(_kind_report(index, kind) for kind in KINDS),
            older_entries=len(older),
            older_bytes=sum(map(_size, older)),
            foreign=tuple(_foreign(index)),
            other_bytes=sum(_size(folder / name) for name in (INDEX_NAME, _MEMORY_NAME)),
            is_in_use=index.database.transact(in_use_since) is not None,
            damaged=tuple(index.damaged),
        )
    finally:
        index.close()


def prune(
    folder: Path,
    *,
    limit_bytes: int | None = None,
    since: float | None = None,
    unused_s: float | None = None,
    removes_older: bool = False,
) -> PruneReport:
    """Removes what is of no use, then what was not used for longest, down to a limit.

    Never what was used since a time, nor what programs at work have used since they began.
    limit_bytes: of the whole folder; None for no limit. unused_s: also removes what was not used
    for so many seconds. removes_older: also entries of an older version; otherwise only for the
    limit. Raises UserError if the folder is none, or cannot be written.
    """
    _require_cache(folder)
    index = CacheIndex(folder)
    try:
        before = _total_bytes(index)
        unused = sum(_unused_bytes(shard) for kind in KINDS for shard in index.shards(kind))
        computers = tuple(index.database.transact(other_computers))
        spared = _spared_since(index, since)
        begun = _remove_abandoned(folder)
        older = _remove_older(folder) if removes_older else 0
        gone = 0
        if unused_s is not None:
            gone += _evict_unused(index, min(spared, int(time.time() - unused_s)))
        _compact(index)
        if limit_bytes is not None and _total_bytes(index) > limit_bytes:
            older += _remove_older(folder)
            gone += _shrink(limit_bytes, index, spared)
        after = _total_bytes(index)
        is_in_use = index.database.transact(in_use_since) is not None
        freed = max(0, before - after) + begun
        leftover = min(freed, unused + begun) if gone or older else freed
        return PruneReport(gone, older, freed, after, computers, is_in_use, leftover)
    finally:
        index.close()


def is_cache(folder: Path) -> bool:
    """Whether a folder looks like a cache, be it an empty one."""
    return (folder / INDEX_NAME).is_file() or any((folder / kind).is_dir() for kind in KINDS)


def has_contents(folder: Path) -> bool:
    """Whether anything is in a folder but what is remembered of pictures, which a check leaves."""
    if is_cache(folder):
        return True
    return any(not path.name.startswith(_MEMORY_NAME) for path in _list_folder(folder))


def has_image_index(folder: Path) -> bool:
    """Whether something is remembered of pictures there."""
    return (folder / _MEMORY_NAME).is_file()


def empty_report(folder: Path) -> CacheReport:
    """What a cache folder holds in which nothing has been encoded yet."""
    other = _size(folder / _MEMORY_NAME)
    kinds = tuple(KindReport(kind, 0, 0, 0, 0, None, None) for kind in KINDS)
    return CacheReport(str(folder), kinds, 0, 0, (), other, is_in_use=False, damaged=())


def empty_prune(folder: Path) -> PruneReport:
    """The same after pruning it, which removes nothing."""
    return PruneReport(0, 0, 0, _size(folder / _MEMORY_NAME))


def _require_cache(folder: Path) -> None:
    """Raises UserError unless a folder is one: a wrong folder is not to be made a cache."""
    if is_cache(folder):
        return
    what = "there is no such folder" if not folder.is_dir() else "nothing of a cache is in it"
    raise UserError(
        f"{folder}: {what}",
        'A cache folder has folders "latents", "masks" and "text"',
        "Give that folder, or a config that uses it",
    )


def _kind_report(index: CacheIndex, kind: Kind) -> KindReport:
    shards = index.shards(kind)
    asked = "SELECT MAX(used), MIN(used) FROM entries WHERE kind = ?"
    newest, oldest = index.database.rows(asked, (kind,))[0]
    return KindReport(
        kind=kind,
        entries=sum(shard.live for shard in shards),
        shards=len(shards),
        bytes=sum(shard.size for shard in shards),
        unused_bytes=sum(map(_unused_bytes, shards)),
        last_used=newest,
        oldest_used=oldest,
    )


def _spared_since(index: CacheIndex, since: float | None) -> int:
    """From when on what was used is spared: times are told in whole seconds."""
    at_work = index.database.transact(in_use_since)
    times = [int(each) for each in (since, at_work) if each is not None]
    return min(times, default=int(time.time()) + 1)


def _evict_unused(index: CacheIndex, before: int) -> int:
    """Forgets what was last used before a time; gives how many entries."""
    gone = "DELETE FROM entries WHERE used < ?"
    return index.database.transact(lambda connection: connection.execute(gone, (before,)).rowcount)


def _shrink(limit_bytes: int, index: CacheIndex, spared: int) -> int:
    """Makes the folder as small as asked for, if it can be; gives how many entries are gone."""
    count = 0
    while True:
        gone = _evict(index, _live_bytes(index) - limit_bytes, spared)
        _compact(index, is_tight=True)
        count += gone
        # Shards begin with a header, so that a few more may have to go.
        if not gone or _total_bytes(index) <= limit_bytes:
            return count


def _evict(index: CacheIndex, excess: int, spared: int) -> int:
    """Forgets what was not used for longest until so many bytes are; gives how many entries.

    Of what was last used at one time whole shards go first: they need not be written anew.
    """
    asked = (
        "SELECT entries.kind, key, row_bytes FROM entries JOIN shards ON shards.id = shard"
        " WHERE used < ? ORDER BY used, shard, row LIMIT ?"
    )
    count = 0
    while excess > 0:
        oldest = index.database.rows(asked, (spared, _AT_ONCE))
        if not oldest:
            break
        gone: list[tuple[str, bytes]] = []
        for kind, key, row_bytes in oldest:
            if excess <= 0:
                break
            gone.append((kind, key))
            excess -= row_bytes
        count += len(gone)
        index.database.transact(partial(_delete_entries, gone))
    return count


def _delete_entries(entries: list[tuple[str, bytes]], connection: sqlite3.Connection) -> None:
    connection.executemany("DELETE FROM entries WHERE kind = ? AND key = ?", entries)


def _compact(index: CacheIndex, *, is_tight: bool = False) -> None:
    """Removes shards of no use, and writes those anew that are partly so.

    is_tight: however little of a shard is of no use.
    """
    for kind in KINDS:
        remove_unused(index, kind)
        if not index.may_remove:
            continue
        groups: defaultdict[str, list[IndexedShard]] = defaultdict(list)
        for shard in index.shards(kind):
            unused = shard.count - shard.live
            if unused and (is_tight or unused * _WASTE >= shard.count):
                groups[shard.signature].append(shard)
        for group in groups.values():
            for some in shard_groups(group):
                copy_entries(index, kind, some)
                remove_unused(index, kind)  # at once, so that little room is needed meanwhile
        merge_small_shards(index, kind)


def _live_bytes(index: CacheIndex) -> int:
    """What the folder would take if nothing in it were of no use."""
    return _total_bytes(index) - sum(
        _unused_bytes(shard) for kind in KINDS for shard in index.shards(kind)
    )


def _unused_bytes(shard: IndexedShard) -> int:
    """Bytes of a shard without which all that is looked up in it would be there; not of its header.

    All of it where nothing is.
    """
    return (shard.count - shard.live) * shard.row_bytes if shard.live else shard.size


def _total_bytes(index: CacheIndex) -> int:
    files = [index.folder / INDEX_NAME, index.folder / _MEMORY_NAME, *_legacy_files(index.folder)]
    shards = (shard.size for kind in KINDS for shard in index.shards(kind))
    return sum(shards) + sum(map(_size, files))


def _legacy_files(folder: Path) -> Iterator[Path]:
    """The entries of an older version: KIND/ab/ab….safetensors, a file for each."""
    inner = (each for kind in KINDS for each in _list_folder(folder / kind))
    for parent in inner:
        if _OLD_FOLDER.fullmatch(parent.name):
            yield from (path for path in _list_folder(parent) if _is_older(path))


def _is_older(path: Path) -> bool:
    """Whether a file is called, and lies, as entries of an older version do."""
    return _OLD_NAME.fullmatch(path.name) is not None and path.name.startswith(path.parent.name)


def _remove_older(folder: Path) -> int:
    """Removes the entries of an older version, and their folders if nothing else is in them."""
    count = 0
    for path in list(_legacy_files(folder)):
        with suppress(OSError):
            path.unlink()
            count += 1
        with suppress(OSError):
            path.parent.rmdir()
    return count


def _remove_abandoned(folder: Path) -> int:
    """Removes what a process that is gone has begun to write; gives how many bytes that was."""
    freed = 0
    for path in (each for kind in KINDS for each in _list_folder(folder / kind)):
        with suppress(OSError):
            found = path.stat()
            if is_part_name(path.name) and time.time() - found.st_mtime > _ABANDONED_S:
                path.unlink()
                freed += found.st_size
    return freed


def _foreign(index: CacheIndex) -> Iterator[str]:
    """What lies among the shards and is not of this version, nor of an older one."""
    for kind in KINDS:
        known = {shard.name for shard in index.shards(kind)}
        for path in _list_folder(index.folder / kind):
            is_ours = path.name in known or is_part_name(path.name) or path.is_dir()
            if not is_ours:
                is_broken = is_shard_name(path.name)
                yield f"{kind}/{path.name}" + (" (no shard that can be read)" if is_broken else "")


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
