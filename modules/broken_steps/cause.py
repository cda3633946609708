"""The cause of a broken step: where the first number that is not finite is found.

Looked for only after a step was broken: in the model, in what it was given, in the loss, and in the
gradients, in the order of the computation.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from modules.interfaces import Batch, Microbatch
from modules.memory.not_finite import first_broken
from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError
from onetrainer.run.events import BrokenStep, Cause

_KEPT = "The step changed nothing: the weights are those before it"
_FINER: Mapping[Precision, str] = {"fp16": "bf16 or fp32", "bf16": "fp32", "fp32": ""}


@dataclass(frozen=True)
class StepFacts:
    """What is known of a broken step once it has been read.

    Attributes:
        number: From 1.
        losses: Per image, in the order of the step.
        norm: Of the whole gradient.
        norms: Of each weight's gradient, in the order of the model.
    """

    number: int
    losses: Sequence[float]
    norm: float
    norms: Sequence[tuple[nn.Parameter, float]]


@dataclass(frozen=True)
class Investigator:
    """Finds the cause of broken steps.

    Attributes:
        components: The model's networks by name; of the base model, but for what is trained.
        trained: The trained weights by name.
        model: The base model's file or name.
        is_cached: Whether latents come from the cache rather than from the VAE.
        names: Returns what a step's images are made from, as `StepBatches.names_at`.
        batches: Returns a step's microbatches.
        timesteps: Returns those of a step's images; empty if unknown.
    """

    components: Mapping[str, nn.Module]
    trained: Mapping[str, nn.Parameter]
    model: str
    precision: Precision
    is_cached: bool
    names: Callable[[int], Mapping[str, Sequence[str]]]
    batches: Callable[[int], Iterable[Microbatch]]
    timesteps: Callable[[int], Sequence[int]]

    def investigate(self, facts: StepFacts) -> tuple[BrokenStep, UserError]:
        """Return the event of a broken step, and its cause as a problem with what to do."""
        step = facts.number - 1
        names = self.names(step)
        prompts = [f'"{prompt}"' for prompt in names.get("prompts", ())]
        cause, what, remedy = self._cause(facts, names.get("images", prompts))
        problem = UserError(f"step {facts.number}: {what}", _KEPT, remedy)
        event = BrokenStep(
            step=facts.number,
            images=list(names.get("images", ())),
            prompts=list(names.get("prompts", ())),
            timesteps=list(self.timesteps(step)),
            losses=[loss if math.isfinite(loss) else None for loss in facts.losses],
            gradient_norm=facts.norm if math.isfinite(facts.norm) else None,
            cause=cause,
            message=str(problem),
        )
        return event, problem

    def _cause(self, facts: StepFacts, images: Sequence[str]) -> tuple[Cause, str, str]:
        """Return the cause in one word and as a sentence, and what to do."""
        lower = "Lower the learning rate (optimizer.lr)"
        finer = _FINER[self.precision]
        other = f", or train in {finer} (hardware.precision)" if finer else ""
        broken_weights = first_broken(self.trained.items())
        # Training does not change weights in a broken step: in the first one they are the model's.
        if found := self._base_problem or (broken_weights if facts.number == 1 else ""):
            again = f"Download {self.model} again, or choose another model (model.path)."
            return "model", f"the base model {self.model} holds {found}", again
        if found := broken_weights:
            back = "Delete the newest checkpoints, resume, and lower the learning rate."
            return "weights", f"the trained weights hold {found}", back
        if data := self._broken_data(facts.number - 1, images):
            return "data", *data
        if broken := [n for n, loss in enumerate(facts.losses) if not math.isfinite(loss)]:
            of = ", ".join(images[n] for n in broken if n < len(images))
            of = f" of {of}" if len(broken) < len(facts.losses) and of else ""
            return "loss", f"the loss{of} is {facts.losses[broken[0]]}", f"{lower}{other}."
        names = {weight: name for name, weight in self.trained.items()}
        bad = [names.get(weight, "?") for weight, norm in facts.norms if not math.isfinite(norm)]
        if not bad:
            return "gradient", f"the norm of the gradient is {facts.norm}", f"{lower}{other}."
        # The backward pass goes from the output to the input.
        where = f"{bad[-1]}, the first in the backward pass, and {len(bad) - 1} more"
        return (
            "gradient",
            f"the gradient of {where if len(bad) > 1 else bad[-1]} is not finite",
            f"{lower}{other}.",
        )

    @cached_property
    def _base_problem(self) -> str:
        return first_broken(self._base_weights())

    def _base_weights(self) -> Iterator[tuple[str, Tensor]]:
        trained = set(self.trained.values())
        for component, network in self.components.items():
            for name, weight in network.named_parameters():
                if weight not in trained:
                    yield f"{component}.{name}", weight

    def _broken_data(self, step: int, images: Sequence[str]) -> tuple[str, str] | None:
        """Return which input of a step is not finite, and what to do; None if all are."""
        for batch in self.batches(step):
            if not isinstance(batch, Batch):
                return None  # prompts, whose images are generated in the step
            names = [images[position] for position in batch.positions]
            if rows := _broken_rows(batch.moments.mean) + _broken_rows(batch.moments.std):
                return f"the latents of {names[rows[0]]} hold NaN or infinity", self._data_remedy()
            if batch.conditioning is not None and (rows := _broken_rows(batch.conditioning.hidden)):
                what = f"the encoded caption of {names[rows[0]]} holds NaN or infinity"
                return what, "Delete the cache folder, so that captions are encoded again."
        return None

    def _data_remedy(self) -> str:
        if self.is_cached:
            return "Delete the cache folder, so that images are encoded again, or leave it out."
        if self.precision == "fp16":
            return (
                "The VAE overflows in fp16: use one that is made for fp16, or bf16 or fp32"
                " (hardware.precision)."
            )
        return "Leave the image out, or choose another VAE."


def _broken_rows(values: Tensor) -> list[int]:
    finite = values.detach().flatten(1).isfinite().all(dim=1)
    return [row for row, is_finite in enumerate(finite.tolist()) if not is_finite]
