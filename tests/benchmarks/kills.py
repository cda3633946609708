"""Kills a run at random moments and resumes it: `python -m tests.benchmarks.kills [TIMES]`.

One run goes through undisturbed; each other one gets SIGKILL after a random time, in
any phase (loading, caching, training, sampling, saving), is resumed, and must end with the same
bytes in its LoRA and the same events.
"""

import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

from onetrainer.run import client
from onetrainer.run.events import Checkpoint, Finished, Progress, Sample
from onetrainer.run.run_folder import RunFolder
from tests import runs

CHANGES = {
    "training": {"steps": 40},
    "sampling": {"every": 10},
    "output": {"save_every": 4},
}


def main(times: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        config = runs.write_project(Path(folder))
        start = perf_counter()
        straight = runs.new_run(config, **CHANGES)
        assert runs.finish(straight) == 0
        length = perf_counter() - start
        expected = outcome(straight)
        moments = random.Random(0)
        failures = 0
        for number in range(times):
            killed = runs.new_run(config, **CHANGES)
            wait = moments.uniform(0, length)
            doing = kill_after(killed, wait)
            same = runs.finish(killed) == 0 and outcome(killed) == expected
            failures += not same
            result = {
                "kill": number + 1,
                "after_seconds": round(wait, 2),
                "last_event": doing,
                "lora_sha256": digest(killed)[:16],
                "same": same,
            }
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{times - failures} of {times} identical to {expected[0][:16]}\n")
    return 1 if failures else 0


def kill_after(folder: RunFolder, seconds: float) -> str:
    """Start a worker, kill it, and give the last event that it had reported."""
    run = client.start(folder)
    sleep(seconds)
    run.kill()
    events = runs.events_of(folder)
    return type(events[-1]).__name__ if events else "none"


def outcome(folder: RunFolder) -> tuple[str, list[object]]:
    reported = [
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in runs.events_of(folder)
        if isinstance(event, Progress | Sample | Checkpoint | Finished)
    ]
    return digest(folder), reported


def digest(folder: RunFolder) -> str:
    return hashlib.sha256((folder.output / "my-lora.safetensors").read_bytes()).hexdigest()


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
