"""A worker that trains nothing and says everything: `python -m tests.ui.fake_worker FOLDER`.

What it is to do stands in FAKE_WORKER: ok, slow, flood, segv, oom, failed, hang, screenshot,
rewards, hacking, warned.
"""

import json
import math
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from onetrainer.run.client import WARM
from onetrainer.run.commands import decode_command
from onetrainer.run.event_log import EventWriter, rewind
from onetrainer.run.events import (
    Checkpoint,
    Event,
    Failed,
    Finished,
    Forecast,
    Measured,
    Phase,
    Progress,
    Sample,
    Started,
    Stopped,
    Validated,
    Warned,
)
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.wire import encode_event
from tests.ui.fake_paint import paint
from tests.ui.fake_rewards import Evaluations, rewarded
from tests.ui.fake_sampling import sample, tried

MODES = {  # seconds a step, steps at most
    "ok": (0.004, 60),
    "slow": (0.05, 100_000),
    "screenshot": (0.005, 100_000),
    "flood": (0.0, 50_000),
    "segv": (0.01, 100_000),
    "oom": (0.01, 100_000),
    "failed": (0.0, 60),
    "hang": (0.05, 100_000),
    "rewards": (0.004, 60),
    "hacking": (0.004, 60),
    "warned": (0.004, 60),
}
REWARDED = ("rewards", "hacking", "warned")
EVALUATE_EVERY = 10
FLOOD_EVENTS = 50_000
GIB = 2**30


