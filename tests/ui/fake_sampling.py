"""The job "sample" of a fake worker."""

import json
import sys
import time
from pathlib import Path

from onetrainer.run.events import Event, Failed, Finished, Phase, Sample
from onetrainer.run.wire import encode_event
from tests.ui.fake_paint import paint


def sample(mode: str) -> int:
    """Paints an image for each prompt and seed, or fails."""
    asked = json.loads(sys.stdin.read())
    folder = Path(asked["out"])
    folder.mkdir(parents=True, exist_ok=True)

    def say(event: Event) -> None:
        print(encode_event(event, time=time.time()), end="", flush=True)

    say(Phase("loading", detail="loading the model"))
    if mode == "failed":
        say(Failed("user", "model.safetensors: this is an embedding", "Expected a model", "Choose"))
        return 2
    paths = []
    for row, prompt in enumerate(asked["prompts"]):
        for seed in asked["seeds"]:
            path = folder / f"{len(list(folder.iterdir())) + 1:05d}-{seed}.png"
            paint(seed, 1.0, size=64).save(path)
            say(Sample(0, row, str(path), prompt, seed))
            paths.append(str(path))
    say(Finished(0, paths))
    return 0
