"""The CPU set, in one command: `python -m tests.benchmarks.cpu [NAME ...]`, some twenty minutes.

Each benchmark runs in a process of its own, one after the other: the share of a bare loop's speed
in training steps, operations of a step, time to begin, memory against its forecast, caching, and
what reads images and files.
Prints the machine and the versions as a line of JSON, then the lines of each benchmark as they
come, and a table of them all at the end. Judges nothing. `docs/benchmarks.md` keeps results.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata as packages
from time import strftime
from typing import Any

SET: Mapping[str, tuple[str, ...]] = {
    "steps": (),
    "operations": (),
    "start_up": (),
    "memory": ("--family", "sd15", "--method", "lora"),
    "caching": (),
    **dict.fromkeys(("inspection", "exchange", "shards", "image_checks"), ()),
}
"""The benchmarks, with their arguments."""
PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "lycoris_lora")
_NOT_IN_TABLE = ("benchmark", "most")


def main() -> None:
    wanted = sys.argv[1:] or [*SET]
    say(machine())
    lines = [line for name in wanted for line in results_of(name)]
    sys.stdout.write("\n".join(table(lines)) + "\n")


def machine() -> dict[str, Any]:
    """What the figures depend on; load: of the machine, by other programs too."""
    return {
        "benchmark": "machine",
        "date": strftime("%Y-%m-%d"),
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        **{name: packages.version(name) for name in PACKAGES},
    }


def results_of(name: str) -> Iterator[dict[str, Any]]:
    """Run a benchmark; yield its lines, which are printed as they come."""
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", *SET[name]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            try:
                line = json.loads(text)
            except ValueError:  # a line for people
                line = {"benchmark": name, "said": " ".join(text.split())}
            say(line)
            yield line
    if process.returncode:
        raise SystemExit(f"{name}: exit code {process.returncode}")


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """The lines as rows: the benchmark, then what it says."""
    yield "| benchmark | result |"
    yield "|---|---|"
    for line in lines:
        parts = (f"{key} {value}" for key, value in line.items() if key not in _NOT_IN_TABLE)
        yield f"| {line['benchmark']} | {', '.join(parts)} |"


def say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
