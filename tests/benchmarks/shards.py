"""Reading encoded images: shards against a file for each: `python -m tests.benchmarks.shards`.

Every way reads the same random batches of the same moments (mean and std, float32), as (B, 4, h, w)
tensors, from files in the system's cache; they take turns, and the median of the rounds is printed.
"npz, latents alone" is what sd-scripts writes: np.savez of one latent, so half the bytes, and two
small arrays. "first" is our first reading of each entry, with its checksum; "warm" every later one.
Then what an index costs in memory: a process of its own opens a store of 100 and of 100,000 entries
and finds all of them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from modules.data.shards import Store
from onetrainer.cache.format import (
    SHARD_ENTRIES,
    Shard,
    TensorLayout,
    checksum,
    entry_key,
    merged,
    new_name,
    signature_of,
    write_file,
)
from tests.benchmarks.lines import say
from tests.own_user import own_user

FEW_ENTRIES = 100
ROUNDS = 5
Read = Callable[[Sequence[int]], list[Tensor]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64, help="of a latent; 64: images of 512 px")
    parser.add_argument("--entries", type=int, default=100_000, help="of the larger index")
    parser.add_argument("--index", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help="that torch computes with")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.index:
        print(json.dumps(_memory(options.index, options.samples)))
        return
    with tempfile.TemporaryDirectory() as folder:
        _compare(Path(folder), options.samples, options.batch, options.size)
    with tempfile.TemporaryDirectory() as folder:
        _indices(Path(folder), options.entries)


def _compare(folder: Path, samples: int, batch: int, size: int) -> None:
    _write(folder, samples, size)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(0)).tolist()
    batches = [order[i : i + batch] for i in range(0, samples, batch)]
    ways: dict[str, Callable[[], Read]] = {
        "npz": lambda: lambda rows: _stack([_npz(folder, row) for row in rows]),
        "npz, latents alone": lambda: lambda rows: _stack([_latents(folder, row) for row in rows]),
        "pt": lambda: lambda rows: _stack([_pt(folder, row) for row in rows]),
        "safetensors": lambda: lambda rows: _stack([_safetensors(folder, row) for row in rows]),
    }
    speeds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            speeds.setdefault(name, []).append(samples / _seconds(way(), batches))
        store = Store(folder / "cache")
        ours = _ours(store, samples)
        for name in ("shards, first", "shards, warm"):
            speeds.setdefault(name, []).append(samples / _seconds(ours, batches))
        store.close()
    _report({name: statistics.median(each) for name, each in speeds.items()}, size)


def _seconds(read: Read, batches: list[list[int]]) -> float:
    began = perf_counter()
    for rows in batches:
        read(rows)
    return perf_counter() - began


def _report(speeds: dict[str, float], size: int) -> None:
    for name, speed in speeds.items():
        times = {}
        if name.startswith("shards"):
            others = [other for other in speeds if not other.startswith("shards")]
            times = {f"times {other}": round(speed / speeds[other], 1) for other in others}
        say("shards", way=name, pixels=8 * size, samples_per_s=round(speed), **times)


def _write(folder: Path, samples: int, size: int) -> None:
    generator = torch.Generator().manual_seed(1)
    store = Store(folder / "cache")
    for row in range(samples):
        mean, std = (torch.randn(1, 4, size, size, generator=generator) for _ in range(2))
        store.put("latents", entry_key(row), {"mean": mean, "std": std})
        np.savez(folder / f"{row}.npz", mean=mean.numpy(), std=std.numpy())
        sizes = {"original_size": np.array([512, 512]), "crop_ltrb": np.array([0, 0, 512, 512])}
        np.savez(folder / f"{row}-latents.npz", latents=mean[0].numpy(), **sizes)
        torch.save({"mean": mean, "std": std}, folder / f"{row}.pt")
        save_file({"mean": mean, "std": std}, folder / f"{row}.safetensors")
    store.seal("latents")
    store.close()


def _ours(store: Store, samples: int) -> Read:
    places = store.locate("latents", [entry_key(row) for row in range(samples)])

    def read(row: int) -> tuple[Tensor, ...]:
        tensors = store.read(places, row)
        return tensors["mean"], tensors["std"]

    return lambda rows: _stack([read(row) for row in rows])


def _stack(samples: list[tuple[Tensor, ...]]) -> list[Tensor]:
    return [torch.cat(tensors) for tensors in zip(*samples, strict=True)]


def _npz(folder: Path, row: int) -> tuple[Tensor, ...]:
    with np.load(folder / f"{row}.npz") as file:
        return torch.from_numpy(file["mean"]), torch.from_numpy(file["std"])


def _latents(folder: Path, row: int) -> tuple[Tensor, ...]:
    with np.load(folder / f"{row}-latents.npz") as file:
        latents, _, _ = file["latents"], file["original_size"], file["crop_ltrb"]
        return (torch.from_numpy(latents)[None],)


def _pt(folder: Path, row: int) -> tuple[Tensor, ...]:
    tensors = torch.load(folder / f"{row}.pt")
    return tensors["mean"], tensors["std"]


def _safetensors(folder: Path, row: int) -> tuple[Tensor, ...]:
    tensors = load_file(folder / f"{row}.safetensors")
    return tensors["mean"], tensors["std"]


def _indices(folder: Path, entries: int) -> None:
    """Memory of a process that has found so many entries, as it reports itself."""
    found = []
    for count in (FEW_ENTRIES, entries):
        _write_small(folder / str(count), count)
        command = [sys.executable, "-m", "tests.benchmarks.shards", "--index"]
        done = subprocess.run(
            [*command, str(folder / str(count)), "--samples", str(count)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        found.append(json.loads(done.stdout))
        say("shards", entries=count, **{name: round(each, 3) for name, each in found[-1].items()})
    grown = found[-1]["grown_MB"] - found[0]["grown_MB"]
    say("shards", more_entries=entries - FEW_ENTRIES, more_MB=round(grown, 1))


def _write_small(folder: Path, count: int) -> None:
    """Shards of one number each, written at once: singly, 100,000 would take a minute."""
    zeros = folder / "zeros"
    (folder / "latents").mkdir(parents=True)
    zeros.write_bytes(bytes(4 * SHARD_ENTRIES))
    for begin in range(0, count, SHARD_ENTRIES):
        keys = [entry_key(row) for row in range(begin, min(count, begin + SHARD_ENTRIES))]
        signature = signature_of([("mean", "F32", (1,))])
        sums = [checksum(key, signature, [bytes(4)]) for key in keys]
        shard = Shard((TensorLayout("mean", "F32", (1,), 0, 4),), b"".join(keys), sums, 0)
        pieces = merged([(zeros, shard, range(len(keys)))])
        write_file(folder / "latents" / new_name(), pieces)
    Store(folder).close()  # makes the index


def _memory(folder: Path, count: int) -> dict[str, float]:
    keys = [entry_key(row) for row in range(count)]
    Store(folder).locate("latents", keys[:1])  # loads what is loaded once
    process = psutil.Process()
    before, began = process.memory_info().rss, perf_counter()
    store = Store(folder)
    opened = perf_counter()
    places = store.locate("latents", keys)
    seconds = perf_counter() - opened
    assert not places.missing
    grown = process.memory_info().rss - before
    return {"grown_MB": grown / 1e6, "open_s": opened - began, "places_s": seconds}


if __name__ == "__main__":
    with own_user():
        main()
