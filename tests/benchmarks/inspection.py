"""How fast a model is recognized: `python -m tests.benchmarks.inspection`.

A file of 7 GB with all of SDXL's tensors, sparse, and a pickle of 2500 tensors; the best of five,
compared with a plain reading of as many bytes as the header has.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from onetrainer.model_files.inspection import inspect_model
from onetrainer.tensor_files.table import read_table
from tests import headers
from tests.benchmarks.lines import say
from tests.own_user import own_user

TURNS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        model = headers.write(Path(name) / "xl.safetensors", headers.full_size("sdxl"))
        length = int.from_bytes(_first(model, 8), "little")
        bare = _best(lambda: _first(model, 8 + length))
        _report("SDXL, 6.9 GB", _best(lambda: inspect_model(model)), bare)
        names = (f"model.diffusion_model.input_blocks.{n}.attn1.to_q.weight" for n in range(2500))
        pickle = Path(name) / "a.ckpt"
        torch.save({name: torch.zeros(1) for name in names}, pickle)
        _report(
            "2500 tensors, pickled", _best(lambda: read_table(pickle)), _best(pickle.read_bytes)
        )


def _first(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)


def _best(call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TURNS):
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return min(seconds)


def _report(what: str, ours: float, bare: float) -> None:
    milliseconds = {"ms": round(1000 * ours, 1), "bare_reading_ms": round(1000 * bare, 2)}
    say("inspection", file=what, **milliseconds)


if __name__ == "__main__":
    with own_user():
        main()
