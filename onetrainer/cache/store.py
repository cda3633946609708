"""Report the contents of a cache folder, and prune it.

Only files that the cache has written are ever removed: shards by their names and headers,
unfinished ones by their names, and entries of an older version by their names and folders.
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
"""Age at which an unfinished shard is abandoned; writing one takes seconds."""

_WASTE = 4
"""A shard is rewritten once a fourth of it is unused."""

_BATCH_SIZE = 1000
_OLD_FOLDER = re.compile(r"[0-9a-f]{2}")
_OLD_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_IMAGE_INDEX_NAME = "pictures.sqlite"


@dataclass(frozen=True)
class KindReport:
    """The entries of one kind.

    Attributes:
        kind: kind of entries.
        entries: number of entries.
        shards: number of files.
        bytes: bytes of the files.
        unused_bytes: bytes that no lookup refers to.
        last_used: when the newest entry was used, in seconds since 1970; None without entries.
        oldest_used: when the least recently used entry was.
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
    """The contents of a cache folder.

    Attributes:
        folder: the folder.
        kinds: a report for each kind.
        older_entries: number of files of an older version, which are not read any more.
        older_bytes: their bytes.
        foreign: files in the shard folder that are not shards.
        other_bytes: bytes of the indexes.
        is_in_use: whether programs use it now.
        damaged: names of the entries that this check found damaged.
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
        """Number of entries."""
        return sum(kind.entries for kind in self.kinds)

    @property
    def bytes(self) -> int:
        """Bytes of the folder."""
        return sum(kind.bytes for kind in self.kinds) + self.older_bytes + self.other_bytes


@dataclass(frozen=True)
class PruneReport:
    """What was removed from a cache folder, and its size now.

    Attributes:
        entries: number of removed entries that could still have been used.
        older_entries: number of removed files of an older version.
        freed_bytes: bytes freed.
        bytes: bytes of the folder now.
        computers: other computers that use the folder, because of which no shard was removed.
        is_in_use: whether programs use it now.
        leftover_bytes: freed bytes without usable entries: replaced or abandoned entries,
            unfinished files, and headers of merged files.
    """

    entries: int
    older_entries: int
    freed_bytes: int
    bytes: int
    computers: tuple[str, ...] = ()
    is_in_use: bool = False
    leftover_bytes: int = 0


def cache_report(folder: Path) -> CacheReport:
    """Return the contents of a cache folder. Raises UserError if the folder is not one."""
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
            other_bytes=sum(_size(folder / name) for name in (INDEX_NAME, _IMAGE_INDEX_NAME)),
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
    """Remove unused data, then the least recently used entries down to a limit.

    Entries used since a time, or by running programs since they began, are kept.

    Args:
        folder: the cache folder.
        limit_bytes: limit of the whole folder; None for no limit.
        since: entries used since this time are kept, in seconds since 1970.
        unused_s: also remove entries not used for so many seconds.
        removes_older: also remove entries of an older version; otherwise only to meet the limit.

    Raises:
        UserError: the folder is not a cache, or cannot be written.
    """
    _require_cache(folder)
    index = CacheIndex(folder)
    try:
        before = _total_bytes(index)
        unused = sum(_unused_bytes(shard) for kind in KINDS for shard in index.shards(kind))
        computers = tuple(index.database.transact(other_computers))
        kept_since = _keep_since(index, since)
        unfinished_bytes = _remove_abandoned(folder)
        older = _remove_legacy_files(folder) if removes_older else 0
        evicted = 0
        if unused_s is not None:
            evicted += _evict_unused(index, min(kept_since, int(time.time() - unused_s)))
        _compact(index)
        if limit_bytes is not None and _total_bytes(index) > limit_bytes:
            older += _remove_legacy_files(folder)
            evicted += _shrink(limit_bytes, index, kept_since)
        after = _total_bytes(index)
        is_in_use = index.database.transact(in_use_since) is not None
        freed = max(0, before - after) + unfinished_bytes
        leftover = min(freed, unused + unfinished_bytes) if evicted or older else freed
        return PruneReport(evicted, older, freed, after, computers, is_in_use, leftover)
    finally:
        index.close()


def is_cache(folder: Path) -> bool:
    """Return whether a folder looks like a cache, even an empty one."""
    return (folder / INDEX_NAME).is_file() or any((folder / kind).is_dir() for kind in KINDS)


def has_contents(folder: Path) -> bool:
    """Return whether a folder contains anything besides the image index, which a check leaves."""
    if is_cache(folder):
        return True
    return any(not path.name.startswith(_IMAGE_INDEX_NAME) for path in _list_folder(folder))


def has_image_index(folder: Path) -> bool:
    """Return whether a folder contains an image index."""
    return (folder / _IMAGE_INDEX_NAME).is_file()


def empty_report(folder: Path) -> CacheReport:
    """Return the report of a cache folder in which nothing has been encoded yet."""
    other = _size(folder / _IMAGE_INDEX_NAME)
    kinds = tuple(KindReport(kind, 0, 0, 0, 0, None, None) for kind in KINDS)
    return CacheReport(str(folder), kinds, 0, 0, (), other, is_in_use=False, damaged=())


def empty_prune(folder: Path) -> PruneReport:
    """Return the report of pruning a cache folder in which nothing has been encoded yet."""
    return PruneReport(0, 0, 0, _size(folder / _IMAGE_INDEX_NAME))


def _require_cache(folder: Path) -> None:
    """Raise UserError unless a folder is a cache: a wrong folder must not become one."""
    if is_cache(folder):
        return
    what = "no such folder" if not folder.is_dir() else "not a cache folder"
    raise UserError(
        f"{folder}: {what}",
        'A cache folder contains folders "latents", "masks" and "text"',
        "Give that folder, or a config that uses it",
    )


def _kind_report(index: CacheIndex, kind: Kind) -> KindReport:
    shards = index.shards(kind)
    query = "SELECT MAX(used), MIN(used) FROM entries WHERE kind = ?"
    newest, oldest = index.database.rows(query, (kind,))[0]
    return KindReport(
        kind=kind,
        entries=sum(shard.live for shard in shards),
        shards=len(shards),
        bytes=sum(shard.size for shard in shards),
        unused_bytes=sum(map(_unused_bytes, shards)),
        last_used=newest,
        oldest_used=oldest,
    )


def _keep_since(index: CacheIndex, since: float | None) -> int:
    """Return from when on entries are kept, in whole seconds."""
    in_use = index.database.transact(in_use_since)
    times = [int(time_s) for time_s in (since, in_use) if time_s is not None]
    return min(times, default=int(time.time()) + 1)


def _evict_unused(index: CacheIndex, before: int) -> int:
    """Remove entries last used before a time, and return their number."""
    statement = "DELETE FROM entries WHERE used < ?"
    return index.database.transact(
        lambda connection: connection.execute(statement, (before,)).rowcount
    )


def _shrink(limit_bytes: int, index: CacheIndex, kept_since: int) -> int:
    """Shrink the folder to a limit if possible, and return the number of removed entries."""
    count = 0
    while True:
        evicted = _evict(index, _live_bytes(index) - limit_bytes, kept_since)
        _compact(index, is_tight=True)
        count += evicted
        # Shards have headers, so a few more entries may have to go.
        if not evicted or _total_bytes(index) <= limit_bytes:
            return count


def _evict(index: CacheIndex, excess: int, kept_since: int) -> int:
    """Remove the least recently used entries until so many bytes are free, and return their number.

    Among entries last used at the same time whole shards go first: they need no rewriting.
    """
    query = (
        "SELECT entries.kind, key, row_bytes FROM entries JOIN shards ON shards.id = shard"
        " WHERE used < ? ORDER BY used, shard, row LIMIT ?"
    )
    count = 0
    while excess > 0:
        oldest = index.database.rows(query, (kept_since, _BATCH_SIZE))
        if not oldest:
            break
        evicted: list[tuple[str, bytes]] = []
        for kind, key, row_bytes in oldest:
            if excess <= 0:
                break
            evicted.append((kind, key))
            excess -= row_bytes
        count += len(evicted)
        index.database.transact(partial(_delete_entries, evicted))
    return count


def _delete_entries(entries: list[tuple[str, bytes]], connection: sqlite3.Connection) -> None:
    connection.executemany("DELETE FROM entries WHERE kind = ? AND key = ?", entries)


def _compact(index: CacheIndex, *, is_tight: bool = False) -> None:
    """Remove unused shards, and rewrite partly unused ones; is_tight: however little is unused."""
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
            for batch in shard_groups(group):
                copy_entries(index, kind, batch)
                remove_unused(index, kind)  # at once, so that little room is needed meanwhile
        merge_small_shards(index, kind)


def _live_bytes(index: CacheIndex) -> int:
    """Return the size of the folder without unused data."""
    return _total_bytes(index) - sum(
        _unused_bytes(shard) for kind in KINDS for shard in index.shards(kind)
    )


def _unused_bytes(shard: IndexedShard) -> int:
    """Return the bytes of unused rows, without the header; all bytes if no row is live."""
    return (shard.count - shard.live) * shard.row_bytes if shard.live else shard.size


def _total_bytes(index: CacheIndex) -> int:
    files = [
        index.folder / INDEX_NAME,
        index.folder / _IMAGE_INDEX_NAME,
        *_legacy_files(index.folder),
    ]
    shards = (shard.size for kind in KINDS for shard in index.shards(kind))
    return sum(shards) + sum(map(_size, files))


def _legacy_files(folder: Path) -> Iterator[Path]:
    """Yield the entries of an older version: KIND/ab/ab….safetensors, a file for each."""
    folders = (path for kind in KINDS for path in _list_folder(folder / kind))
    for parent in folders:
        if _OLD_FOLDER.fullmatch(parent.name):
            yield from (path for path in _list_folder(parent) if _is_legacy_file(path))


def _is_legacy_file(path: Path) -> bool:
    """Return whether a file has the name and folder of an entry of an older version."""
    return _OLD_NAME.fullmatch(path.name) is not None and path.name.startswith(path.parent.name)


def _remove_legacy_files(folder: Path) -> int:
    """Remove entries of an older version, and their folders if empty, and return their number."""
    count = 0
    for path in list(_legacy_files(folder)):
        with suppress(OSError):
            path.unlink()
            count += 1
        with suppress(OSError):
            path.parent.rmdir()
    return count


def _remove_abandoned(folder: Path) -> int:
    """Remove unfinished files of ended processes, and return the freed bytes."""
    freed = 0
    for path in (each for kind in KINDS for each in _list_folder(folder / kind)):
        with suppress(OSError):
            found = path.stat()
            if is_part_name(path.name) and time.time() - found.st_mtime > _ABANDONED_S:
                path.unlink()
                freed += found.st_size
    return freed


def _foreign(index: CacheIndex) -> Iterator[str]:
    """Yield files among the shards that are of no known version."""
    for kind in KINDS:
        known = {shard.name for shard in index.shards(kind)}
        for path in _list_folder(index.folder / kind):
            is_ours = path.name in known or is_part_name(path.name) or path.is_dir()
            if not is_ours:
                is_broken = is_shard_name(path.name)
                yield f"{kind}/{path.name}" + (" (unreadable shard)" if is_broken else "")


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
