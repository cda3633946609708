"""Merge small shards into large ones, and remove unused shards.

An interruption leaves duplicate entries at worst: a new shard is complete before any lookup refers
to it, and an old one is removed only when none does any more.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onetrainer.cache.errors import cannot_write
from onetrainer.cache.format import (
    SHARD_BYTES,
    SHARD_ENTRIES,
    InvalidShard,
    Kind,
    Shard,
    is_intact,
    merged,
    new_name,
    read_header,
    read_shard,
    write_file,
)
from onetrainer.cache.index import CacheIndex, IndexedShard, drop_shard, file_stamp, replace_shards

_FULL = SHARD_BYTES // 2
"""Shards of this size are not merged."""

_CHEAP = SHARD_BYTES // 16
"""Smaller shards are always merged; larger ones only with about as much again, so that a byte is
copied a few times in its life and not in every run.
"""

_Source = tuple[IndexedShard, Path, Shard, list[int]]


def merge_small_shards(index: CacheIndex, kind: Kind) -> None:
    """Merge single entries by signature into shards. Raises UserError on a full disk.

    Without a common index nothing is merged, as nothing could be removed afterwards.
    """
    if not index.database.is_shared:
        return
    groups: defaultdict[str, list[IndexedShard]] = defaultdict(list)
    for shard in index.shards(kind):
        if shard.live and shard.size < _FULL:
            groups[shard.signature].append(shard)
    for group in groups.values():
        for some in shard_groups(_shards_to_merge(group)):
            if len(some) > 1:
                copy_entries(index, kind, some)
    remove_unused(index, kind)


def copy_entries(index: CacheIndex, kind: Kind, shards: Sequence[IndexedShard]) -> None:
    """Copy the live rows of shards of one signature into a new shard, with their checksums.

    The old ones remain until `remove_unused`. Damaged entries are dropped. Raises UserError.
    """
    sources = [source for shard in shards if (source := _merge_source(index, shard))]
    if not sources:
        return
    name = new_name()
    path = index.path(kind, name)
    try:
        write_file(path, merged([source[1:] for source in sources]), safely=True)
        written = read_shard(path)
    except (FileNotFoundError, InvalidShard):
        return  # another process merges the same shards
    except OSError as error:
        raise cannot_write(index.folder, error) from error
    moved = [(shard.id, row) for shard, _, _, rows in sources for row in rows]

    def check_folder(connection: sqlite3.Connection) -> None:
        # Within the transaction, as `remove_unused` of another process may have removed it.
        stamp = file_stamp(path)
        if stamp is not None:
            replace_shards(connection, kind, name, written, stamp, moved)

    index.database.transact(check_folder)


def remove_unused(index: CacheIndex, kind: Kind) -> int:
    """Remove shards without live rows and return the freed bytes.

    Files that cannot be removed, as on Windows while a program reads them, are left for later.
    """
    if not index.may_remove:
        return 0

    def remove(connection: sqlite3.Connection) -> int:
        query = (
            "SELECT name, size FROM shards WHERE kind = ?"
            " AND NOT EXISTS (SELECT 1 FROM entries WHERE shard = shards.id)"
        )
        freed = 0
        for name, size in connection.execute(query, (kind,)).fetchall():
            try:
                index.path(kind, name).unlink(missing_ok=True)
            except OSError:
                continue
            drop_shard(connection, kind, name)
            freed += int(size)
        return freed

    return index.database.transact(remove)


def _shards_to_merge(group: list[IndexedShard]) -> list[IndexedShard]:
    """Return the shards to merge: from the smallest on, up to about equal ones."""
    taken: list[IndexedShard] = []
    total = 0
    for shard in sorted(group, key=lambda one: (one.size, one.id)):
        if shard.size > max(total, _CHEAP):
            break
        taken.append(shard)
        total += shard.live * shard.row_bytes
    return sorted(taken, key=lambda one: one.id)


def shard_groups(shards: Iterable[IndexedShard]) -> Iterator[list[IndexedShard]]:
    """Yield groups of shards whose entries fit into one."""
    heap: list[IndexedShard] = []
    size = count = 0
    for shard in shards:
        size, count = size + shard.live * shard.row_bytes, count + shard.live
        if heap and (size > SHARD_BYTES or count > SHARD_ENTRIES):
            yield heap
            heap, size, count = [], shard.live * shard.row_bytes, shard.live
        heap.append(shard)
    if heap:
        yield heap


def _merge_source(index: CacheIndex, shard: IndexedShard) -> _Source | None:
    """Return the rows of a shard that can be copied; None if there are none."""
    path = index.path(shard.kind, shard.name)
    wanted = index.live_rows(shard)
    try:
        with path.open("rb") as file:
            header = read_header(file, path.stat().st_size)
            rows = [row for row in wanted if is_intact(file, header, row)]
    except (OSError, InvalidShard):
        return None
    for row in set(wanted) - set(rows):
        index.drop(shard.kind, shard.name, row, header.key(row))
    return (shard, path, header, rows) if rows else None
