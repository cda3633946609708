"""How long it takes to begin, in wall seconds: `python -m tests.benchmarks.start_up`.

help and check: a process from its start to its end. window_painted and window_prepared: processor
seconds of the window until its first page is on the screen, and until the other pages are prepared
as well, which it does while it is idle; window_stretch: the longest that a key has to wait for in
between. first_step: from starting a run whose cache is filled to the event of its first step. Best
of several, with the bare start of Python and of the libraries alone, which show how fast the
machine is. Modules are compiled before, as they are for whoever has started the program once.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from onetrainer.run import client
from onetrainer.run.events import Progress
from tests import runs
from tests.ui.xscreen import screen

REPEATS = 5
LIBRARIES = (
    "import diffusers.models.unets.unet_2d_condition, transformers.models.clip.modeling_clip"
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        config = runs.write_project(Path(folder))
        runs.finish(runs.new_run(config, training={"steps": 1}))
        cli = [sys.executable, "-m", "onetrainer"]
        results = {
            "python": _command([sys.executable, "-c", "pass"]),
            "help": _command([*cli, "--help"]),
            "check": _command([*cli, "check", str(config)]),
            "libraries": _command([sys.executable, "-c", LIBRARIES]),
            "first_step": min(_first_step(config) for _ in range(REPEATS)),
            **_window(config, Path(folder) / "home"),
        }
    for name, seconds in results.items():
        sys.stdout.write(json.dumps({"benchmark": name, "seconds": round(seconds, 3)}) + "\n")


def _window(config: Path, home: Path) -> dict[str, float]:
    home.mkdir()
    best: dict[str, float] = {}
    with screen() as display:
        places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "DISPLAY": display}
        command = [sys.executable, "-m", "tests.benchmarks.opened_window", str(config)]
        for _ in range(REPEATS):
            answer = subprocess.run(
                command, env={**os.environ, **places}, stdout=subprocess.PIPE, check=True
            )
            for name, seconds in json.loads(answer.stdout.splitlines()[-1]).items():
                best[name] = min(seconds, best.get(name, seconds))
    return {f"window_{name}": seconds for name, seconds in best.items()}


def _command(command: list[str]) -> float:
    def once() -> float:
        start = perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return perf_counter() - start

    return min(once() for _ in range(REPEATS))


def _first_step(config: Path) -> float:
    folder = runs.new_run(config, sampling={"at_start": False}, training={"steps": 1})
    start = perf_counter()
    run = client.start(folder)
    runs.wait_until(lambda: any(isinstance(event, Progress) for event in run.poll().events))
    seconds = perf_counter() - start
    run.wait(runs.DEADLINE)
    return seconds


if __name__ == "__main__":
    main()
