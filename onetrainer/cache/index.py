"""Index of a cache folder: the shard and row of each key, and when it was last used.

The shards are authoritative and the index only saves reading them: if it is missing, damaged or out
of date, it is rebuilt from their headers.
"""

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from onetrainer.cache.database import (
    Database,
    cannot_write,
    end_lease,
    other_computers,
    write_lease,
)
from onetrainer.cache.format import (
    KINDS,
    SHARD_NAME,
    InvalidShard,
    Kind,
    Shard,
    intact_rows,
    read_shard,
)
from onetrainer.files.inside import require_no_link

_SHARDS_AT_ONCE = 100
_KEYS_AT_ONCE = 500  # SQLite takes 999 values in one question at least

_Stamp = tuple[int, int, int]
"""Size and times of a file."""

_Inspected = tuple[str, _Stamp, Shard, Sequence[int]]
"""Name, stamp, header and intact rows of a shard."""


class EntryLocation(NamedTuple):
    """The shard and row of an entry."""

    shard: str
    row: int


@dataclass(frozen=True, slots=True)
class IndexedShard:
    """A shard as the index knows it; live is the number of rows that lookups refer to."""

    id: int
    kind: Kind
    name: str
    signature: str
    count: int
    row_bytes: int
    size: int
    live: int

    @property
    def unused_bytes(self) -> int:
        """Bytes of unused rows, without the header; all bytes if no row is live."""
        return (self.count - self.live) * self.row_bytes if self.live else self.size


class CacheIndex:
    """The index of one folder, used by one thread of a process at a time.

    folder: the cache folder. damaged: names of damaged entries and shards, which are not found any
    more. database: the index file.
    """

    def __init__(self, folder: Path) -> None:
        """Open the index and read new or changed shards. Raises UserError."""
        self.folder = folder
        try:
            for kind in KINDS:
                require_no_link(folder / kind)
        except OSError as error:
            raise cannot_write(folder, error) from error
        self.damaged: list[str] = []
        self._lease: tuple[str, int] | None = None
        self.database = Database(folder, self._refill)
        for kind in KINDS:
            self.refresh(kind)

    def close(self) -> None:
        """Close the file and end the lease of `renew_lease`."""
        if self._lease is not None:
            name, _ = self._lease
            self._lease = None
            self.database.transact(lambda connection: end_lease(connection, name))
        self.database.close()

    def path(self, kind: Kind, name: str) -> Path:
        """Return the path of a shard."""
        return self.folder / kind / name

    @property
    def may_remove(self) -> bool:
        """Whether shards without live rows may be removed.

        A program on this computer can continue to read files that it has mapped, but one on another
        computer cannot, and without a common index no process knows of the others.
        """
        return self.database.is_shared and not self.database.transact(other_computers)

    def refresh(self, kind: Kind) -> None:
        """Update the index from the folder: read new shards and check changed ones again.

        A shard of unchanged size and times is trusted.
        """
        # First the index, then the folder: shards written in between just count as new.
        query = "SELECT name, size, mtime, ctime FROM shards WHERE kind = ?"
        known = {name: tuple(stamp) for name, *stamp in self.database.rows(query, (kind,))}
        folder = self.folder / kind
        files = folder.iterdir() if folder.is_dir() else ()
        shards = [path for path in files if SHARD_NAME.fullmatch(path.name)]
        current = {path.name: stamp for path in shards if (stamp := file_stamp(path))}
        if lost := known.keys() - current.keys():

            def drop_lost(connection: sqlite3.Connection) -> None:
                for name in lost:
                    # A name that no shard has was written by nobody here.
                    if not SHARD_NAME.fullmatch(name) or not self.path(kind, name).exists():
                        drop_shard(connection, kind, name)

            self.database.transact(drop_lost)
        changed = [name for name, stamp in current.items() if known.get(name) != stamp]
        # In batches, as each transaction waits for the disk.
        for begin in range(0, len(changed), _SHARDS_AT_ONCE):
            batch = changed[begin : begin + _SHARDS_AT_ONCE]
            inspected = [self._inspect(kind, name, is_known=name in known) for name in batch]
            self.database.transact(partial(_store_inspected, kind, list(filter(None, inspected))))

    def find(self, kind: Kind, keys: Sequence[bytes]) -> Iterator[EntryLocation | None]:
        """Yield the location of each entry in the order of the keys; None if there is none."""
        query = "SELECT key, name, row FROM entries JOIN shards ON shards.id = shard"
        for batch, marks in _batches(keys):
            where = f"WHERE entries.kind = ? AND key IN ({marks})"
            rows = self.database.rows(f"{query} {where}", (kind, *batch))
            found = {key: EntryLocation(name, row) for key, name, row in rows}
            yield from map(found.get, batch)

    def mark_used(self, kind: Kind, keys: Sequence[bytes]) -> None:
        """Record that entries are used now."""
        now = int(time.time())

        def note(connection: sqlite3.Connection) -> None:
            for batch, marks in _batches(keys):
                change = f"UPDATE entries SET used = ? WHERE kind = ? AND key IN ({marks})"
                connection.execute(f"{change} AND used < ?", (now, kind, *batch, now))

        self.database.transact(note)

    def drop(self, kind: Kind, name: str, row: int, key: bytes) -> None:
        """Drop a damaged entry, so that it is encoded again."""
        self.damaged.append(f"{kind}/{name}: entry {row}")
        deletion = (
            "DELETE FROM entries WHERE kind = ? AND key = ? AND row = ?"
            " AND shard = (SELECT id FROM shards WHERE kind = ? AND name = ?)"
        )
        self.database.transact(lambda c: c.execute(deletion, (kind, key, row, kind, name)))

    def drop_shard(self, kind: Kind, name: str, reason: str) -> None:
        """Drop all entries of a shard, so that they are encoded again."""
        self.damaged.append(f"{kind}/{name}: {reason}")
        self.database.transact(lambda connection: drop_shard(connection, kind, name))

    def shards(self, kind: Kind) -> list[IndexedShard]:
        """Return all shards of a kind, oldest first."""
        query = (
            "SELECT id, kind, name, signature, count, row_bytes, size,"
            " (SELECT COUNT(*) FROM entries WHERE shard = shards.id)"
            " FROM shards WHERE kind = ? ORDER BY id"
        )
        return [IndexedShard(*row) for row in self.database.rows(query, (kind,))]

    def live_rows(self, shard: IndexedShard) -> list[int]:
        """Return the rows of a shard that lookups refer to, in order."""
        query = "SELECT row FROM entries WHERE shard = ? ORDER BY row"
        return [row for (row,) in self.database.rows(query, (shard.id,))]

    def renew_lease(self) -> None:
        """Protect entries that are used from now on from pruning while this process lives.

        Call it again now and then: other computers cannot see whether the process is alive.
        """
        self._lease = name, started = self._lease or (uuid4().hex, int(time.time()))
        self.database.transact(lambda connection: write_lease(connection, name, started))

    def _refill(self) -> None:
        if self._lease is not None:
            self.renew_lease()
        for kind in KINDS:
            self.refresh(kind)

    def _inspect(self, kind: Kind, name: str, *, is_known: bool) -> _Inspected | None:
        """Return a new or changed shard; None if it is not one.

        A shard that cannot be read any more stays known without rows, so that it will be removed.
        """
        path = self.path(kind, name)
        stamp = file_stamp(path)
        if stamp is None:
            return None
        try:
            shard = read_shard(path)
            rows = intact_rows(path, shard, range(shard.count))
        except (OSError, InvalidShard) as error:
            if not is_known or isinstance(error, FileNotFoundError):
                return None
            self.damaged.append(f"{kind}/{name}: {error}")
            return name, stamp, Shard((), b"", (), stamp[0]), ()
        lost = sorted(set(range(shard.count)) - set(rows))
        self.damaged += [f"{kind}/{name}: entry {row} of {shard.count}" for row in lost]
        return name, stamp, shard, rows


