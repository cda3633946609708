"""Weight updates from the config: rounding, fused backward pass, freeze schedule, EMA."""

from collections.abc import Sequence

import torch

from modules.interfaces import ParameterGroup, named_parameters
from modules.optim.ema import Ema
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.update import WeightUpdater
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.components import settings_path
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError


def weight_updater_of(config: TrainConfig, optimizer: torch.optim.Optimizer) -> WeightUpdater:
    """Return how the optimizer updates weights and rounds those in bf16."""
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
    )


def require_training_to_the_end(config: TrainConfig, groups: Sequence[ParameterGroup]) -> None:
    """Raise UserError if all weights are frozen before the run ends.

    groups: Parameters that are really trained: a selected component may have no selected layer.
    """
    end, steps = FreezeSchedule(groups).end, config.training.steps
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
