"""A step computed operation by operation, as Python asks for them."""

from dataclasses import dataclass
from typing import Protocol

from modules import seeds
from modules.interfaces import Loss, Method
from modules.memory.tensors import on_device
from modules.objectives.inputs import Inputs, Objective
from modules.optim.step_check import StepCheck
from modules.training.accumulation import Accumulation
from modules.training.checkpoints import TrainState
from modules.training.engine import Engine


@dataclass(frozen=True)
class StepResult:
    """The losses of a step's microbatches, without their graphs, and the check of the step."""

    losses: list[Loss]
    check: StepCheck


class Step(Protocol):
    """How a step is computed, after `Engine.begin`."""

    def __call__(self, step: int, *, seed: int) -> StepResult:
        """Compute the losses of a step's microbatches, and update the weights.

        The losses are empty where another process reports them. Raises StepAbandoned.
        """
        ...


@dataclass(frozen=True)
class EagerStep:
    """The step of every device, method and objective; others give the same numbers."""

    state: TrainState
    objective: Objective
    method: Method
    engine: Engine
    accumulate: Accumulation[Inputs]

    def __call__(self, step: int, *, seed: int) -> StepResult:
        def compute(number: int, drawn: Inputs) -> Loss:
            seed_dropout(seed, step, number)
            return self.microbatch(drawn)

        return StepResult(self.accumulate(step, compute), self.update())

    def microbatch(self, drawn: Inputs) -> Loss:
        """Add a microbatch's gradients to those of the step."""
        device = self.engine.device
        # Inputs are drawn in host memory: no need to look through them there.
        inputs = drawn if device.type == "cpu" else on_device(drawn, device)
        self.method.begin_microbatch()
        with self.engine.autocast():
            loss = self.objective.compute(inputs)
        self.state.is_whole = not self.engine.updates_in_backward
        with loss.recomputation():
            self.engine.backward(loss.value)
        # Without its graph, whose memory is free when the optimizer steps.
        return Loss(loss.value.detach(), loss.per_item, loss.scores)

    def update(self) -> StepCheck:
        """Update the weights by the gradients of all microbatches."""
        self.state.is_whole = False
        self.engine.clip_gradients()
        check = self.engine.step()
        self.method.after_step()
        return check


def seed_dropout(seed: int, step: int, number: int) -> None:
    """Seed torch's global generators for a step's microbatch; only dropout draws from them.

    It is the only thing that depends on how a step is divided.
    """
    seeds.seed_global_generators(seeds.derive(seed, "dropout", step, number))
