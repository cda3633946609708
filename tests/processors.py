"""Run the tests that compare numbers as other processors would compute them.

`python -m tests.processors [--all] [--workers 2]`: with the vectors of each generation up to this
processor's, and with two threads, as all tests before have computed with one; --all: with one
thread and with two of every generation.
"""

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

from onetrainer import ROOT

VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
# From the oldest on, as these variables name them.
GENERATIONS = (
    ("default", "SSE4_2", "SSE41"),
    ("avx2", "AVX2", "AVX2"),
    ("avx512", "AVX512", "AVX512_CORE"),
)
TESTS = ("tests/modules", "--ignore=tests/modules/runs", "-m", "numeric and not long")


def main() -> int:
    """Run them all, also after one that fails; the exit code."""
    import torch  # only here: collecting of tests asks this file, too

    parser = argparse.ArgumentParser(prog="python -m tests.processors", description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--workers", type=int, default=2, help="threads of all of their processes")
    options = parser.parse_args()
    failed = 0
    for names, threads in runs(torch.backends.cpu.get_cpu_capability(), is_all=options.all):
        vectors = names[0] if names else "its own"
        sys.stdout.write(f"Numbers as computed with vectors: {vectors}, threads: {threads}\n")
        sys.stdout.flush()
        own = dict(zip(VARIABLES, names, strict=False))
        # Threads that wait for each other by computing take minutes on a busy computer.
        own |= {"TEST_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        workers = options.workers // threads
        spread = ["-n", str(workers), "--dist", "worksteal"] if workers > 1 else []
        command = [sys.executable, "-m", "pytest", "-q", *TESTS, *spread]
        failed |= subprocess.run(command, cwd=ROOT, env=os.environ | own).returncode
    return int(failed != 0)


def runs(capability: str, *, is_all: bool = False) -> list[tuple[Sequence[str], int]]:
    """The generations, as variables name them, each with a number of threads.

    capability: What torch calls this processor's; one that is not listed has no names.
    """
    known = [names[0] for names in GENERATIONS]
    own = capability.lower()
    made = GENERATIONS[: known.index(own) + 1] if own in known else (GENERATIONS[0], ())
    if is_all:
        return [*product(made, (1, 2))]
    return [*product(made[:-1], (1,)), (made[-1], 2)]


@cache
def comparing(file: Path) -> frozenset[str]:
    """The functions of a file that compare by `tests.close`, also through others of the file."""
    body = ast.parse(file.read_text("utf-8")).body
    found = {
        alias.name
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module == "tests.close"
        for alias in node.names
    }
    used = {
        node.name: {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for node in body
        if isinstance(node, ast.FunctionDef)
    }
    while more := {name for name, names in used.items() if names & found} - found:
        found |= more
    return frozenset(found)


if __name__ == "__main__":
    raise SystemExit(main())
