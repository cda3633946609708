"""Optimizers and schedules of the user's own: trusted classes and functions with arguments."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from modules.formats.files.optimizer_state import Packer
from modules.user_code.load import UserCode, load_user_code, type_name
from onetrainer.config.base.arguments import parse_arguments
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.run.schedule import Curve, CustomSchedule, Schedule
from onetrainer.schedules.learning_rate import lr_multiplier

STEPS = "{steps}"
"""Text in arguments of a schedule that stands for the steps of the run."""

_REMEDY = "Correct the code there, or the arguments (optimizer.arguments)"
_STATE = 'Keep it in the optimizer\'s "state" or "param_groups"'


def build_custom(
    section: CustomOptimizer, groups: Sequence[dict[str, Any]]
) -> torch.optim.Optimizer:
    """Build an optimizer of the user's own over parameter groups with their learning rates.

    Raises:
        UserError: Its code is not trusted, fails, or is no optimizer.
    """
    code = load_user_code(section.function)
    if not (isinstance(code.value, type) and issubclass(code.value, torch.optim.Optimizer)):
        raise code.error(
            "this is not an optimizer",
            "Expected a subclass of torch.optim.Optimizer",
            "Name such a class (optimizer.function)",
        )
    arguments = parse_arguments(section.arguments)
    with code.running(_REMEDY):
        made: torch.optim.Optimizer = _guarded(code.value, code)(groups, lr=section.lr, **arguments)
    return made


def _guarded(base: Any, code: UserCode) -> Any:  # noqa: ANN401 - a class known at run time only
    """Return the same class with steps whose errors name its code, and whose state can be saved."""

    class Guarded(base):  # type: ignore[misc] # the base is chosen at run time
        _is_checked = False

        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            before = _numbers(self)
            with code.running(_REMEDY):
                loss = super().step(closure)
            if not self._is_checked:
                _require_complete(self, before, code)
                self._is_checked = True
            return loss  # type: ignore[no-any-return] # base is Any

    # Checkpoints identify the class by name.
    Guarded.__name__ = base.__name__
    return Guarded


def _numbers(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the numbers that an optimizer keeps where no checkpoint has them."""
    return {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _require_complete(
    optimizer: torch.optim.Optimizer, before: dict[str, float], code: UserCode
) -> None:
    """Raise UserError if a checkpoint would not hold all that a step has changed."""
    if changed := sorted(dict(_numbers(optimizer).items() - before.items())):
        raise code.error(
            f'its steps change "{changed[0]}", which checkpoints do not hold',
            "Expected a run that can be resumed exactly",
            _STATE,
        )
    groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    try:
        Packer().pack([*map(dict, optimizer.state.values()), groups], "its state")
    except (TypeError, AttributeError) as error:
        raise code.error(str(error), "Expected tensors, numbers and texts", _STATE) from error


def lr_curve(schedule: Schedule, *, steps: int, lr: float) -> Callable[[int], float]:
    """Return the learning rate of a step as a fraction of the full rate.

    A schedule of the user's own is computed for all steps now: its faults end no run half-way, and
    a resumed run has the same rates.

    lr: The full rate, by which a scheduler class that sets rates is divided.

    Raises:
        UserError: Its code is not trusted, fails, or returns no factors.
    """
    if not isinstance(schedule, CustomSchedule):
        return partial(_multiplier, schedule, steps)
    code = load_user_code(schedule.function)
    arguments = {
        name: steps if value == STEPS else value
        for name, value in parse_arguments(schedule.arguments).items()
    }
    is_scheduler = isinstance(code.value, type) and issubclass(code.value, LRScheduler)
    with code.running("Correct the code there, or the arguments (schedule.arguments)"):
        if is_scheduler:
            found = _scheduled(code.value, arguments, steps=steps, lr=lr)
        else:
            found = [code.value(step, steps, **arguments) for step in range(steps)]
    factors = [_factor(value, step, code) for step, value in enumerate(found)]
    if not any(factors):
        raise code.error(
            "the learning rate is always 0", "Expected a factor above 0", "Correct the function"
        )
    return factors.__getitem__


def _multiplier(schedule: Curve, steps: int, step: int) -> float:
    return lr_multiplier(schedule, step=step, steps=steps)


def _scheduled(
    scheduler: Callable[..., Any], arguments: dict[str, object], *, steps: int, lr: float
) -> list[object]:
    """Return the factors of torch's scheduler class, of one weight that nothing trains."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=lr, momentum=0.9)
    made = scheduler(optimizer, **arguments)
    factors: list[object] = []
    for _ in range(steps):
        factors.append(optimizer.param_groups[0]["lr"] / lr)
        optimizer.step()
        made.step()
    return factors


def _factor(value: object, step: int, code: UserCode) -> float:
    """Return what a function returned as a number. Raises UserError if it is none."""
    is_number = isinstance(value, int | float) or (isinstance(value, Tensor) and value.ndim == 0)
    if is_number and math.isfinite(number := float(value)) and number >= 0:  # type: ignore[arg-type] # a number
        return number
    what = f"{value}" if is_number else type_name(value)
    raise code.error(
        f"it returned {what} for step {step}",
        "Expected what the learning rate is multiplied by, 0 or more",
        "Correct the function (schedule.function)",
    )
