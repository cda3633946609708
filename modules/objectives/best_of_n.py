"""Reward training without a gradient of the reward: denoising of the best of n generated images."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from modules import seeds
from modules.data.prompts import time_ids_of
from modules.interfaces import Batch, LatentMoments, Loss, Microbatch, Probe, PromptBatch
from modules.objectives.candidate_files import Round, RoundFiles
from modules.objectives.candidates import Candidates
from modules.objectives.inputs import Inputs, Objective, PromptInputs, loss_of
from onetrainer.seeds import shuffled

ORDER = "kept-order"
"""Seed purpose: the order in which a round's selected images are trained on."""


@dataclass
class BestOfN:
    """Denoising of those of the model's own images that score best (Dong et al. 2023,
    arXiv:2304.06767, RAFT; selection alone: Karthik et al. 2023, arXiv:2305.13308).

    Rounds have a fixed number of steps. At the start of one the current model generates
    candidates, and the best of each prompt are selected, and stored in `rounds` before training on
    them. The steps of the round train on these by `denoising`, in a shuffled order, repeated with
    another one. A microbatch of the user's images trains by `denoising` as well.

    steps: of a round. rounds: None keeps a round in memory only. reward_steps_before: how many of
    the steps before one are not on the user's images, so that no selected image is skipped.
    """

    candidates: Candidates
    denoising: Objective
    steps: int
    rounds: RoundFiles | None
    device: torch.device
    reward_steps_before: Callable[[int], int] = lambda step: step
    _number: int = field(default=-1, init=False)
    _round: Round | None = field(default=None, init=False)

    def draw(self, batch: Microbatch, *, seed: int, step: int) -> Inputs:
        if isinstance(batch, Batch):
            return self.denoising.draw(batch, seed=seed, step=step)
        return PromptInputs(batch, seed, step)

    def compute(self, inputs: Inputs) -> Loss:
        """Compute the loss of a microbatch; call it under the engine's autocast.

        The prompts of the batch are ignored; each of its positions in the step trains on one of
        the selected images. `per_item` is their denoising loss. The scores are those of as many
        candidates, prompt by prompt in turn: those of the selected ones would overstate the model.
        """
        if not isinstance(inputs, PromptInputs):
            return self.denoising.compute(inputs)
        batch, seed, step = inputs.batch, inputs.seed, inputs.step
        number = step // self.steps
        since = self.reward_steps_before(step) - self.reward_steps_before(number * self.steps)
        current = self._round_at(number, seed=seed, step=step)
        count = len(batch.step_prompts)
        indices = [since * count + position for position in range(count)]
        order = [_shuffled(current, index, seed=seed, number=number) for index in indices]
        selected = self._batch(current, order, batch)
        loss = loss_of(self.denoising, selected, seed=seed, step=step, device=self.device)
        own = [indices[position] for position in batch.positions]
        scores = {name: _interleaved(each, own) for name, each in current.scores.items()}
        return Loss(loss.value, loss.per_item, scores)

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """Compute the validation loss of `denoising`."""
        return self.denoising.validation(batch, probe)

    def _round_at(self, number: int, *, seed: int, step: int) -> Round:
        """Return the round of a step, generating it if needed."""
        if self._round is None or self._number != number:
            # Rank 0 alone stores rounds.
            stored = self.candidates.world.agree(
                lambda: self.rounds.get(number) if self.rounds else None
            )
            current = stored[0]
            if current is not None:
                self._require_match(current, number)
            else:
                current = self.candidates.generate(number, seed=seed, step=step)
                if self.rounds:
                    self.rounds.add(number, current)
            self._number, self._round = number, current
        return self._round

    def _require_match(self, stored: Round, number: int) -> None:
        """Raise UserError if a stored round does not match the config."""
        candidates, section = self.candidates, self.candidates.section
        is_match = (
            stored.prompts == candidates.prompts_of(number)
            and stored.kept == min(section.kept_per_prompt, section.candidates_per_prompt)
            and stored.latents.shape[1:] == candidates.shape
        )
        if self.rounds and not is_match:
            raise self.rounds.mismatch_error(number)

    def _batch(self, current: Round, order: list[int], batch: PromptBatch) -> Batch:
        """Build the batch of a microbatch's selected images. order: those of the whole step."""
        prompts = [current.prompts[index // current.kept] for index in order]
        own = [prompts[position] for position in batch.positions]
        latents = current.latents[[order[position] for position in batch.positions]]
        texts = self.candidates.prompts.texts
        return Batch(
            moments=LatentMoments(latents, torch.zeros_like(latents)),
            captions=tuple(own),
            step_captions=tuple(prompts),
            conditioning=None if texts is None else texts.conditioning(own, among=prompts)[0],
            time_ids=time_ids_of(self.candidates.prompts.size, len(own)),
            positions=batch.positions,
            weight=batch.weight,
        )


def _shuffled(current: Round, index: int, *, seed: int, number: int) -> int:
    """Return the selected image at an index of the endless shuffled order."""
    repeat, place = divmod(index, len(current.latents))
    derived = seeds.derive(seed, ORDER, number, repeat)
    return shuffled(range(len(current.latents)), derived)[place]


def _interleaved(scores: Tensor, indices: list[int]) -> Tensor:
    """Return scores, (P, n), by index: the first of every prompt, then the second of each …"""
    flat = scores.T.flatten()
    return flat[[index % len(flat) for index in indices]]