def drop_shard(connection: sqlite3.Connection, kind: Kind, name: str) -> None:
    """Remove a shard and all of its entries from the index."""
    found = "SELECT id FROM shards WHERE kind = ? AND name = ?"
    connection.execute(f"DELETE FROM entries WHERE shard = ({found})", (kind, name))
    connection.execute("DELETE FROM shards WHERE kind = ? AND name = ?", (kind, name))


def replace_shards(
    connection: sqlite3.Connection, kind: Kind, path: Path, moved: Sequence[tuple[int, int]]
) -> None:
    """Add a shard that rows of others were copied to, and refer lookups to it.

    moved: for each of its rows, the id and row that it was copied from. Entries that are found
    elsewhere by now stay there. Raises OSError, InvalidShard.
    """
    stamp, shard = file_stamp(path), read_shard(path)
    if stamp is None:
        return
    new = _add(connection, kind, (path.name, stamp, shard, ()))
    change = "UPDATE entries SET shard = ?, row = ? WHERE kind = ? AND key = ? AND shard = ?"
    connection.executemany(
        f"{change} AND row = ?",
        [(new, row, kind, shard.key(row), *old) for row, old in enumerate(moved)],
    )


def file_stamp(path: Path) -> _Stamp | None:
    """Return size and times of a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _add(connection: sqlite3.Connection, kind: Kind, inspected: _Inspected) -> int:
    """Add or update a shard and its rows, and return its id.

    Entries that another shard already holds are skipped.
    """
    name, stamp, shard, rows = inspected
    connection.execute(
        "INSERT INTO shards (kind, name, signature, count, row_bytes, size, mtime, ctime)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET"
        " signature = excluded.signature, count = excluded.count, row_bytes = excluded.row_bytes,"
        " size = excluded.size, mtime = excluded.mtime, ctime = excluded.ctime",
        (kind, name, shard.signature, shard.count, shard.row_bytes, *stamp),
    )
    query = "SELECT id FROM shards WHERE kind = ? AND name = ?"
    number = int(connection.execute(query, (kind, name)).fetchone()[0])
    used = stamp[1] // 10**9
    connection.executemany(
        "INSERT OR IGNORE INTO entries (kind, key, shard, row, used) VALUES (?, ?, ?, ?, ?)",
        ((kind, shard.key(row), number, row, used) for row in rows),
    )
    return number


def _store_inspected(
    kind: Kind, inspected: Sequence[_Inspected], connection: sqlite3.Connection
) -> None:
    """Update the index with inspected shards, without entries that they do not contain any more."""
    for each in inspected:
        number = _add(connection, kind, each)
        _, _, shard, rows = each
        places: Mapping[bytes, int] = {shard.key(row): row for row in rows}
        query = "SELECT key, row FROM entries WHERE shard = ?"
        for key, row in connection.execute(query, (number,)).fetchall():
            if places.get(key) != row:
                connection.execute("DELETE FROM entries WHERE kind = ? AND key = ?", (kind, key))


def _batches(keys: Sequence[bytes]) -> Iterator[tuple[list[bytes], str]]:
    """Yield keys, some at a time, with the question marks that stand for them."""
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        batch = [bytes(key) for key in keys[begin : begin + _KEYS_AT_ONCE]]
        yield batch, ",".join("?" * len(batch))
