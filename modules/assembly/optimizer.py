"""From the config to what moves weights: rounding, the step in backward, ends, the average."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from modules.interfaces import ParameterGroup
from modules.optim.ema import Ema
from modules.optim.freeze_schedule import Stop, Stops
from modules.optim.update import Movement
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError


@runtime_checkable
class _OffersBackward(Protocol):
    """An optimizer's section, where it can step in backward."""

    @property
    def fused_backward(self) -> bool: ...


def movement_of(config: TrainConfig, optimizer: torch.optim.Optimizer) -> Movement:
    """How the optimizer moves the weights, and rounds those in bf16."""
    match config.method:
        case Full() | Vae() as method:
            rounds = method.weights == "bf16" and method.stochastic_rounding
        case _:
            rounds = False  # everything that trains is fp32
    return Movement(
        optimizer,
        rounding_seed=config.training.seed if rounds else None,
        moves_alone=config.optimizer.moves_alone,
    )


def steps_in_backward(config: TrainConfig) -> bool:
    """Whether weights move in the backward pass."""
    section = config.optimizer
    return isinstance(section, _OffersBackward) and section.fused_backward


def stops_of(groups: Sequence[ParameterGroup]) -> Stops:
    """When which weights stop."""
    return Stops([Stop(list(group.parameters.values()), group.stop_after) for group in groups])


def require_something_moves(config: TrainConfig, groups: Sequence[ParameterGroup]) -> None:
    """Raises UserError if all of it stops before the run ends.

    groups: of what trains really: a network that is to train may have no layer that was chosen.
    """
    end, steps = stops_of(groups).end, config.training.steps
    if not 0 < end < steps:
        return
    settings = dict.fromkeys(_stop_setting(group.part) for group in groups)
    raise UserError(
        f"nothing is left to train after {end} of {steps} steps: what has layers to train stops by"
        f" then ({', '.join(settings)})",
        "Expected something that trains to the end; a network with no chosen layer does not count",
        f"Raise the setting or set it to 0, lower training.steps to {end}, or choose layers of"
        " other networks, too",
    )


def _stop_setting(part: str) -> str:
    """The setting that says when a part stops."""
    match part:
        case "te" | "te1":
            return "method.text_encoder.stop_after"
        case "te2":
            return "method.text_encoder_2.stop_after"
        case "embeddings":
            return "embeddings.stop_after"
        case _:
            return f"method.{part}.stop_after"


def ema_of(config: TrainConfig, groups: Sequence[ParameterGroup]) -> Ema | None:
    """The running average of everything that trains; None if none is wanted."""
    section = config.ema
    if not section.use:
        return None
    return Ema(
        named_parameters(groups),
        decay=section.decay,
        ramp=section.ramp,
        every=section.every,
        place=section.device,
    )


def named_parameters(groups: Sequence[ParameterGroup]) -> dict[str, nn.Parameter]:
    """Everything that trains, by its name in checkpoints."""
    return {name: weight for group in groups for name, weight in group.parameters.items()}
