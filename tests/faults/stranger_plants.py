"""What a stranger may plant into a run's folder."""

import json
import os
import random
import socket
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from onetrainer.files.inside import stamp_of
from onetrainer.jobs.job import REQUESTS
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.run_folder import STATE_FILE, RunFolder

_JSON = ("config", "notes", "starred", "lock", "events", "exports", "retries", "lengths", "state")
_WRONG: tuple[Any, ...] = (
    *(None, True, -1, 2**63, 10**400, 0.5, float("nan"), "", "x" * 70_000, "\0", "\ud800"),
    *("..", "../../../precious/key", "/dev/zero", [], {}, [[]], [None], {"": {}}, [1] * 5000),
)
_TEXTS = (
    *("", "null", "[" * 50_000, '{"a":' * 20_000, '{"a": NaN}', '{"a": 1e999}', "\ufeff{}", "\0"),
    "9" * 5000,
)
_TERABYTE, _GIGABYTE = 1 << 40, 1 << 30


class Plant:
    """One folder, and what is planted into it."""

    def __init__(self, folder: RunFolder, precious: Path, draw: random.Random) -> None:
        self.folder, self.precious, self.draw = folder, precious, draw
        self.is_known = False
        """Whether the content of what is somebody's own is in the folder, by another name of it."""

    def path(self) -> Path:
        """Draw a path of the folder: one that is there, or one that the program would make."""
        folder = self.folder
        there = [path for path in folder.path.rglob("*") if not path.is_symlink()]
        made = (
            *(folder.commands, folder.lock, folder.log, folder.log_of(1), folder.notes),
            *(folder.starred, folder.exports, folder.retries, folder.lengths, folder.start_files),
            *(folder.exported, folder.rewards, folder.checkpoint(4), folder.samples / "key.png"),
            *(folder.output / "lora-000002.safetensors", folder.path / "worker.log.1"),
            *(folder.path / "report-001.zip", folder.path.parent / "cache" / "index.sqlite"),
        )
        return self.draw.choice((*there, *made))

    def empty(self, path: Path) -> Path:
        """Remove what is at a path, also what is below it."""
        for inner in sorted(path.rglob("*"), reverse=True) if path.is_dir() else ():
            inner.rmdir() if inner.is_dir() else inner.unlink()
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def name(self, path: Path) -> str:
        return os.path.relpath(path, self.folder.path)


def link(plant: Plant) -> str:
    """A link to a file or folder of somebody's own, to a device, or around."""
    path, precious = plant.empty(plant.path()), plant.precious
    target = plant.draw.choice(
        (
            *(precious / "key", precious / "notes.txt", precious, precious / "photos"),
            *(precious / "missing", Path("/dev/zero"), Path(".."), Path("/"), path),
        )
    )
    path.symlink_to(target)
    return f"{plant.name(path)} -> {target}"


def other_name(plant: Plant) -> str:
    """Another name of a file of somebody's own."""
    path = plant.empty(plant.path())
    os.link(plant.precious / "notes.txt", path)
    plant.is_known = True
    return f"{plant.name(path)} = notes.txt"


