"""The planning job: estimate a run's memory and time, and find settings that lower the memory."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from modules.devices import device_name
from modules.forecast.dataset import forecast_dataset
from modules.forecast.fixes import add_fixes
from modules.forecast.forecast import Planner, Target, target_of
from modules.forecast.operator_costs import measure_device
from modules.forecast.step_time import forecast_time
from modules.memory.precision import choose_device, compute_dtype, device_notes
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.train import TrainConfig
from onetrainer.errors import sentence
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.jobs.plan_request import PlanRequest, RecordedHeaders
from onetrainer.messages.memory import GB, checkpointing_label, fits
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.presets.step_work import DeviceSpeed
from onetrainer.run.device_owner import owner_of, places_of
from onetrainer.run.events import Finished, Forecast, Phase, Report
from onetrainer.schedules.amounts import estimated, lengths, steps_of


def plan(request: PlanRequest, report: Report) -> Finished:
    """Emit the forecast once it is known, and again with fixes if the run does not fit."""
    headers = RecordedHeaders(request.headers)
    asked = estimated(request.config, request.steps)
    speed, where, name, notes = None, "", "", list[str]()
    known_speed: dict[str, object] = {}
    if request.memory:
        target = Target("cuda", available=round(request.memory * GB))
    else:
        target = target_of(request.config)
        report(Phase("loading", detail="measuring how fast this device is"))
        is_idle = owner_of(places_of(request.config.hardware.device)) is None
        speed = _speed(request.config)
        known_speed = speed.document() if is_idle else {}
        device = choose_device(request.config.hardware.device)
        where = "on this processor" if device.type == "cpu" else "on this card"
        name = device_name(device)
        if device.type != "cpu":
            notes = [sentence(note) for note in device_notes(request.config.hardware, device)]
    if request.only_speed:
        report(Forecast({}, "", 0, device=name, speed=known_speed))
        return Finished(0, [])
    with Planner(target, headers) as plans:
        report(Phase("loading", detail="counting memory"))
        is_automatic = asked.hardware.gradient_checkpointing == "auto"
        config = plans.resolve_checkpointing(asked)
        forecast = plans.forecast(config)
        with plans.stage(config) as stage:
            forecast = replace(
                forecast,
                notes=[*notes, *_notes(config, target, is_automatic=is_automatic)],
                time=forecast_time(
                    stage, speed, where, partial(estimated, request.config, request.steps)
                ),
                data=forecast_dataset(stage, speed, headers),
                device=name,
                speed=known_speed,
            )
        forecast = replace(forecast, time=forecast.time | _lengths(request, forecast))
        report(forecast)
        if request.fixes and not fits(forecast.peak_bytes, target.available):
            report(Phase("loading", detail="looking for settings that lower it"))
            report(add_fixes(plans, config, forecast))
    return Finished(0, [])


def _lengths(request: PlanRequest, forecast: Forecast) -> dict[str, Any]:
    """Return the known lengths of a config in steps, as `Forecast.time` has them."""
    seconds = forecast.time.get("seconds")
    steps = {}
    for amount in lengths(request.config):
        if amount.unit == "minutes" and seconds:
            steps[str(amount)] = steps_of(amount, None, seconds)
        elif str(amount) in request.steps:
            steps[str(amount)] = request.steps[str(amount)]
    return {"lengths": steps} if steps else {}


def _speed(config: TrainConfig) -> DeviceSpeed:
    """Measure this computer's speed with the number of threads that the run would use."""
    hardware = config.hardware
    before = torch.get_num_threads()
    if hardware.threads > 0:
        torch.set_num_threads(hardware.threads)
    try:
        return measure_device(choose_device(hardware.device), compute_dtype(hardware.precision))
    finally:
        torch.set_num_threads(before)


def _notes(config: TrainConfig, target: Target, *, is_automatic: bool) -> Iterator[str]:
    """Yield what a forecast includes and what not. is_automatic: Whether checkpointing was."""
    if target.kind == "cpu" and config.hardware.device == "auto":
        yield "No GPU was found, so this is about RAM; --memory GB plans for a GPU of that size."
    path = config.model.path
    is_missing = cached_folder(path) is None if is_hub_name(path) else not Path(path).exists()
    if not path or is_missing:
        name = path if is_hub_name(path) else Path(path).name
        what = f"{name} was not found" if path else "No base model is chosen"
        yield f"{what}, so {FAMILY_LABELS[config.model.family]}'s published sizes are used."
    if is_automatic:
        chosen = checkpointing_label(config.hardware.gradient_checkpointing)
        yield f"Automatic gradient checkpointing would be {chosen}."
    if isinstance(config.optimizer, CustomOptimizer):
        yield "An optimizer of your own is counted as AdamW, with two values for each weight."
    if not config.sampling.has_prompts:
        yield "Samples are not included, as there is no prompt."