class FakeWorker:
    def __init__(self, folder: RunFolder, mode: str) -> None:
        self.folder = folder
        self.mode = mode
        self.pause, most = MODES[mode]
        self.config = json.loads(folder.config.read_text())
        wanted = self.config["training"]["steps"]
        self.total = FLOOD_EVENTS if mode == "flood" else min(wanted, most)
        self.prompts = self.config["sampling"]["prompts"]
        self.random = random.Random(7)
        self.commands_read = 0
        self.best = (0, math.inf)
        self.first = math.inf
        self.in_vain = 0
        self.concepts = [math.inf] * 3
        self.evaluations = Evaluations(folder.path, self.total, is_hacked=mode != "rewards")

    def run(self) -> int:
        with self.folder.locked():
            return self._run()

    def _run(self) -> int:
        checkpoints = self.folder.complete_checkpoints()
        first, size = 0, 0
        if checkpoints:
            first, path = checkpoints[-1]
            size = json.loads((path / "state.json").read_text())["events_size"]
        rewind(self.folder.events, size)
        self.folder.commands.write_text("")
        self.events = EventWriter(self.folder.events)
        self.say = self.events.write
        self.say(Started(os.getpid(), first, self.total, {"torch": "2.13.0"}))
        self.say(Phase("loading"))
        print("fake worker: loading", file=sys.stderr, flush=True)
        self._misbehave_at_start()
        for done in range(1, 13):
            self.say(Phase("caching", done, 12))
            time.sleep(min(self.pause, 0.005))
        if first == 0 and self.config["sampling"]["at_start"]:
            self.sample(0)
        if first == 0:
            self.validate(0)
            self.evaluate(0)
        self.say(Phase("training"))
        if self.mode == "flood":
            self.flood()
        for step in range(first + 1, self.total + 1 if self.mode != "flood" else 0):
            ending = self.train(step)
            if ending is not None:
                return ending
        if self.config["sampling"]["at_end"]:
            self.sample(self.total)
        self.save(self.total)
        self.say(Finished(self.total, [self.output()], ["Loss fell from 0.31 to 0.12."]))
        return 0

    def _misbehave_at_start(self) -> None:
        if self.mode == "failed":
            self.say(
                Failed(
                    "user",
                    "base.safetensors: no text_encoder weights",
                    "Expected a whole Stable Diffusion 1.x model",
                    "Choose another base model.",
                )
            )
            raise SystemExit(2)

    def train(self, step: int) -> int | None:
        # For a screenshot of it, or of its banner, the run holds still in the middle.
        is_shown = self.mode == "screenshot" and step > 0.7 * self.total
        is_slow = is_shown or (self.mode == "warned" and step > 45)
        time.sleep(0.5 if is_slow else self.pause)
        if self.mode in REWARDED:
            self.say(rewarded(step, self.total, self.random))
        self.say(self.progress(step))
        if step % 10 == 1:
            heat = {"temperature": 61.0, "power_watts": 250.0}
            self.say(Measured(step, 4, 3 * GIB, device_bytes=6 * GIB, **heat))
        if self.mode == "segv" and step == 20:
            print("fake worker: about to touch a null pointer", file=sys.stderr, flush=True)
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(5)
        if self.mode == "oom" and step == 20:
            self.save(step)
            self.say(
                Failed(
                    "program",
                    "the GPU ran out of memory (8.0 GB)",
                    "Training needs more memory than there is",
                    "Turn on gradient checkpointing, or set training.batch_size to 1.",
                    "device memory",
                )
            )
            return 1
        every = self.config["sampling"]["every"]
        if every and step % every == 0 and step < self.total:
            self.sample(step)
            self.say(Phase("training"))
        if step % self.config["validation"]["every"] == 0:
            self.validate(step)
            self.say(Phase("training"))
            if 0 < self.config["validation"]["patience"] <= self.in_vain:
                self.save(step)
                early = f"Stopped early after step {step}: no better than at step {self.best[0]}."
                self.say(Finished(step, [self.output()], [early]))
                return 0
        if step % EVALUATE_EVERY == 0 and self.evaluate(step):
            self.save(step)
            best = f"output/{self.config['output']['name']}-best.safetensors"
            (self.folder.path / best).write_bytes(b"weights")
            self.say(Finished(step, [self.output(), best], self.evaluations.summary(step)))
            return 0
        while self.mode == "hang" and self.folder.commands.read_text():
            time.sleep(1)  # for good
        return self.obey(step)

    def evaluate(self, step: int) -> bool:
        """Evaluate on validation prompts in a reward run; give whether the guard ends it."""
        if self.mode not in REWARDED:
            return False
        self.say(Phase("evaluating", 1, 4))
        event = self.evaluations.evaluate(step)
        self.say(event)
        self.say(Phase("training"))
        return event.stops and self.mode == "hacking"

    def flood(self) -> None:
        """As many events as a disk takes, in writes of many lines."""
        with self.folder.events.open("ab") as handle:
            for step in range(1, self.total + 1):
                handle.write(encode_event(self.progress(step), time=time.time()).encode())

    def progress(self, step: int) -> Progress:
        course = 0.11 + 0.2 * math.exp(-4 * step / self.total)
        loss = course * self.random.lognormvariate(0, 0.35)
        left = (self.total - step) * max(self.pause, 0.01)
        per_epoch = 24
        rate = 1 / max(self.pause, 0.01)
        return Progress(
            step, self.total, 1 + step // per_epoch, loss, 1e-4, rate, left, int(5.3 * GIB)
        )

    def obey(self, step: int) -> int | None:
        lines = self.folder.commands.read_text().splitlines()
        for line in lines[self.commands_read :]:
            self.commands_read += 1
            command = decode_command(line)
            match command and command.name:
                case "sample" if command and command.images:
                    for event in tried(command.images):
                        self.say(event)
                case "sample":
                    self.sample(step)
                    self.say(Phase("training"))
                case "save":
                    self.save(step)
                    self.say(Phase("training"))
                case "stop" | "pause" | "discard" as reason:
                    if reason != "discard":
                        self.save(step)
                    outputs = [self.output()] if reason == "stop" else []
                    self.say(Stopped(step, reason, outputs))
                    return 3
        return None

    def save(self, step: int) -> None:
        self.say(Phase("saving"))
        path = self.folder.checkpoint(step)
        path.mkdir(parents=True, exist_ok=True)
        self.say(Checkpoint(step, f"checkpoints/{path.name}"))
        (path / "state.json").write_text(
            json.dumps({"step": step, "events_size": self.events.size, "config": self.config})
        )

    def output(self) -> str:
        name = f"output/{self.config['output']['name']}.safetensors"
        (self.folder.path / name).write_bytes(b"weights")
        return name

    def validate(self, step: int) -> None:
        """A loss that falls until three fifths of the run, and rises from there on."""
        if not self.config["validation"]["use"]:
            return
        self.say(Phase("validating", 1, 12))
        progress = step / self.total
        loss = 0.1437 - 0.011 * progress + 0.0092 * progress**2
        is_best = step == 0 or loss < self.best[1]
        self.best = (step, loss) if is_best else self.best
        self.in_vain = 0 if is_best else self.in_vain + 1
        self.first = loss if step == 0 else self.first
        verdict = "first" if step == 0 else "improving" if is_best else "overfitting"
        messages = {
            "first": "The first evaluation: everything after it is compared with this.",
            "improving": "It still improves: the loss on validation images goes on falling.",
            "overfitting": f"It begins to memorize: the loss was lowest at step {self.best[0]}.",
        }
        factors = {"": 1.04, "cats": 1.1 - 0.1 * progress, "tents": 0.9}
        if step == 0:
            self.concepts = [loss * factor for factor in factors.values()]
        event = Validated(
            step,
            loss,
            0.0009 + 0.0004 * progress,
            12,
            best_step=self.best[0],
            is_best=is_best,
            verdict=verdict,
            message=messages[verdict],
            since_start=loss - self.first if step else None,
            since_start_error=0.0006 if step else None,
            by_concept={name: loss * factor for name, factor in factors.items()},
            concepts={
                name: {
                    "loss": loss * factor,
                    "error": 0.0016,
                    "since_start": loss * factor - was if step else None,
                    "since_start_error": 0.0026 if step else None,
                }
                for (name, factor), was in zip(factors.items(), self.concepts, strict=True)
            },
            by_level=[loss * factor for factor in (2.1 - 0.1 * progress, 1.1, 0.6, 0.2)],
        )
        self.say(event)
        if self.config["validation"]["without_ema"]:
            self.say(replace(event, loss=loss * 1.012, weights="without_ema"))

    def sample(self, step: int) -> None:
        for index, prompt in enumerate(self.prompts):
            self.say(Phase("sampling", index + 1, len(self.prompts)))
            path = self.folder.samples / f"step-{step:06d}-{index:02d}.png"
            image = paint(index, step / self.total, size=128)
            image.save(path, compress_level=1)  # small images of many tests
            image.resize((128, 128)).save(path.with_name(f"{path.stem}.thumb.jpg"), quality=90)
            relative = f"samples/{path.name}"
            self.say(Sample(step, index, relative, prompt["prompt"], prompt["seed"]))
        if self.mode == "ok" and step:
            self.say(Warned("training in bf16 is slow here; fp32 (hardware.precision) is faster"))
            self.say(Warned("left out: paper-03.png: damaged: its end is missing"))
        if self.mode == "slow" and step:
            self.say(Warned("the image cat-07.png is smaller than the resolution and was scaled"))


