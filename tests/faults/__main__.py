"""Plant faults by a seed and count what survives: `python -m tests.faults --help`."""

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

import torch

from tests.faults.caption_faults import KilledWriting, masking
from tests.faults.cases import CASES
from tests.faults.faulty_worker import Kind
from tests.faults.input_faults import damaged_files, hostile_configs
from tests.faults.queue_faults import KilledQueue
from tests.faults.result import Result
from tests.faults.run_faults import FaultyRuns
from tests.faults.stranger_faults import StrangersRuns
from tests.faults.trial_faults import KilledTrials
from tests.own_user import own_user


class Campaign(Protocol):
    """Faults in one project."""

    def campaign(self, times: int, seed: int) -> Iterator[Result]:
        """Plant so many, such as kills at moments that are drawn by a seed."""


_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "kills": ("kill",),
    "cuts": ("cut",),
    "full": ("full",),
    "signals": ("SIGTERM", "SIGHUP", "SIGINT"),
}
_PROCESSES: Mapping[str, tuple[Callable[[Path], Campaign], ...]] = {
    "queue": (KilledQueue,),
    "captions": (partial(KilledQueue, work=masking), KilledWriting),
    "trials": (KilledTrials,),
    "strangers": (StrangersRuns,),
}
"""The parts with processes and projects of their own: most kill several."""
_INPUTS = {"configs": (hostile_configs, 250), "files": (damaged_files, 50)}
"""The parts about inputs, each with how many there are for one of `--times`."""
TIMES = 6
"""All parts take twenty minutes with it, on two cores that others use, too; seeds add others."""
PARTS = (*_KINDS, "flips", *_PROCESSES, *_INPUTS)


def main() -> int:
    """Run the campaign; the exit code is 1 if something did not survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--times", type=int, default=TIMES, help="faults of each kind and run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts, broken = Counter[str](), Counter[str]()
    seconds: dict[str, float] = defaultdict(float)
    since = monotonic()
    for result in _results(options):
        since, before = monotonic(), since
        seconds[result.part] += since - before
        counts[result.part] += 1
        broken[result.part] += bool(result.problems)
        if result.problems:
            sys.stdout.write(json.dumps(asdict(result)) + "\n")
            sys.stdout.flush()
    for part, count in counts.items():
        sound = f"{count - broken[part]} of {count} as they should be"
        sys.stdout.write(f"{part}: {sound}, {seconds[part]:.0f} s\n")
    return int(any(broken.values()))


def _results(options: argparse.Namespace) -> Iterator[Result]:
    of_runs = [part for part in options.parts if part not in (*_PROCESSES, *_INPUTS)]
    for case in (options.case or CASES) if of_runs else ():
        with tempfile.TemporaryDirectory() as folder:
            faulty = FaultyRuns(Path(folder), case)
            for part in of_runs:
                if part == "flips":
                    yield from faulty.flips(options.times, options.seed)
                    continue
                for result in faulty.campaign(_KINDS[part], options.times, options.seed):
                    yield replace(result, part=part)
    for part in options.parts:
        for make in _PROCESSES.get(part, ()):
            with tempfile.TemporaryDirectory() as folder:
                killed = make(Path(folder)).campaign(options.times, options.seed)
                yield from (replace(result, part=part) for result in killed)
        if part in _INPUTS:
            plant, each = _INPUTS[part]
            with tempfile.TemporaryDirectory() as folder:
                yield from plant(Path(folder), each * options.times, options.seed)


if __name__ == "__main__":
    with own_user():
        code = main()
    raise SystemExit(code)
