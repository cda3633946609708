"""How long it takes to begin, in wall seconds: `python -m tests.benchmarks.start_up`.

help and check: a process from its start to its end. window_painted and window_prepared: processor
seconds of the window until its first page is on the screen, and until the other pages are prepared
as well, which it does while it is idle; window_stretch: the longest that a key has to wait for in
between. first_step: from starting a run whose cache is filled to the event of its first step;
bare_first_step: the same of `bare_start`, a bare loop with the same files; the two take turns.
computing: processor seconds, which a busy machine changes less. Best of several, with the bare
start of Python and of the libraries alone, which show how fast the machine is. Modules are compiled
before, as they are for whoever has started the program once.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import psutil
import torch
from safetensors.torch import save_file

from onetrainer.run import client
from onetrainer.run.events import Event, Progress, Started
from tests import runs, tiny
from tests.benchmarks.bare_start import ENCODED
from tests.benchmarks.lines import say
from tests.own_user import own_user
from tests.ui.xscreen import screen

REPEATS = 5
POLL_SECONDS = 0.005
LIBRARIES = (
    "import diffusers.models.unets.unet_2d_condition, transformers.models.clip.modeling_clip"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        config = runs.write_project(Path(folder))
        runs.finish(runs.new_run(config, training={"steps": 1}))
        cli = [sys.executable, "-m", "onetrainer"]
        results = {
            "python": _command([sys.executable, "-c", "pass"], repeats),
            "help": _command([*cli, "--help"], repeats),
            "check": _command([*cli, "check", str(config)], repeats),
            "libraries": _command([sys.executable, "-c", LIBRARIES], repeats),
            **_first_steps(config, repeats),
            **_window(config, Path(folder) / "home", repeats),
        }
    for name, seconds in results.items():
        say("start_up", what=name, seconds=round(seconds, 3))
    ratios = {
        f"times_the_bare_loop{part}": round(
            results[f"first_step{part}"] / results[f"bare_first_step{part}"], 3
        )
        for part in ("", "_computing")
    }
    say("start_up", **ratios)


def _window(config: Path, home: Path, repeats: int) -> dict[str, float]:
    home.mkdir()
    best: dict[str, float] = {}
    with screen() as display:
        places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "DISPLAY": display}
        command = [sys.executable, "-m", "tests.benchmarks.opened_window", str(config)]
        for _ in range(repeats):
            answer = subprocess.run(
                command, env={**os.environ, **places}, stdout=subprocess.PIPE, check=True
            )
            for name, seconds in json.loads(answer.stdout.splitlines()[-1]).items():
                best[name] = min(seconds, best.get(name, seconds))
    return {f"window_{name}": seconds for name, seconds in best.items()}


def _command(command: list[str], repeats: int) -> float:
    return min(_once(command) for _ in range(repeats))


def _once(command: list[str]) -> float:
    start = perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - start


def _first_steps(config: Path, repeats: int) -> dict[str, float]:
    """Wall seconds and processor seconds until a run's first step, and a bare loop's."""
    project = config.parent
    encoded = {"latents": torch.randn(4, 4, 8, 8), "hidden": torch.randn(4, 77, tiny.WIDTH)}
    save_file(encoded, project / ENCODED)
    turns = [(_bare_first_step(project), _first_step(config)) for _ in range(repeats)]
    (bare, bare_computing), (ours, computing) = (
        [min(times) for times in zip(*each, strict=True)] for each in zip(*turns, strict=True)
    )
    return {
        "bare_first_step": bare,
        "bare_first_step_computing": bare_computing,
        "first_step": ours,
        "first_step_computing": computing,
    }


def _bare_first_step(project: Path) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = _once([sys.executable, "-m", "tests.benchmarks.bare_start", str(project)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_step(config: Path) -> tuple[float, float]:
    folder = runs.new_run(config, sampling={"at_start": False}, training={"steps": 1})
    start = perf_counter()
    events: list[Event] = []
    run = client.start(folder)
    while not any(isinstance(event, Progress) for event in events):
        events += run.poll().events
        sleep(POLL_SECONDS)
    seconds = perf_counter() - start
    [pid] = [event.pid for event in events if isinstance(event, Started)]
    times = psutil.Process(pid).cpu_times()
    run.wait(runs.DEADLINE)
    return seconds, times.user + times.system


if __name__ == "__main__":
    with own_user():
        main()
