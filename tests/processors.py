"""Run the tests that compare numbers as other processors would compute them.

`python -m tests.processors [--all] [OPTION_OF_PYTEST ...]`: with the vectors of each generation up
to this processor's, and with two threads, as `make test` has computed with one; --all: with one
thread and with two of every generation.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product

import torch

from onetrainer import ROOT

VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
# From the oldest on, as these variables name them.
GENERATIONS = (
    ("default", "SSE4_2", "SSE41"),
    ("avx2", "AVX2", "AVX2"),
    ("avx512", "AVX512", "AVX512_CORE"),
)
TESTS = ("tests/modules", "--ignore=tests/modules/runs", "-m", "numeric and not long")


def main(options: list[str]) -> int:
    """Run them all, also after one that fails; the exit code."""
    given = [option for option in options if option != "--all"]
    failed = 0
    for names, threads in runs(torch.backends.cpu.get_cpu_capability(), is_all=given != options):
        vectors = names[0] if names else "its own"
        sys.stdout.write(f"Numbers as computed with vectors: {vectors}, threads: {threads}\n")
        sys.stdout.flush()
        own = dict(zip(VARIABLES, names, strict=False)) | {"TEST_THREADS": str(threads)}
        command = [sys.executable, "-m", "pytest", "-q", *TESTS, *given]
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


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
