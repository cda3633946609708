"""A window with very many images: `python -m tests.benchmarks.big_lists [IMAGES [JOURNEY …]]`.

100,000 tiny images with captions, and a run with 5,000 samples, in a temporary folder. What the
window takes is measured by `used_window`, in a process of its own; each line of JSON is a stage of
its use. RSS in MB.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from random import Random

from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Finished, Sample, Started
from tests.own_user import own_user
from tests.ui.project import write_project
from tests.ui.xscreen import screen

IMAGES, SAMPLES, PROMPTS = 100_000, 5_000, 10
_A_FOLDER = 20_000
_TAGS = 400  # different ones in all captions


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    wanted = sys.argv[2:] or ["pages", "samples", "images"]
    with tempfile.TemporaryDirectory() as name, screen() as display:
        root = Path(name)
        config = write_project(root / "project", data={"include_subfolders": True})
        write_images(root / "project" / "many", count)
        many = json.loads(config.read_text())
        many["data"]["folder"] = "many"
        (root / "project" / "many.json").write_text(json.dumps(many))
        run = write_run(root / "project" / "runs" / "many-001", config)
        (root / "home").mkdir()
        places = {"HOME": str(root / "home"), "XDG_CONFIG_HOME": str(root / "home/config")}
        environment = {**os.environ, **places, "DISPLAY": display}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "tests.benchmarks.used_window"]
        for journey, path in (
            ("pages", config),
            ("samples", run),
            ("images", config.with_name("many.json")),
        ):
            if journey in wanted:
                subprocess.run([*command, journey, str(path)], env=environment, check=True)


def write_images(folder: Path, count: int) -> None:
    """Different images of noise, each with its caption: tags."""
    random = Random(0)
    for number in range(count):
        inner = folder / f"set {number // _A_FOLDER}"
        if number % _A_FOLDER == 0:
            inner.mkdir(parents=True)
        width, height = random.choice(((32, 32), (32, 48), (48, 32)))
        rows = b"".join(b"\0" + random.randbytes(3 * width) for _ in range(height))
        (inner / f"image {number}.png").write_bytes(_png(width, height, rows))
        tags = ", ".join(f"tag {random.randrange(_TAGS)}" for _ in range(6))
        (inner / f"image {number}.txt").write_text(f"image {number}, {tags}")


def write_run(folder: Path, config: Path) -> Path:
    """A finished run with samples, of which all are one file."""
    (folder / "samples").mkdir(parents=True)
    random = Random(0)
    data = _png(64, 64, b"".join(b"\0" + random.randbytes(3 * 64) for _ in range(64)))
    (folder / "samples" / "first.png").write_bytes(data)
    events = EventWriter(folder / "events.jsonl")
    events.write(Started(0, 0, SAMPLES // PROMPTS))
    for number in range(SAMPLES):
        step, prompt = divmod(number, PROMPTS)
        name = f"samples/{step:06}-{prompt}.png"
        os.link(folder / "samples" / "first.png", folder / name)
        events.write(Sample(step, prompt, name, f"a prompt of number {prompt}", prompt))
    events.write(Finished(SAMPLES // PROMPTS, []))
    events.close()
    (folder / "config.json").write_text(config.read_text())
    return folder


def _png(width: int, height: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows, 0)),
            chunk(b"IEND", b""),
        )
    )


if __name__ == "__main__":
    with own_user():
        main()
