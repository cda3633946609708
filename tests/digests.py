"""Digests of all that seven short runs write: a change that is to change no number keeps them.

`python -m tests.digests OTHER_TREE` prints them. Another checkout of the program makes the same
runs of the same models, images and configs; each line says whether the bytes are the same, and the
exit code is 1 where any differ. Metadata of files are left out: they name every setting, also new
ones.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import modules
from modules.jobs.train import train
from onetrainer.run.run_folder import RunFolder
from tests import runs, table

ROOT = Path(__file__).parents[1]
STEPS = 20  # more than are read ahead, and reported, at once
CASES: dict[str, tuple[str, str, str, str, dict[str, int]]] = {
    "LoRA": ("sd15", "lora", "plain", "bf16", {}),
    "LoRA, accumulated": ("sd15", "lora", "plain", "fp32", {"batch_size": 1, "accumulation": 3}),
    "LoRA, all effects": ("sd15", "lora", "rich", "fp32", {}),
    "SDXL in full": ("sdxl", "full-bf16", "plain", "bf16", {}),
    "embedding": ("sd15", "embedding", "plain", "fp32", {}),
    "two rewards": ("sd15", "lora-and-embedding", "reward", "fp32", {"steps": 4}),
    "decoder": ("sd15", "vae", "plain", "fp32", {}),
}
"""Family, method, objective and precision, as of `tests.table`, and settings of training."""
NUMBERS = ("step", "epoch", "loss", "lr", "gradient_norm", "reward", "spread", "by_name", "scores")
EVENTS = ("Progress", "Rewarded", "Validated", "Evaluated")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    other = parser.parse_args().other
    with tempfile.TemporaryDirectory() as folder:
        write_projects(Path(folder))
        own = digests_by(ROOT, folder)
        others = digests_by(other.resolve(), folder)
    for name, digest in own.items():
        verdict = "the same" if others[name] == digest else "DIFFERS"
        sys.stdout.write(f"{digest} {verdict}: {name}\n")
    sys.exit(own != others)


def write_projects(folder: Path) -> None:
    """Write the models, images and configs of all cases."""
    for name, (family, method, objective, precision, training) in CASES.items():
        if not (folder / family).exists():
            table.write_project(folder / family, family)
        document = table.document_of(table.Case(family, method, objective, precision))
        document["training"] |= {"steps": STEPS, **training}
        document["output"] |= {"folder": "runs", "save_every": document["training"]["steps"]}
        document["validation"] |= {"every": 2}
        (folder / family / f"{name}.json").write_text(json.dumps(document))


def digests_by(tree: Path, folder: str) -> dict[str, str]:
    """Return the digest of each case, made by the program in a folder."""
    program = "import runpy, sys; runpy.run_path(sys.argv[1])['print_digests'](sys.argv[2])"
    command = [sys.executable, "-c", program, str(Path(__file__).resolve()), folder]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    made = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(made.stdout.splitlines()[-1]))  # libraries print, too


def print_digests(folder: str) -> None:
    """Make every run and print the digests. Called in the program's folder."""
    assert Path.cwd() in Path(modules.__path__[0]).parents, modules.__path__
    for cache in list(Path(folder).rglob("cache")):
        shutil.rmtree(cache)  # each program is to encode the images itself
    configs = {name: Path(folder, case[0], f"{name}.json") for name, case in CASES.items()}
    found = {name: _digest(runs.new_run(config)) for name, config in configs.items()}
    sys.stdout.write(json.dumps(found))


def _digest(folder: RunFolder) -> str:
    """Train; return the digest of the weights, images and losses in files, and of the events."""
    assert train(folder) == 0
    files = [
        path.relative_to(folder.path).as_posix().encode() + _content(path)
        for path in sorted(folder.path.rglob("*"))
        if path.suffix in (".safetensors", ".png") or path.parent.name == "validation"
    ]
    every = map(json.loads, folder.events.read_text().splitlines())
    events = [[one.get(key) for key in NUMBERS] for one in every if one["type"] in EVENTS]
    shutil.rmtree(folder.path)  # the next run is to have its name
    digest = hashlib.sha256(b"".join([*files, json.dumps(events).encode()])).hexdigest()[:16]
    return f"{digest} of {len(files)} files, {len(events)} events"


def _content(path: Path) -> bytes:
    """Return the bytes of a file without its metadata: names, shapes and tensors, or pixels."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            return image.tobytes()
    content = path.read_bytes()
    if path.suffix != ".safetensors":
        return content
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    return json.dumps(header).encode() + content[start:]


if __name__ == "__main__":
    from tests.own_user import own_user  # only here: the other program may be older than it

    with own_user():
        main()
