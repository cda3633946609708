"""A step that is recorded once for each shape of its inputs, and replayed without Python.

With a single microbatch the whole step is one recording. With several, each of them is one, which
adds to gradients in fixed memory, and the update is another. Either way the operations are those of
`EagerStep`, in the same order, and so are the numbers. What a recording reads stays at its place:
weights, optimizer state, tables, and inputs that are copied into fixed memory before each replay.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from modules.data.loader import Loader
from modules.interfaces import Loss
from modules.memory.tensors import form_of, map_tensors, on_device, tensors_in
from modules.objectives.inputs import DenoisingInputs, Inputs, PromptInputs
from modules.optim.step_check import StepCheck
from modules.stepping.eager import EagerStep, StepResult, seed_dropout
from modules.stepping.gradients import StaticGradients
from modules.stepping.recordings import MOST, Recorder, Recordings


@dataclass(frozen=True)
class _Whole:
    """The result of a step with a single microbatch."""

    loss: Loss
    check: StepCheck


class CapturedStep:
    """Computes a step as `EagerStep` does, by recordings where that is possible.

    Args:
        eager: The step to record.
        loader: Its inputs.
        recorder: Records on the engine's device.
        records_update: Whether the optimizer's step can be recorded.
        report: Called once for each reason why some steps are not recorded.
    """

    def __init__(
        self,
        eager: EagerStep,
        loader: Loader[Inputs],
        recorder: Recorder,
        *,
        records_update: bool,
        report: Callable[[str], None],
    ) -> None:
        self._eager = eager
        self._engine = eager.engine
        self._loader = loader
        self._recordings = Recordings(recorder)
        self._records_update = records_update
        self._report = report
        self._reported: set[str] = set()
        self._gradients = StaticGradients(eager.engine.weights)
        self._inputs: dict[Hashable, Inputs] = {}
        # Of the losses of a step's microbatches.
        self._total = torch.zeros((), device=eager.engine.device)

    def __call__(self, step: int, *, seed: int) -> StepResult:
        coming = iter(self._loader.at(step))
        first = next(coming)
        if self._records_update and not self._is_refused(first):
            rest = [*coming]
            if not rest:
                return self._whole(step, first, seed)
            coming = iter(rest)
        return self._in_parts(step, chain([first], coming), seed)

    def _whole(self, step: int, drawn: Inputs, seed: int) -> StepResult:
        seed_dropout(seed, step, 0)
        work = partial(self._compute_whole, self._fixed(drawn))
        self._eager.state.is_whole = False
        done = self._recordings.run(self._key("step", drawn), work)
        return StepResult([done.loss], self._after_update(done.check))

    def _compute_whole(self, inputs: Inputs) -> _Whole:
        loss = self._differentiate(inputs)
        self._engine.add_loss(loss.value)
        return _Whole(loss, self._engine.update_unread())

    def _in_parts(self, step: int, microbatches: Iterable[Inputs], seed: int) -> StepResult:
        self._gradients.begin()
        losses = []
        for number, drawn in enumerate(microbatches):
            seed_dropout(seed, step, number)
            losses.append(self._microbatch(drawn))
        self._gradients.learn()
        return StepResult(losses, self._update())

    def _microbatch(self, drawn: Inputs) -> Loss:
        if not self._gradients.are_set() or self._is_refused(drawn):
            return self._eager.microbatch(drawn)
        work = partial(self._differentiate, self._fixed(drawn))
        loss = self._recordings.run(self._key("microbatch", drawn), work)
        self._engine.add_loss(loss.value)
        return loss

    def _differentiate(self, inputs: Inputs) -> Loss:
        self._eager.method.begin_microbatch()
        with self._engine.autocast():
            loss = self._eager.objective.compute(inputs)
        self._engine.differentiate(loss.value)
        return replace(loss, value=loss.value.detach())

    def _update(self) -> StepCheck:
        key = "update", self._engine.frozen
        if not (
            self._records_update and self._gradients.are_set() and self._recordings.has_room(key)
        ):
            return self._eager.update()
        self._engine.exchange_loss(self._total)
        self._eager.state.is_whole = False
        return self._after_update(self._recordings.run(key, self._engine.update_unread))

    def _after_update(self, check: StepCheck) -> StepCheck:
        self._eager.method.after_step()
        return self._engine.sampled(check)

    def _fixed(self, drawn: Inputs) -> Inputs:
        """Copy inputs into the fixed memory of their form, and return it."""
        form = form_of(drawn)
        fixed = self._inputs.get(form)
        if fixed is None:
            fixed = map_tensors(on_device(drawn, self._engine.device), Tensor.clone)
            self._inputs[form] = fixed
        else:
            for memory, given in zip(tensors_in(fixed), tensors_in(drawn), strict=True):
                memory.copy_(given, non_blocking=True)
        return fixed

    def _key(self, part: str, drawn: Inputs) -> Hashable:
        return part, form_of(drawn), self._engine.frozen

    def _is_refused(self, drawn: Inputs) -> bool:
        """Return whether a microbatch is not recorded; report why, once for each reason."""
        keys = [self._key(part, drawn) for part in ("step", "microbatch")]
        if isinstance(drawn, PromptInputs):
            reason = "steps that generate images"
        elif isinstance(drawn, DenoisingInputs) and drawn.base is not None:
            reason = "images for which the base model predicts"
        elif not any(map(self._recordings.has_room, keys)):
            reason = f"batches of further shapes than the first {MOST}"
        else:
            return False
        if reason not in self._reported:
            self._reported.add(reason)
            self._report(f"not captured (hardware.capture): {reason}")
        return True
