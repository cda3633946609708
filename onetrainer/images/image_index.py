"""Cache of facts about image files, so that unchanged ones are not read again.

Everything in it can be recomputed. So no failure of its file is an error: damage, locks, folders
that cannot be written to, full disks.
"""

import atexit
import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

from onetrainer.files.atomic import remove_leftovers, temporary_path
from onetrainer.images.header import Header, file_stamp

FILE_NAME = "pictures.sqlite"  # as in existing caches

MAX_FACTS = 600_000
"""Three for each of 200,000 images; the least recently used ones are removed first. Measured:
2.2 kB for an image, so 440 MB at most.
"""

SHARED_FACTS = "ONETRAINER_SHARED_FACTS"
"""Environment variable: folder of the recent facts of the process that has started this one."""

_FORMAT = 1
_PENDING = 500
_WAIT_SECONDS = 5.0
_DAY = 86_400
_DAMAGE = "damage"

_TABLE = """CREATE TABLE IF NOT EXISTS facts (
    place BLOB, kind TEXT, stamp BLOB, value BLOB, sum INTEGER, day INTEGER,
    PRIMARY KEY (place, kind))"""

_Key = tuple[bytes, str]  # of a path, and the kind of fact


class ImageIndex:
    """Facts about image files by path, each valid as long as the file is unchanged.

    A file counts as unchanged if its path, size, times and inode are. Thread-safe, and a folder
    may be used by several processes. Few facts are in memory at a time: new ones are written in
    batches, and by `save`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / FILE_NAME
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._has_failed = False
        self._asked: dict[_Key, bytes] = {}
        self._new: dict[_Key, tuple[bytes, bytes]] = {}
        self._used: set[_Key] = set()

    def cached_header(self, path: Path) -> Header | None:
        """Return the stored header of an image; None if it must be read."""
        value = self._get(path, "header")
        if value is None:
            return None
        width, height, has_alpha = map(int, value.split())
        return Header(width, height, bool(has_alpha))

    def store_header(self, path: Path, header: Header) -> None:
        """Store a header that was read after `cached_header` returned None."""
        text = f"{header.width} {header.height} {int(header.has_alpha)}"
        self._store(path, "header", text.encode())

    def digest(self, path: Path) -> str | None:
        """Return the stored SHA-256 of the file as hex; None if it must be read."""
        value = self._get(path, "digest")
        return None if value is None else value.hex()

    def read(self, path: Path) -> tuple[bytes, str]:
        """Return a file's bytes and their SHA-256, which is stored. Raises OSError."""
        before = _stamp(path)
        data = path.read_bytes()
        digest = hashlib.sha256(data)
        # Compared before and after, in case the file changes meanwhile.
        if before and before == _stamp(path):
            self._put(path, "digest", before, digest.digest())
        return data, digest.hexdigest()

    def features(self, path: Path, version: int) -> bytes | None:
        """Return the stored features of an image; None if it must be analyzed.

        Features of another version are not returned.
        """
        return self._get(path, f"features{version}")

    def store_features(self, path: Path, version: int, features: bytes) -> None:
        """Store the features of an image analyzed after `features` returned None."""
        self._store(path, f"features{version}", features)

    def damage(self, path: Path) -> str | None:
        """Return why the image could not be decoded when last tried; None if that is not known.

        Ignore it if the image has features by now.
        """
        value = self._get(path, _DAMAGE)
        return None if value is None else value.decode()

    def store_damage(self, path: Path, version: int, reason: str) -> None:
        """Store why an image cannot be decoded, after `features` of this version returned None."""
        asked = (_path_hash(path), f"features{version}")
        self._store(path, _DAMAGE, reason.encode(errors="replace"), asked)

    def save(self) -> None:
        """Write new facts, and remove the oldest if there are too many."""
        with self._lock, self._ignoring_failures():
            self._write()
            if self._connection is None:
                return
            (count,) = self._connection.execute("SELECT count(*) FROM facts").fetchone()
            if count > MAX_FACTS:  # a tenth to spare, so that it is seldom done
                self._connection.execute(
                    "DELETE FROM facts WHERE (place, kind) IN"
                    " (SELECT place, kind FROM facts ORDER BY day LIMIT ?)",
                    (count - MAX_FACTS + MAX_FACTS // 10,),
                )

    def close(self) -> None:
        """Save and close the file."""
        self.save()
        with self._lock, self._ignoring_failures():
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _get(self, path: Path, kind: str) -> bytes | None:
        stamp = _stamp(path)
        if not stamp:
            return None
        key = (_path_hash(path), kind)
        with self._lock, self._ignoring_failures():
            if key in self._new and self._new[key][0] == stamp:
                return self._new[key][1]
            value = self._stored(key, stamp)
            if value is not None:
                return value
        if kind not in ("digest", _DAMAGE):
            self._asked[key] = stamp
        return None

    def _stored(self, key: _Key, stamp: bytes) -> bytes | None:
        connection = self._open(is_new_allowed=False)
        if connection is None:
            return None
        query = "SELECT stamp, value, sum, day FROM facts WHERE place = ? AND kind = ?"
        row = connection.execute(query, key).fetchone()
        if row is None or row[0] != stamp or not isinstance(row[1], bytes):
            return None
        if row[2] != _checksum(key, stamp, row[1]):
            return None
        if row[3] != _today():
            self._used.add(key)
            if len(self._used) >= _PENDING:
                self._write()
        return row[1]

    def _store(self, path: Path, kind: str, value: bytes, asked: _Key | None = None) -> None:
        # Only if the file is as it was before it was read.
        stamp = self._asked.pop(asked or (_path_hash(path), kind), b"")
        if stamp and stamp == _stamp(path):
            self._put(path, kind, stamp, value)

    def _put(self, path: Path, kind: str, stamp: bytes, value: bytes) -> None:
        with self._lock, self._ignoring_failures():
            self._new[_path_hash(path), kind] = (stamp, value)
            if len(self._new) >= _PENDING:
                self._write()

    def _write(self) -> None:
        """Write all new facts in one transaction; on failure they are dropped."""
        new, used = self._new, self._used
        if not new and not used:
            return
        self._new, self._used = {}, set()
        connection = self._open(is_new_allowed=True)
        if connection is None:
            return
        today = _today()
        rows = [
            (*key, stamp, value, _checksum(key, stamp, value), today)
            for key, (stamp, value) in new.items()
        ]
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?, ?, ?)", rows)
            query = "UPDATE facts SET day = ? WHERE place = ? AND kind = ?"
            connection.executemany(query, [(today, *key) for key in used])
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _open(self, *, is_new_allowed: bool) -> sqlite3.Connection | None:
        """Return the file's connection; None if there is no file yet, or it has failed."""
        if self._connection is None and not self._has_failed:
            if is_new_allowed:
                self.folder.mkdir(parents=True, exist_ok=True)
            elif not self._file.exists():
                return None
            self._connection = _connect(self._file)
        return self._connection

    @contextmanager
    def _ignoring_failures(self) -> Iterator[None]:
        """Ignore failures; a damaged file is removed, to be created again."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # a table of another program
                self._recreate()
            # Locked by another process for long, or the disk is full: new facts are dropped.
            # A file that cannot be opened at all is not tried again.
            self._has_failed = self._connection is None and self._file.exists()
        except sqlite3.DatabaseError:
            self._recreate()
        except OSError:
            self._has_failed = True

    def _recreate(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            for name in (FILE_NAME, f"{FILE_NAME}-journal"):
                self._file.with_name(name).unlink(missing_ok=True)
        except OSError:
            self._has_failed = True  # in use by another process, on Windows


@cache
def recent_facts() -> ImageIndex:
    """Return the index of this process, for facts that have no file, or not yet.

    Many of them are in a temporary folder, which goes with the process, or if that is killed, with
    the next one that asks; other processes that it starts may share it.
    """
    shared = os.environ.get(SHARED_FACTS)
    if shared:
        return ImageIndex(Path(shared))
    temporary = Path(tempfile.gettempdir())
    remove_leftovers(temporary)
    index = ImageIndex(temporary_path(temporary / "facts"))
    atexit.register(_remove, index)
    return index


def _remove(index: ImageIndex) -> None:
    """Remove an index; closed first, as Windows removes no open file."""
    index.close()
    shutil.rmtree(index.folder, ignore_errors=True)


def _connect(file: Path) -> sqlite3.Connection:
    """Open the file. Raises sqlite3.DatabaseError if it is something else, or of another format."""
    if file.is_symlink():  # which is replaced, not what it leads to
        raise sqlite3.DatabaseError("a link")
    connection = sqlite3.connect(
        file, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _FORMAT):
            raise sqlite3.DatabaseError("another format")
        if version == 0:
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        # A lost write only costs reading an image again, so the disk need not confirm each.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("SELECT place, kind, stamp, value, sum, day FROM facts LIMIT 1")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _path_hash(path: Path) -> bytes:
    """Return a hash of a path, so that the file does not reveal names."""
    return hashlib.blake2b(os.fsencode(path.absolute()), digest_size=16).digest()


def _stamp(path: Path) -> bytes:
    """Return a hash that changes with a file; empty if it has just changed."""
    found = file_stamp(path)
    text = ":".join(map(str, found))
    return hashlib.blake2b(text.encode(), digest_size=16).digest() if found else b""


def _checksum(key: _Key, stamp: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(stamp, zlib.crc32(key[1].encode(), zlib.crc32(key[0]))))


def _today() -> int:
    return int(time.time()) // _DAY
