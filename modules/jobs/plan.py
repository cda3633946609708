"""The planning job: estimate a run's memory and time, and find settings that lower the memory."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from modules.forecast.dataset import forecast_dataset
from modules.forecast.fixes import add_fixes
from modules.forecast.forecast import Planner, Target, target_of
from modules.forecast.operator_costs import Machine, measure_machine
from modules.forecast.step_time import forecast_time
from modules.memory.precision import choose_device, compute_dtype
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.jobs.plan_request import PlanRequest, RecordedHeaders
from onetrainer.messages.memory import GB, fits, notes
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.run.events import Event, Finished, Phase


def plan(request: PlanRequest, report: Callable[[Event], None]) -> Finished:
    """Emit the forecast once it is known, and again with fixes if the run does not fit."""
    machine, where = None, ""
    if request.memory:
        target = Target("cuda", available=round(request.memory * GB))
    else:
        target = target_of(request.config)
        report(Phase("loading", detail="measuring how fast this device is"))
        machine = _machine(request.config)
        where = "on this card" if target.kind == "cuda" else "on this processor"
    headers = RecordedHeaders(request.headers)
    with Planner(target, headers) as plans:
        report(Phase("loading", detail="counting memory"))
        config = plans.resolve_checkpointing(request.config)
        forecast = plans.forecast(config)
        with plans.stage(config) as stage:
            forecast = replace(
                forecast,
                notes=_notes(request.config, config, target),
                time=forecast_time(stage, machine, where),
                data=forecast_dataset(stage, machine, headers),
            )
        report(forecast)
        if request.fixes and not fits(forecast.peak_bytes, target.available):
            report(Phase("loading", detail="looking for settings that lower it"))
            report(add_fixes(plans, config, forecast))
    return Finished(0, [])


def _machine(config: TrainConfig) -> Machine:
    """Measure this computer's speed with the number of threads that the run would use."""
    hardware = config.hardware
    before = torch.get_num_threads()
    if hardware.threads > 0:
        torch.set_num_threads(hardware.threads)
    try:
        return measure_machine(choose_device(hardware.device), compute_dtype(hardware.precision))
    finally:
        torch.set_num_threads(before)


def _notes(asked: TrainConfig, resolved: TrainConfig, target: Target) -> list[str]:
    """Return notes about a forecast.

    Args:
        asked: The config as given.
        resolved: The same with automatic checkpointing resolved.
        target: What the run is planned for.
    """
    is_automatic = asked.hardware.gradient_checkpointing == "auto"
    return notes(
        has_prompts=bool(asked.sampling.prompts),
        has_no_gpu=target.kind == "cpu" and asked.hardware.device == "auto",
        missing_model=_missing(asked.model.path),
        family=FAMILY_LABELS[asked.model.family],
        chosen=resolved.hardware.gradient_checkpointing if is_automatic else "",
    )


def _missing(path: str) -> str | None:
    """Return the name of a model that is not on this disk; None if it is."""
    if is_hub_name(path):
        return path if cached_folder(path) is None else None
    if not path:
        return path
    return None if Path(path).exists() else Path(path).name
