"""Weight updates from the config: rounding, fused backward pass, freeze schedule, EMA."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from modules.assembly.placement import autocasts_of
from modules.interfaces import Method, ParameterGroup, named_parameters
from modules.optim.build import build_optimizer
from modules.optim.ema import Ema
from modules.optim.exported_weights import ExportedWeights
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.optimizer_state import OptimizerProgress
from modules.optim.rounding_noise import Extent
from modules.optim.update import WeightUpdater
from modules.training.checkpoints import Checkpoints
from modules.training.engine import Engine
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.components import settings_path
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.run.run_folder import RunFolder

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding


@dataclass(frozen=True)
class Optimization:
    """What updates, saves and exports the trained weights; ema: None without an EMA."""

    optimizer: torch.optim.Optimizer
    updater: WeightUpdater
    engine: Engine
    ema: Ema | None
    checkpoints: Checkpoints
    exported: ExportedWeights


def optimization_of(
    config: TrainConfig,
    folder: RunFolder,
    method: Method,
    *,
    device: torch.device,
    sharding: "Sharding | None" = None,
) -> Optimization:
    """Build the optimizer of a method and what belongs to it, without backward hooks.

    sharding: Of the method's networks; None where they are whole.
    """
    groups = method.parameter_groups()
    optimizer = build_optimizer(config.optimizer, groups)
    extents = sharding.extents if sharding else None
    updater = weight_updater_of(config, optimizer, extents)
    engine = Engine(
        device=device,
        precision=config.hardware.precision,
        updater=updater,
        freeze_schedule=FreezeSchedule(groups),
        gradient_clipping=config.training.gradient_clipping,
        autocast=autocasts_of(config, device),
        whole_norms=sharding.norms if sharding else None,
    )
    ema = ema_of(config, groups)
    checkpoints = Checkpoints(
        folder=folder,
        method=method,
        optimizer=OptimizerProgress(optimizer, named_parameters(groups), sharding),
        ema=ema,
        engine=engine,
        keep=config.output.keep_checkpoints,
        sharding=sharding,
    )
    gathered = sharding.gathered if sharding else nullcontext
    exported = ExportedWeights(updater, ema, method.after_step, gathered)
    return Optimization(optimizer, updater, engine, ema, checkpoints, exported)


def weight_updater_of(
    config: TrainConfig,
    optimizer: torch.optim.Optimizer,
    extents: Mapping[nn.Parameter, Extent] | None = None,
) -> WeightUpdater:
    """Return how the optimizer updates weights and rounds those in bf16.

    extents: Of parameters that are a part of a weight; None where all are whole.
    """
    match config.method:
        case Full() | Vae() as method:
            is_rounded = method.weights == "bf16" and method.stochastic_rounding
        case AdapterSection() | EmbeddingOnly():
            is_rounded = False  # everything that trains is fp32
    return WeightUpdater(
        optimizer,
        rounding_seed=config.training.seed if is_rounded else None,
        updates_independently=config.optimizer.updates_independently,
        skips_zero_rates=config.optimizer.skips_zero_rates,
        extents=extents,
    )


def require_training_to_the_end(config: TrainConfig, groups: Sequence[ParameterGroup]) -> None:
    """Raise UserError if all weights are frozen before the run ends.

    groups: Parameters that are really trained: a selected component may have no selected layer.
    """
    end, steps = FreezeSchedule(groups).end, config.training.total_steps
    if not 0 < end < steps:
        return
    settings = dict.fromkeys(_stop_after_setting(group.component) for group in groups)
    raise UserError(
        f"nothing is left to train after {end} of {steps} steps: every component with layers to"
        f" train stops by then ({', '.join(settings)})",
        "Expected a component that trains to the end; one with no chosen layer does not count",
        f"Raise the setting or set it to 0, lower training.steps to {end}, or choose layers of"
        " other components, too",
    )


def _stop_after_setting(part: str) -> str:
    """Return the path of the setting that freezes a component."""
    return f"{'embeddings' if part == 'embeddings' else settings_path(part)}.stop_after"


def ema_of(config: TrainConfig, groups: Sequence[ParameterGroup]) -> Ema | None:
    """Return the EMA of everything trainable; None if it is off."""
    section = config.ema
    if not section.use:
        return None
    return Ema(
        named_parameters(groups),
        decay=section.decay,
        ramp=section.ramp,
        every=section.every,
        location=section.device,
    )