def convert() -> int:
    """The events of the job "convert", for a checkpoint of a run."""
    asked = json.loads(sys.stdin.read())
    path = Path(asked["source"]) / "output" / f"paper-{asked['step']:06d}.safetensors"
    path.write_bytes(b"weights")
    print(encode_event(Finished(asked["step"], [str(path)]), time=time.time()), flush=True)
    return 0


SPEED = {"flops": {"product bfloat16": 2e13}, "bytes_per_second": 3e11, "call_seconds": 8e-6}


def plan(mode: str) -> int:
    """The events of the job "plan", on a GPU with 12 GB."""
    asked = json.loads(sys.stdin.read())

    def say(event: Event) -> None:
        print(encode_event(event, time=time.time()), end="", flush=True)

    if mode == "failed":
        what = "the model family has no published size"
        say(Failed("user", what, "Expected SD 1.5, SD 2 or SDXL", "Choose one of these."))
        return 2
    if asked.get("only_speed"):
        say(Forecast({}, "", 0, device="Fake card", speed=SPEED))
        say(Finished(0, []))
        return 0
    is_block = asked["config"]["hardware"]["gradient_checkpointing"] == "block"
    saved = 7 * GIB if is_block else 0
    training = {
        "unet": int(4.8 * GIB),
        "adapters": int(0.18 * GIB),
        "gradients": int(0.17 * GIB),
        "optimizer": int(0.35 * GIB),
        "ema": int(0.02 * GIB),
        "activations": int(9.1 * GIB) - saved,
    }
    phases = {
        "caching": {"text_encoders": int(1.5 * GIB), "vae": GIB // 3, "activations": GIB},
        "training": training,
        "sampling": {"unet": int(4.8 * GIB), "adapters": GIB // 5, "activations": int(0.9 * GIB)},
        "decoding": {"unet": int(4.8 * GIB), "vae": GIB // 3, "activations": int(2.1 * GIB)},
    }
    peak = max(sum(parts.values()) for parts in phases.values())
    time_forecast = {
        "unet_calls": 24,
        "message": "about 40 s a step, 20 min in all (on this processor)",
    }
    place = "decoding" if is_block else "training"
    data_forecast = {"caching_seconds": 12.0, "chunk": 75, "long_caption_count": 0}
    event = Forecast(phases, place, peak, 12 * GIB, time=time_forecast, data=data_forecast)
    say(Phase("loading", detail="counting memory"))
    say(event)
    say(Phase("loading", detail="looking for settings that lower it"))
    if mode == "slow" and asked.get("fixes", True):
        time.sleep(600)  # until it is stopped
    say(replace(event, fixes=[] if is_block else [*FIXES]))
    say(Finished(0, []))
    return 0


FIXES = (
    {
        "changes": {"hardware.gradient_checkpointing": "selective"},
        "message": "repeat cheap operations in the backward pass",
        "peak_bytes": int(11.2 * GIB),
        "cost": "about 5 % more time",
    },
    {
        "changes": {"hardware.gradient_checkpointing": "block"},
        "message": "repeat whole blocks in the backward pass",
        "peak_bytes": int(7.6 * GIB),
        "cost": "about a third more time",
    },
    {
        "changes": {"training.batch_size": 1, "training.accumulation": 4},
        "message": "one image at a time, four times before each step",
        "peak_bytes": int(8.4 * GIB),
        "cost": "about half as fast",
    },
)


def main(arguments: list[str]) -> int:
    mode = os.environ.get("FAKE_WORKER", "ok")
    if arguments == ["--job", "convert"]:
        return convert()
    if arguments == [WARM]:
        return sample(mode)
    if "--job" in arguments:
        return plan(mode)
    return FakeWorker(RunFolder(Path(arguments[0])), mode).run()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
