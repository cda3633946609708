"""Report the contents of a cache folder, and prune it.

Only files that the cache has written are ever removed: shards by their names and headers,
unfinished ones by their names, and entries of an older version by their names and folders.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from onetrainer.cache.database import INDEX_NAME, in_use_since, other_computers
from onetrainer.cache.format import KINDS, PART_NAME, SHARD_NAME, Kind
from onetrainer.cache.index import CacheIndex
from onetrainer.cache.merge import merge
from onetrainer.errors import UserError
from onetrainer.files.atomic import TEMPORARY

_ABANDONED_S = 24 * 3600
"""Age at which an unfinished shard is abandoned; writing one takes seconds."""

_WASTE = 0.25
"""A shard is rewritten once this fraction of it is unused."""

_OLD_FOLDER = re.compile(r"[0-9a-f]{2}")
_OLD_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_IMAGE_INDEX_NAME = "pictures.sqlite"  # as in existing caches


@dataclass(frozen=True)
class KindReport:
    """The entries of one kind; times are seconds since 1970, None without entries.

    unused_bytes: that no lookup refers to. last_used: of the newest entry. oldest_used: of the one
    not used for longest.
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

    older_entries, older_bytes: files of an older version, which are not read any more. foreign:
    files among the shards that are not shards. other_bytes: of the indexes. is_in_use: by programs,
    now. damaged: names of the entries that this check found damaged.
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
    """What was removed from a cache folder.

    entries: those that could still have been used. older_entries: files of an older version.
    bytes: of the folder now. computers: others that use the folder, because of which no shard was
    removed. is_in_use: by programs, now. leftover_bytes: freed bytes without usable entries:
    replaced or abandoned entries, unfinished files, and headers of merged files.
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
    with closing(CacheIndex(folder)) as index:
        older = list(_legacy_files(folder))
        return CacheReport(
            folder=str(folder),
            kinds=tuple(_kind_report(index, kind) for kind in KINDS),
            older_entries=len(older),
            older_bytes=sum(map(_size, older)),
            foreign=tuple(_foreign(index)),
            other_bytes=_index_bytes(folder),
            is_in_use=index.database.transact(in_use_since) is not None,
            damaged=tuple(index.damaged),
        )


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

    folder: the cache folder. limit_bytes: limit of the whole folder; None for no limit. since:
    entries used since this time are kept, in seconds since 1970. unused_s: also remove entries not
    used for this many seconds. removes_older: also remove entries of an older version;
    otherwise only to meet the limit. Raises UserError if the folder is not a cache, or cannot be
    written.
    """
    _require_cache(folder)
    with closing(CacheIndex(folder)) as index:
        before, unused = _total_bytes(index), _unused_bytes(index)
        computers = tuple(index.database.transact(other_computers))
        in_use = index.database.transact(in_use_since)
        times = [int(time_s) for time_s in (since, in_use) if time_s is not None]
        kept_since = min(times, default=int(time.time()) + 1)
        unfinished_bytes = _remove_abandoned(folder)
        older = _remove_legacy_files(folder) if removes_older else 0
        evicted = 0
        if unused_s is not None:
            evicted = _evict(index, min(kept_since, int(time.time() - unused_s)))
        for kind in KINDS:
            merge(index, kind, waste=_WASTE)
        if limit_bytes is not None and _total_bytes(index) > limit_bytes:
            older += _remove_legacy_files(folder)
            evicted += _shrink(limit_bytes, index, kept_since)
        after = _total_bytes(index)
        freed = max(0, before - after) + unfinished_bytes
        leftover = min(freed, unused + unfinished_bytes) if evicted or older else freed
        is_in_use = index.database.transact(in_use_since) is not None
        return PruneReport(evicted, older, freed, after, computers, is_in_use, leftover)


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
    kinds = tuple(KindReport(kind, 0, 0, 0, 0, None, None) for kind in KINDS)
    other = _index_bytes(folder)
    return CacheReport(str(folder), kinds, 0, 0, (), other, is_in_use=False, damaged=())


