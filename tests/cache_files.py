"""Write and read a cache folder without torch: entries of eight bytes and four."""

import struct
import time

from onetrainer.cache.format import (
    entry_bytes,
    entry_key,
    intact_rows,
    new_name,
    read_shard,
    write_file,
)
from onetrainer.cache.index import CacheIndex

ROW = 12


def contents(number):
    """Return the contents of an entry: two floats and an int."""
    return {"mean": struct.pack("<2f", number, -number), "n": struct.pack("<i", number)}


def entry(number, *, width=2):
    data = contents(number)
    wide = data["mean"] * (width // 2)
    tensors = {
        "mean": ("F32", (width,), memoryview(wide)),
        "n": ("I32", (), memoryview(data["n"])),
    }
    return entry_bytes(entry_key(number), tensors)


def put(folder, numbers, kind="latents", width=2):
    """Write entries as single shards and return their paths."""
    (folder / kind).mkdir(parents=True, exist_ok=True)
    paths = [folder / kind / new_name() for _ in numbers]
    for path, number in zip(paths, numbers, strict=True):
        write_file(path, [entry(number, width=width)])
    return paths


def readable(folder, numbers, kind="latents", index=None):
    """Return the numbers whose entries are found, after checking their contents."""
    own = index or CacheIndex(folder)
    keys = [entry_key(number) for number in numbers]
    found = []
    for number, key, place in zip(numbers, keys, own.find(kind, keys), strict=True):
        if place is None:
            continue
        path = own.path(kind, place.shard)
        shard = read_shard(path)
        assert shard.key(place.row) == key and intact_rows(path, shard, [place.row])
        with path.open("rb") as file:
            assert _row(file, shard, place.row) == contents(number)
        found.append(number)
    if index is None:
        own.close()
    return found


def _row(file, shard, row):
    found = {}
    for tensor in shard.tensors:
        file.seek(tensor.begin + row * tensor.row_bytes)
        found[tensor.name] = file.read(tensor.row_bytes)[: 8 if tensor.name == "mean" else 4]
    return found


def counts(folder, kind="latents"):
    """Return the number of entries of each shard, including unused ones."""
    return sorted(read_shard(path).count for path in (folder / kind).glob("*.safetensors"))


def used(index, numbers, *, ago, kind="latents"):
    """Set the last use of entries to so many seconds ago."""
    keys = [(int(time.time()) - ago, kind, entry_key(number)) for number in numbers]
    change = "UPDATE entries SET used = ? WHERE kind = ? AND key = ?"
    index.database.transact(lambda connection: connection.executemany(change, keys))
