"""Reward training without a gradient of the reward: what scores best is learnt by denoising."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from modules import seeds
from modules.data.prompts import frames_of
from modules.interfaces import Batch, LatentMoments, Loss, Objective, Probe, PromptBatch
from modules.objectives.candidate_files import Round, Rounds
from modules.objectives.candidates import Candidates
from onetrainer.seeds import shuffled

ORDER = "kept-order"
"""What a draw is for: the order in which a round's kept pictures are learnt."""


def _all(step: int) -> int:
    return step


@dataclass
class BestOfN:
    """The denoising of those of the model's own pictures that score best (Dong et al. 2023,
    arXiv:2304.06767, RAFT; of selection alone Karthik et al. 2023, arXiv:2305.13308).

    A round begins with every so many steps: candidates are drawn by the model as it is then, and
    the best of each prompt are kept, in `rounds` before anything is learnt from them. The steps of
    the round learn these by `denoising`, all in an order of their own, then all again in another.
    A microbatch of the user's pictures is learnt by `denoising` as well.

    steps: of a round. rounds: None keeps a round in memory alone. drawn_before: how many of the
    steps before one are not on the user's pictures, so that no kept picture's turn is left out.
    """

    candidates: Candidates
    denoising: Objective[Batch]
    steps: int
    rounds: Rounds | None
    drawn_before: Callable[[int], int] = _all
    _number: int = field(default=-1, init=False)
    _round: Round | None = field(default=None, init=False)

    def loss(self, batch: Batch | PromptBatch, *, seed: int, step: int) -> Loss:
        """The loss of a microbatch; to be called under the engine's autocast.

        The prompts of the batch do not count, but their places in the step do: each learns one of
        the pictures that are kept. `per_item` is their denoising loss. The scores are those of as
        many candidates, prompt by prompt in turn: of what was kept they would tell more than the
        model can do.
        """
        if isinstance(batch, Batch):
            return self.denoising.loss(batch, seed=seed, step=step)
        number = step // self.steps
        since = self.drawn_before(step) - self.drawn_before(number * self.steps)
        made = self._begun(number, seed=seed, step=step)
        count = len(batch.step_prompts)
        turns = [since * count + position for position in range(count)]
        order = [self._picked(made, turn, seed=seed, number=number) for turn in turns]
        told = self.denoising.loss(self._trained(made, order, batch), seed=seed, step=step)
        own = [turns[position] for position in batch.positions]
        scores = {name: _in_turn(each, own) for name, each in made.scores.items()}
        return Loss(told.value, told.per_item, scores)

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """Raises whatever that of `denoising` raises."""
        return self.denoising.validation(batch, probe)

    def _begun(self, number: int, *, seed: int, step: int) -> Round:
        """The round of a step, which is drawn now if nobody has yet."""
        if self._round is None or self._number != number:
            found = self.rounds.get(number) if self.rounds else None
            if found is not None:
                self._require_wanted(found, number)
            else:
                found = self.candidates.drawn(number, seed=seed, step=step)
                if self.rounds:
                    self.rounds.add(number, found)
            self._number, self._round = number, found
        return self._round

    def _require_wanted(self, found: Round, number: int) -> None:
        """Raises UserError for a round that the config does not ask for."""
        candidates, section = self.candidates, self.candidates.section
        is_wanted = (
            found.prompts == candidates.prompts_of(number)
            and found.kept == min(section.kept_per_prompt, section.candidates_per_prompt)
            and found.latents.shape[1:] == candidates.shape
        )
        if self.rounds and not is_wanted:
            raise self.rounds.unlike(number)

    def _picked(self, made: Round, turn: int, *, seed: int, number: int) -> int:
        """The place of the picture whose turn it is among those that are kept."""
        again, place = divmod(turn, len(made.latents))
        derived = seeds.derive(seed, ORDER, number, again)
        return shuffled(range(len(made.latents)), derived)[place]

    def _trained(self, made: Round, order: list[int], batch: PromptBatch) -> Batch:
        """The kept pictures of a microbatch. order: those of the whole step, by position."""
        prompts = [made.prompts[place // made.kept] for place in order]
        own = [prompts[position] for position in batch.positions]
        latents = made.latents[[order[position] for position in batch.positions]]
        texts = self.candidates.prompts.texts
        return Batch(
            moments=LatentMoments(latents, torch.zeros_like(latents)),
            captions=tuple(own),
            step_captions=tuple(prompts),
            conditioning=None if texts is None else texts.together(own, among=prompts)[0],
            frames=frames_of(self.candidates.prompts.size, len(own)),
            positions=batch.positions,
            weight=batch.weight,
        )


def _in_turn(scores: Tensor, turns: list[int]) -> Tensor:
    """Scores, (P, n), by turns: the first of every prompt, then the second of every prompt …"""
    flat = scores.T.flatten()
    return flat[[turn % len(flat) for turn in turns]]
