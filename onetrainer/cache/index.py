"""The index of a cache folder: which shard and row holds a key, and when it was last used.

The shards are the truth, and the index only saves reading them: where it is missing, damaged or out
of date it is made anew from their headers.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from onetrainer.cache.database import Database
from onetrainer.cache.format import (
    KINDS,
    InvalidShard,
    Kind,
    Shard,
    is_intact,
    is_shard_name,
    read_header,
)
from onetrainer.cache.leases import Lease, new_lease, other_computers

_SHARDS_AT_ONCE = 100
_KEYS_AT_ONCE = 500  # SQLite takes 999 values in one question at least


class EntryLocation(NamedTuple):
    """Where an entry lies."""

    shard: str
    row: int


@dataclass(frozen=True, slots=True)
class IndexedShard:
    """A shard as the index knows it. live: how many of its rows are looked up there."""

    id: int
    kind: Kind
    name: str
    signature: str
    count: int
    row_bytes: int
    size: int
    live: int


@dataclass(frozen=True, slots=True)
class _InspectedShard:
    """A shard's file as it is now. shard: None if it is not to be read any more. rows: those that
    are intact.
    """

    kind: Kind
    name: str
    stamp: tuple[int, int, int]
    shard: Shard | None
    rows: Sequence[int]


class CacheIndex:
    """The index of one folder; one at a time of a process's threads uses it.

    damaged: the names of entries and shards that were found not to be what was once written; they
    are not found any more.
    """

    def __init__(self, folder: Path) -> None:
        """Opens it, and looks at each shard that is new or changed. Raises UserError."""
        self.folder = folder
        self.damaged: list[str] = []
        self._lease: Lease | None = None
        self.database = Database(folder, self._refill)
        self._refresh_all()

    def close(self) -> None:
        """Lets go of the file, and of what `hold` keeps."""
        if self._lease is not None:
            self.database.transact(self._lease.end)
            self._lease = None
        self.database.close()

    def path(self, kind: Kind, name: str) -> Path:
        """Where a shard lies."""
        return self.folder / kind / name

    @property
    def may_remove(self) -> bool:
        """Whether shards may be removed that nothing is looked up in any more.

        A program of this computer goes on reading what it has mapped. One of another computer
        would not, and where processes have no common index none knows of the others.
        """
        return self.database.is_shared and not self.database.transact(other_computers)

    def refresh(self, kind: Kind) -> None:
        """Makes the index fit the folder: new shards are read, changed ones checked again.

        A shard whose size and times are as they were is trusted.
        """
        # First what is known, then what is there: whatever is written in between is only new.
        asked = "SELECT name, size, mtime, ctime FROM shards WHERE kind = ?"
        before = {name: tuple(stamp) for name, *stamp in self.database.rows(asked, (kind,))}
        there = dict(_stamps(self.folder / kind))
        if lost := before.keys() - there.keys():
            self._drop_lost(kind, lost)
        changed = [name for name, stamp in there.items() if before.get(name) != stamp]
        # Several at once: each change of the index waits for the disk.
        for begin in range(0, len(changed), _SHARDS_AT_ONCE):
            some = changed[begin : begin + _SHARDS_AT_ONCE]
            inspected = [self._inspect(kind, name, is_known=name in before) for name in some]
            self.database.transact(
                partial(_store_inspected, [each for each in inspected if each is not None])
            )

    def add(self, kind: Kind, written: Sequence[tuple[str, Shard]]) -> None:
        """Takes up shards that were just written; entries found elsewhere stay there."""
        used = int(time.time())

        def take(connection: sqlite3.Connection) -> None:
            for name, shard in written:
                # One that is gone was merged, and taken up, by another process.
                if stamp := file_stamp(self.path(kind, name)):
                    _add(connection, kind, name, shard, stamp, range(shard.count), used)

        self.database.transact(take)

    def find(self, kind: Kind, keys: Sequence[bytes]) -> Iterator[EntryLocation | None]:
        """Where each entry is, in the order of the keys; None where there is none."""
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            some = [bytes(key) for key in keys[begin : begin + _KEYS_AT_ONCE]]
            asked = (
                "SELECT key, name, row FROM entries JOIN shards ON shards.id = shard"
                f" WHERE entries.kind = ? AND key IN ({_marks(some)})"
            )
            rows = self.database.rows(asked, (kind, *some))
            found = {key: EntryLocation(name, row) for key, name, row in rows}
            yield from map(found.get, some)

    def mark_used(self, kind: Kind, keys: Sequence[bytes]) -> None:
        """Notes that entries are used now."""
        now = int(time.time())

        def note(connection: sqlite3.Connection) -> None:
            for begin in range(0, len(keys), _KEYS_AT_ONCE):
                some = [bytes(key) for key in keys[begin : begin + _KEYS_AT_ONCE]]
                change = f"UPDATE entries SET used = ? WHERE kind = ? AND key IN ({_marks(some)})"
                connection.execute(f"{change} AND used < ?", (now, kind, *some, now))

        self.database.transact(note)

    def drop(self, kind: Kind, name: str, row: int, key: bytes) -> None:
        """Drops a damaged entry, which is then to be made anew."""
        self.damaged.append(f"{kind}/{name}: entry {row}")
        gone = (
            "DELETE FROM entries WHERE kind = ? AND key = ? AND row = ?"
            " AND shard = (SELECT id FROM shards WHERE kind = ? AND name = ?)"
        )
        self.database.transact(
            lambda connection: connection.execute(gone, (kind, key, row, kind, name))
        )

    def drop_shard(self, kind: Kind, name: str, reason: str) -> None:
        """Drops all that is in a shard, which is then to be made anew."""
        self.damaged.append(f"{kind}/{name}: {reason}")
        self.database.transact(lambda connection: drop_shard(connection, kind, name))

    def shards(self, kind: Kind) -> list[IndexedShard]:
        """Every shard of a kind, oldest first."""
        asked = (
            "SELECT id, kind, name, signature, count, row_bytes, size,"
            " (SELECT COUNT(*) FROM entries WHERE shard = shards.id)"
            " FROM shards WHERE kind = ? ORDER BY id"
        )
        return [IndexedShard(*row) for row in self.database.rows(asked, (kind,))]

    def live_rows(self, shard: IndexedShard) -> list[int]:
        """The rows of a shard that are looked up there, in order."""
        asked = "SELECT row FROM entries WHERE shard = ? ORDER BY row"
        return [row for (row,) in self.database.rows(asked, (shard.id,))]

    def renew_lease(self) -> None:
        """Keeps what is used from now on from being pruned, as long as this process lives.

        To be said again now and then, for the sake of other computers, which cannot look whether it
        does.
        """
        self._lease = lease = new_lease(self._lease)
        self.database.transact(lease.write)

    def _refill(self) -> None:
        if self._lease is not None:
            self.database.transact(self._lease.write)
        self._refresh_all()

    def _refresh_all(self) -> None:
        for kind in KINDS:
            self.refresh(kind)

    def _drop_lost(self, kind: Kind, names: Iterable[str]) -> None:
        def drop(connection: sqlite3.Connection) -> None:
            for name in names:
                if not self.path(kind, name).exists():
                    drop_shard(connection, kind, name)

        self.database.transact(drop)

    def _inspect(self, kind: Kind, name: str, *, is_known: bool) -> "_InspectedShard | None":
        """What of a shard that is new or has changed is intact; None if it is none of ours."""
        path = self.path(kind, name)
        stamp = file_stamp(path)
        if stamp is None:
            return None
        try:
            with path.open("rb") as file:
                shard = read_header(file, stamp[0])
                rows = [row for row in range(shard.count) if is_intact(file, shard, row)]
        except (OSError, InvalidShard) as error:
            if not is_known or isinstance(error, FileNotFoundError):
                return None
            self.damaged.append(f"{kind}/{name}: {error}")
            return _InspectedShard(kind, name, stamp, None, ())
        lost = sorted(set(range(shard.count)) - set(rows))
        self.damaged += [f"{kind}/{name}: entry {row} of {shard.count}" for row in lost]
        return _InspectedShard(kind, name, stamp, shard, rows)


def drop_shard(connection: sqlite3.Connection, kind: Kind, name: str) -> None:
    """Forgets a shard and all that is looked up in it."""
    found = "SELECT id FROM shards WHERE kind = ? AND name = ?"
    connection.execute(f"DELETE FROM entries WHERE shard = ({found})", (kind, name))
    connection.execute("DELETE FROM shards WHERE kind = ? AND name = ?", (kind, name))


def replace_shards(
    connection: sqlite3.Connection,
    kind: Kind,
    name: str,
    shard: Shard,
    stamp: tuple[int, int, int],
    moved: Iterable[tuple[int, int]],
) -> None:
    """Takes up a shard that rows of others were copied to, which are looked up here from now on.

    moved: of each of its rows the shard's id and the row that it was copied from. An entry that is
    looked up elsewhere by now stays there.
    """
    new = _add(connection, kind, name, shard, stamp, (), 0)
    for row, (old, old_row) in enumerate(moved):
        change = "UPDATE entries SET shard = ?, row = ? WHERE kind = ? AND key = ? AND shard = ?"
        connection.execute(f"{change} AND row = ?", (new, row, kind, shard.key(row), old, old_row))


def _add(
    connection: sqlite3.Connection,
    kind: Kind,
    name: str,
    shard: Shard,
    stamp: tuple[int, int, int],
    rows: Iterable[int],
    used: int,
) -> int:
    """Takes up some rows of a shard; gives its id."""
    connection.execute(
        "INSERT INTO shards (kind, name, signature, count, row_bytes, size, mtime, ctime)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET"
        " signature = excluded.signature, count = excluded.count, row_bytes = excluded.row_bytes,"
        " size = excluded.size, mtime = excluded.mtime, ctime = excluded.ctime",
        (kind, name, shard.signature, shard.count, shard.row_bytes, *stamp),
    )
    asked = "SELECT id FROM shards WHERE kind = ? AND name = ?"
    number = int(connection.execute(asked, (kind, name)).fetchone()[0])
    connection.executemany(
        "INSERT OR IGNORE INTO entries (kind, key, shard, row, used) VALUES (?, ?, ?, ?, ?)",
        ((kind, shard.key(row), number, row, used) for row in rows),
    )
    return number


def _store_inspected(inspected: Sequence[_InspectedShard], connection: sqlite3.Connection) -> None:
    """Makes the index say of some shards what is so.

    One that cannot be read any more stays known, with nothing in it: so it is removed in time.
    """
    for each in inspected:
        if each.shard is None:
            found = "(SELECT id FROM shards WHERE kind = ? AND name = ?)"
            connection.execute(f"DELETE FROM entries WHERE shard = {found}", (each.kind, each.name))
            connection.execute(
                "UPDATE shards SET size = ?, mtime = ?, ctime = ? WHERE kind = ? AND name = ?",
                (*each.stamp, each.kind, each.name),
            )
            continue
        used = each.stamp[1] // 10**9
        shard, rows = each.shard, each.rows
        number = _add(connection, each.kind, each.name, shard, each.stamp, rows, used)
        _drop_other(connection, number, {shard.key(row): row for row in rows})


def _drop_other(connection: sqlite3.Connection, shard: int, rows: Mapping[bytes, int]) -> None:
    """Forgets what is looked up in a shard that has changed, and is not there any more."""
    asked = "SELECT kind, key, row FROM entries WHERE shard = ?"
    for kind, key, row in connection.execute(asked, (shard,)).fetchall():
        if rows.get(key) != row:
            connection.execute("DELETE FROM entries WHERE kind = ? AND key = ?", (kind, key))


def _stamps(folder: Path) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Every file called as a shard is, with what changes when it does."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        stamp = file_stamp(path) if is_shard_name(path.name) else None
        if stamp is not None:
            yield path.name, stamp


def file_stamp(path: Path) -> tuple[int, int, int] | None:
    """Size and times of a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
