"""Merge small and partly unused shards into large ones, and remove unused ones.

An interruption leaves duplicate entries at worst: a new shard is complete before any lookup refers
to it, and an old one is removed only when none does any more.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onetrainer.cache.database import cannot_write
from onetrainer.cache.format import (
    SHARD_BYTES,
    SHARD_ENTRIES,
    SHARD_NAME,
    InvalidShard,
    Kind,
    Shard,
    intact_rows,
    merged,
    new_name,
    read_shard,
    write_file,
)
from onetrainer.cache.index import CacheIndex, IndexedShard, drop_shard, replace_shards

_FULL = SHARD_BYTES // 2
"""Shards of this size are not merged."""

_CHEAP = SHARD_BYTES // 16
"""Smaller shards are always merged; larger ones only with about as much again, so that a byte is
copied a few times in its life and not in every run.
"""


def merge(index: CacheIndex, kind: Kind, *, waste: float = 1.0) -> None:
    """Merge small shards by signature, and remove unused ones. Raises UserError on a full disk.

    waste: also rewrite shards of which at least this fraction is unused. Without a common index
    nothing is merged, as nothing could be removed afterwards.
    """
    remove_unused(index, kind)
    if not index.database.is_shared:
        return
    is_kept = waste >= 1 or not index.may_remove
    groups: defaultdict[str, list[IndexedShard]] = defaultdict(list)
    for shard in index.shards(kind):
        if shard.live:
            groups[shard.signature].append(shard)
    for group in groups.values():
        wasteful = {
            one.id
            for one in group
            if one.live < one.count and one.count - one.live >= waste * one.count and not is_kept
        }
        some = wasteful.union(one.id for one in _small(group))
        for batch in _batches(one for one in group if one.id in some):
            if len(batch) > 1 or batch[0].id in wasteful:
                _copy(index, kind, batch)
                remove_unused(index, kind)  # at once, so that little room is needed meanwhile


def remove_unused(index: CacheIndex, kind: Kind) -> None:
    """Remove shards without live rows.

    Files that cannot be removed, as on Windows while a program reads them, are left for later.
    """
    if not index.may_remove:
        return

    def remove(connection: sqlite3.Connection) -> None:
        query = (
            "SELECT name FROM shards WHERE kind = ?"
            " AND NOT EXISTS (SELECT 1 FROM entries WHERE shard = shards.id)"
        )
        for (name,) in connection.execute(query, (kind,)).fetchall():
            try:
                if SHARD_NAME.fullmatch(name):  # whatever a stranger's index says
                    index.path(kind, name).unlink(missing_ok=True)
            except OSError:
                continue
            drop_shard(connection, kind, name)

    index.database.transact(remove)


def _small(group: Iterable[IndexedShard]) -> list[IndexedShard]:
    """Return the shards to merge: from the smallest on, up to about equal ones."""
    taken: list[IndexedShard] = []
    total = 0
    for shard in sorted(group, key=lambda one: (one.size, one.id)):
        if shard.size >= _FULL or shard.size > max(total, _CHEAP):
            break
        taken.append(shard)
        total += shard.live * shard.row_bytes
    return taken


def _batches(shards: Iterable[IndexedShard]) -> Iterator[list[IndexedShard]]:
    """Yield groups of shards whose entries fit into one."""
    batch: list[IndexedShard] = []
    size = count = 0
    for shard in shards:
        size, count = size + shard.live * shard.row_bytes, count + shard.live
        if batch and (size > SHARD_BYTES or count > SHARD_ENTRIES):
            yield batch
            batch, size, count = [], shard.live * shard.row_bytes, shard.live
        batch.append(shard)
    if batch:
        yield batch


def _copy(index: CacheIndex, kind: Kind, shards: Sequence[IndexedShard]) -> None:
    """Copy the live rows of shards of one signature into a new shard, with their checksums.

    Damaged entries are dropped. Raises UserError.
    """
    sources: list[tuple[Path, Shard, list[int]]] = []
    moved: list[tuple[int, int]] = []
    for shard in shards:
        path, wanted = index.path(kind, shard.name), index.live_rows(shard)
        try:
            header = read_shard(path)
            rows = intact_rows(path, header, wanted)
        except (OSError, InvalidShard):
            continue
        for row in set(wanted) - set(rows):
            index.drop(kind, shard.name, row, header.key(row))
        if rows:
            sources.append((path, header, rows))
            moved += [(shard.id, row) for row in rows]
    if not sources:
        return
    path = index.path(kind, new_name())
    try:
        write_file(path, merged(sources), safely=True)
        # Read again within the transaction, as another process may have removed it as unused.
        index.database.transact(lambda c: replace_shards(c, kind, path, moved))
    except (FileNotFoundError, InvalidShard):
        return  # another process merges the same shards
    except OSError as error:
        raise cannot_write(index.folder, error) from error