def pipe(plant: Plant) -> str:
    """A pipe, a socket or a device in place of a file."""
    path = plant.empty(plant.path())
    kind = plant.draw.choice(("pipe", "socket", "device"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        before = Path.cwd()
        os.chdir(path.parent)  # such names are short
        with socket.socket(socket.AF_UNIX) as made, suppress(OSError):
            made.bind(path.name)
        os.chdir(before)
    else:
        with suppress(PermissionError):  # only root makes them
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    return f"{plant.name(path)} is a {kind}"


def request(plant: Plant) -> str:
    """A job's request in place of the settings."""
    name = plant.draw.choice((*REQUESTS, "train", "../convert", ""))
    key = str(plant.precious / plant.draw.choice(("key", "model.safetensors")))
    places = ("target", "source", "out", "base", "images", "model", "path", "folder")
    values: dict[str, Any] = dict.fromkeys(plant.draw.sample(places, 4), key)
    lora = next(plant.folder.output.rglob("*.safetensors"), plant.folder.config)
    values |= {"source": str(lora), "target": key, "overwrite": True}
    plant.folder.config.write_text(json.dumps({"job": name, "request": values}))
    return f"the job {name!r}"


def name(plant: Plant) -> str:
    """A name in a file that leads out of the folder."""
    folder, precious = plant.folder, plant.precious
    out = plant.draw.choice(
        (
            *("..", ".", "", "/", "../..", "../../../precious", "../../../precious/key"),
            *(str(precious), str(precious / "key"), "C:\\x", "a\\b", "x:y", "/dev/zero", "\0"),
        )
    )
    where = plant.draw.choice(("exports", "state", "events", "cache", "scores", "settings"))
    if where == "exports":
        stamp = stamp_of(folder.output / out.replace("\0", ""))
        made: Any = plant.draw.choice(([out], {out: stamp}))
        folder.exports.write_text(json.dumps({"1": made, "2": made}))
    elif where == "state":
        path = folder.complete_checkpoints()[-1][1]
        state = json.loads((path / STATE_FILE).read_bytes())
        (path / STATE_FILE).write_bytes(state_content(_unsigned(state), {out: "0" * 64}))
    elif where == "events":
        event = {
            "type": "Sample",
            "time": 1.0,
            "step": 2,
            "prompt_index": 0,
            "prompt": "",
            "seed": 1,
        }
        with folder.events.open("a") as events:
            events.write(json.dumps({**event, "path": out}) + "\n")
            events.write(json.dumps({"type": "Finished", "time": 2.0, "step": 6, "outputs": [out]}))
    elif where == "cache":
        _name_a_shard(folder.path.parent / "cache", out.replace("../../..", "../../../.."))
    elif where == "scores":
        folder.rewards.mkdir(exist_ok=True)
        image = {"prompt": "", "seed": 1, "path": out, "rewards": {}, "total": 1.0}
        document = {"step": 2, "grid": "", "drift": {}, "pictures": [image]}
        (folder.rewards / "step-000002.json").write_text(json.dumps(document))
    else:
        change_settings(folder, {("output", "name"): out})
    return f"{out!r} in {where}"


def size(plant: Plant) -> str:
    """A file that is said to be enormous."""
    path = plant.path()
    if path.is_dir():
        path = path / "large.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    # Digests of tensors are computed, which takes as long as they are large.
    most = _GIGABYTE if path.suffix == ".safetensors" else _TERABYTE
    os.truncate(path, plant.draw.choice((most, 64 << 20)))
    return f"{plant.name(path)} of {path.stat().st_size:,} bytes"


def document(plant: Plant) -> str:
    """A file of this program's own that is no JSON, too deep, or of other types."""
    folder, where = plant.folder, plant.draw.choice(_JSON)
    path = getattr(folder, where, None) or folder.complete_checkpoints()[-1][1] / STATE_FILE
    if plant.draw.random() < 0.4 or not path.is_file():
        path.write_text(plant.draw.choice(_TEXTS))
        return f"{where} is another text"
    with suppress(ValueError):
        values = json.loads(path.read_bytes())
        if isinstance(values, dict) and values:
            key = plant.draw.choice([*values])
            values[key] = plant.draw.choice(_WRONG)
            digests = values.get("files") if where == "state" else None
            if isinstance(digests, dict):
                path.write_bytes(state_content(_unsigned(values), digests))
            else:
                path.write_text(json.dumps(values))
            return f"{where}: {key} is {str(values[key])[:20]!r}"
    line = {"type": plant.draw.choice(("Progress", "Sample", "Finished")), "time": 1.0, "step": 1}
    line[plant.draw.choice(("time", "step", "path", "outputs"))] = plant.draw.choice(_WRONG)
    path.write_text(json.dumps(line) + "\n")
    return f"{where} is {str(line)[:60]}"


KINDS: Mapping[str, Callable[[Plant], str]] = {
    "link": link,
    "other name": other_name,
    "pipe": pipe,
    "request": request,
    "name": name,
    "size": size,
    "document": document,
}


def change_settings(folder: RunFolder, changes: Mapping[tuple[str, str], Any]) -> None:
    """Write other values into a run's config."""
    document = json.loads(folder.config.read_bytes())
    for (section, key), value in changes.items():
        document[section][key] = value
    folder.config.write_text(json.dumps(document))


def _unsigned(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in ("files", "sha256")}


def _name_a_shard(cache: Path, out: str) -> None:
    """Add a shard without rows to a cache's index, which is to be removed."""
    for index in cache.glob("*.sqlite"):
        with closing(sqlite3.connect(index)) as connection, suppress(sqlite3.Error), connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(shards)")]
            (first,) = connection.execute("SELECT * FROM shards LIMIT 1").fetchall()
            values = dict(zip(columns, first, strict=True)) | {"id": 10**6, "name": out}
            marks = ", ".join("?" * len(columns))
            connection.execute(f"INSERT INTO shards VALUES ({marks})", [*values.values()])
