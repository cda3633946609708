"""The self-test: a real run of five steps with the demo's model, resumed after the third one."""

import math
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from safetensors.torch import load_file

from modules.jobs.train import train
from modules.memory.precision import choose_device, usual_precision
from modules.training.checkpoints import WEIGHTS_FILE
from onetrainer.demo.images import smileys
from onetrainer.demo.write import demo_configs, write_base
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.jobs.self_test_request import SelfTestRequest
from onetrainer.presets.presets import resolve
from onetrainer.run.event_log import read_all
from onetrainer.run.events import Finished, Phase, Progress, Report, Started
from onetrainer.run.run_folder import RunFolder, create_run

_STEPS, _RESUMED_AFTER = 5, 3
_IMAGES, _SIDE = 2, 64


def self_test(request: SelfTestRequest, report: Report) -> Finished:
    """Train, save, reload and train on; return a summary.

    Raises:
        UserError: If the device cannot be used, or something is not as it must be.
    """
    device = choose_device(request.device)
    precision = usual_precision(device) if request.precision == "auto" else request.precision
    where = f"on {device} in {precision}"
    begun = monotonic()
    with tempfile.TemporaryDirectory(
        prefix="onetrainer-self-test-", ignore_cleanup_errors=True
    ) as folder:
        config = _write_project(Path(folder), device=str(device), precision=precision)
        run = create_run(Path(folder), name="self-test", config={})
        for steps in (_RESUMED_AFTER, _STEPS):
            report(Phase("training", steps, _STEPS, where))
            values = config | {"training": {"steps": steps, "batch_size": 1}}
            resolved = resolve(values, source="self-test").model_dump_json()
            write_atomic(run.config, resolved.encode())
            train(run)
        _require_trained(run, where)
    seconds = monotonic() - begun
    return Finished(_STEPS, [], [f"five steps {where}, saved and resumed, in {seconds:.1f} s"])


def _write_project(folder: Path, *, device: str, precision: str) -> dict[str, Any]:
    """Write a base model and images; return the config of a LoRA training without its length."""
    write_base(folder / "base")
    (folder / "images").mkdir()
    for index, (caption, image) in enumerate(smileys()[:_IMAGES]):
        image.resize((_SIDE, _SIDE)).save(folder / "images" / f"{index}.png")
        (folder / "images" / f"{index}.txt").write_text(caption)
    model = demo_configs()["demo.json"]["model"]
    return {
        "model": model | {"path": str(folder / "base"), "offline": True},
        "data": {
            "folder": str(folder / "images"),
            "resolution": _SIDE,
            "cache_folder": str(folder / "cache"),
        },
        "method": {"kind": "lora", "rank": 4, "alpha": 4.0},
        "optimizer": {"kind": "adamw", "lr": 0.001},
        "sampling": {"every": 0, "at_start": False, "at_end": False},
        "output": {"folder": str(folder), "name": "self-test"},
        # A second thread does not speed up so small a model.
        "hardware": {"device": device, "precision": precision, "threads": 1},
    }


def _require_trained(run: RunFolder, where: str) -> None:
    """Raise UserError unless losses are finite, weights have changed, and the run was resumed."""
    events = read_all(run.events)
    losses = [event.loss for event in events if isinstance(event, Progress)]
    starts = [event.step for event in events if isinstance(event, Started)]
    before, after = (
        load_file(run.checkpoint(step) / WEIGHTS_FILE) for step in (_RESUMED_AFTER, _STEPS)
    )
    what = ""
    if len(losses) != _STEPS or not all(map(math.isfinite, losses)):
        what = f"five finite losses were expected, but these came: {losses}"
    elif starts != [0, _RESUMED_AFTER]:
        what = f"the run was to resume after step {_RESUMED_AFTER}, but began at {starts}"
    elif all(torch.equal(before[name], after[name]) for name in after):
        what = "the weights did not change"
    if what:
        raise UserError(
            f"the self-test {where} failed: {what}",
            "Expected training to work there",
            "Try another precision (--precision) or another device (--device cpu).",
        )