def empty_prune(folder: Path) -> PruneReport:
    """Return the report of pruning a cache folder in which nothing has been encoded yet."""
    return PruneReport(0, 0, 0, _index_bytes(folder))


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
    used = "CAST(used AS INTEGER)"  # also in an index that somebody else wrote
    query = f"SELECT MAX({used}), MIN({used}) FROM entries WHERE kind = ?"
    newest, oldest = index.database.rows(query, (kind,))[0]
    return KindReport(
        kind=kind,
        entries=sum(shard.live for shard in shards),
        shards=len(shards),
        bytes=sum(shard.size for shard in shards),
        unused_bytes=sum(shard.unused_bytes for shard in shards),
        last_used=newest,
        oldest_used=oldest,
    )


def _shrink(limit_bytes: int, index: CacheIndex, kept_since: int) -> int:
    """Shrink the folder to a limit if possible, and return the number of removed entries."""
    count = 0
    while True:
        excess = _total_bytes(index) - _unused_bytes(index) - limit_bytes
        evicted = _evict(index, kept_since, excess)
        for kind in KINDS:
            merge(index, kind, waste=0)
        count += evicted
        # Shards have headers, so a few more entries may have to go.
        if not evicted or _total_bytes(index) <= limit_bytes:
            return count


def _evict(index: CacheIndex, before: int, excess: int | None = None) -> int:
    """Remove entries last used before a time, and return their number.

    excess: only the least recently used ones, until this many bytes are free. Among entries last
    used at the same time whole shards go first: they need no rewriting.
    """
    # The bytes of all entries that go earlier.
    earlier = "SUM(row_bytes) OVER (ORDER BY used, shard, row ROWS UNBOUNDED PRECEDING) - row_bytes"
    oldest = (
        f"SELECT entries.kind, key, {earlier} AS earlier FROM entries"
        " JOIN shards ON shards.id = shard WHERE used < ?"
    )
    deletion = (
        "DELETE FROM entries WHERE (kind, key) IN"
        f" (SELECT kind, key FROM ({oldest}) WHERE ? IS NULL OR earlier < ?)"
    )
    return index.database.transact(
        lambda connection: connection.execute(deletion, (before, excess, excess)).rowcount
    )


def _unused_bytes(index: CacheIndex) -> int:
    return sum(shard.unused_bytes for kind in KINDS for shard in index.shards(kind))


def _total_bytes(index: CacheIndex) -> int:
    shards = sum(shard.size for kind in KINDS for shard in index.shards(kind))
    return shards + _index_bytes(index.folder) + sum(map(_size, _legacy_files(index.folder)))


def _index_bytes(folder: Path) -> int:
    return _size(folder / INDEX_NAME) + _size(folder / _IMAGE_INDEX_NAME)


def _legacy_files(folder: Path) -> Iterator[Path]:
    """Yield the entries of an older version: KIND/ab/ab….safetensors, a file for each."""
    for parent in (path for kind in KINDS for path in _list_folder(folder / kind)):
        for path in _list_folder(parent) if _OLD_FOLDER.fullmatch(parent.name) else ():
            if _OLD_NAME.fullmatch(path.name) and path.name.startswith(parent.name):
                yield path


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
            if PART_NAME.fullmatch(path.name) and time.time() - found.st_mtime > _ABANDONED_S:
                path.unlink()
                freed += found.st_size
    return freed


def _foreign(index: CacheIndex) -> Iterator[str]:
    """Yield files among the shards that are of no known version."""
    for kind in KINDS:
        known = {shard.name for shard in index.shards(kind)}
        for path in _list_folder(index.folder / kind):
            is_unfinished = PART_NAME.fullmatch(path.name) or TEMPORARY.fullmatch(path.name)
            if path.name in known or is_unfinished or path.is_dir():
                continue
            is_broken = SHARD_NAME.fullmatch(path.name)
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
