"""The CPU set, in one command: `python -m tests.benchmarks.cpu [--quick] [NAME ...]`.

Takes some twenty minutes; --quick three, with sizes that show only that each benchmark runs.

Each benchmark runs in a process of its own, one after the other: the share of a bare loop's speed
in training steps, operations of a step, time to begin, memory against its forecast, caching, and
what reads images and files.
Prints the machine and the versions as a line of JSON, then the lines of each benchmark as they
come, and a table of them all at the end. Judges nothing. `docs/benchmarks.md` keeps results.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata as packages
from time import strftime
from typing import Any

from tests.own_user import own_user

SET: Mapping[str, tuple[str, str]] = {
    "steps": ("", "lora --steps 8"),
    "operations": ("", "'sd15 lora'"),
    "start_up": ("", "--repeats 1"),
    "memory": (
        "--family sd15 --method lora",
        "--family sd15 --method lora --policy block --offload 0.5",
    ),
    "caching": ("", "--images 2 --turns 1 --width 8 --peaks 10 40"),
    "inspection": ("", ""),
    "exchange": ("", "sd15"),
    "shards": ("", "--samples 64 --entries 2000"),
    "image_checks": ("", "--seeds 1 --different 8"),
}
"""The benchmarks, with their arguments; then those of --quick."""
PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "lycoris_lora")
_NOT_IN_TABLE = ("benchmark", "most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*SET])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    say(machine())
    lines = [line for name in options.names for line in results_of(name, options.quick)]
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


def results_of(name: str, is_quick: bool) -> Iterator[dict[str, Any]]:
    """Run a benchmark; yield its lines, which are printed as they come."""
    arguments = shlex.split(SET[name][is_quick])
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", *arguments]
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
    with own_user():
        main()
