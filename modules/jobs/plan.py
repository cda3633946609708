"""The job of planning: what memory and time a run would take, and then what would lower it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from modules.forecast.fix_search import with_fixes
from modules.forecast.forecast import Target, planner, target_of
from modules.forecast.operator_costs import Machine, probed
from modules.memory.precision import choose_device, compute_dtype
from onetrainer.config.run.model import FAMILY_WORDS
from onetrainer.config.train import TrainConfig
from onetrainer.jobs.plan_request import PlanRequest, SeenHeaders
from onetrainer.messages.memory import GB, fits, notes
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.run.events import Event, Finished, Phase


def plan(request: PlanRequest, tell: Callable[[Event], None]) -> Finished:
    """Tells the forecast as soon as it is known, and again with cures where it does not fit."""
    machine, where = None, ""
    if request.memory:
        target = Target("cuda", available=round(request.memory * GB))
    else:
        target = target_of(request.config)
        tell(Phase("loading", detail="measuring how fast this device is"))
        machine = _machine(request.config)
        where = "on this card" if target.kind == "cuda" else "on this processor"
    with planner(target, SeenHeaders(request.headers)) as plans:
        tell(Phase("loading", detail="counting memory"))
        config = plans.decided(request.config)
        found = replace(
            plans.forecast(config),
            notes=_notes(request.config, config, target),
            time=plans.time(config, machine, where),
            data=plans.data(config, machine),
        )
        tell(found)
        if request.fixes and not fits(found.peak_bytes, target.available):
            tell(Phase("loading", detail="looking for what would lower it"))
            tell(with_fixes(plans, config, found))
    return Finished(0, [])


def _machine(config: TrainConfig) -> Machine:
    """This one, with the threads that a run of the config takes."""
    hardware = config.hardware
    before = torch.get_num_threads()
    if hardware.threads > 0:
        torch.set_num_threads(hardware.threads)
    try:
        return probed(choose_device(hardware.device), compute_dtype(hardware.precision))
    finally:
        torch.set_num_threads(before)


def _notes(asked: TrainConfig, decided: TrainConfig, target: Target) -> list[str]:
    """What is counted for a config; decided: with automatic checkpointing chosen."""
    is_automatic = asked.hardware.gradient_checkpointing == "auto"
    return notes(
        draws=bool(asked.sampling.prompts),
        lacks_card=target.kind == "cpu" and asked.hardware.device == "auto",
        missing_model=_missing(asked.model.path),
        family=FAMILY_WORDS[asked.model.family],
        chosen=decided.hardware.gradient_checkpointing if is_automatic else "",
    )


def _missing(path: str) -> str | None:
    """What to call a model that is not on this disk; None if it is."""
    if is_hub_name(path):
        return path if cached_folder(path) is None else None
    if not path:
        return path
    return None if Path(path).exists() else Path(path).name
