"""Best-of-n selection: the current model generates candidates, and the best scored are kept."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import product

import torch
from torch import Tensor

from modules import seeds
from modules.data.prompts import EMPTY, PromptBatches, time_ids_of
from modules.interfaces import REWARD, REWARD_PREFIX, Conditioning, Family
from modules.memory.to_device import to_device
from modules.objectives.candidate_files import Round
from modules.rewards.mixer import Mixer
from modules.sampling.rollout import Rollout, untrained
from modules.world.world import World, alone
from onetrainer.config.rewards.algorithms import BestOfN as Section
from onetrainer.errors import UserError

START, NOISE = "candidate-start", "candidate-noise"
"""Seed purposes: initial noise, and the noise of steps."""


_Candidate = tuple[int, int]
"""The index of its prompt in the round; its number, from 0, among those of the prompt."""


@dataclass(frozen=True)
class Candidates:
    """Generates candidates in rounds, scores them and keeps the best of each prompt.

    mixer: the rewards. prompts: the run's; a round takes the next prompts in
    their order, and generates as many images at once as a microbatch has. merged: of the method.
    report: called with the coming step, how many of a round's images are generated, and their
    number; may raise, to end the run. world: shares them out.
    """

    family: Family
    section: Section
    mixer: Mixer
    rollout: Rollout
    prompts: PromptBatches
    merged: Callable[[], AbstractContextManager[None]] = nullcontext
    report: Callable[[int, int, int], None] = lambda *_: None
    world: World = field(default_factory=alone)

    def prompts_of(self, number: int) -> tuple[str, ...]:
        """Return the prompts of a round."""
        each = replace(self.prompts, batch_size=1, accumulation=self.section.prompts_per_round)
        return each.of_step(number)

    @property
    def shape(self) -> torch.Size:
        """Shape of an image's latents, (4, h, w)."""
        width, height = self.prompts.size
        return torch.Size(self.family.spec.latent_shape(width, height))

    @torch.no_grad()
    def generate(self, number: int, *, seed: int, step: int) -> Round:
        """Generate a round before a step; call it under the engine's autocast.

        Up to rounding, each image depends only on (seed, round, index of its prompt, its own
        number) and the weights.

        Raises:
            UserError: A prompt has too few images whose reward is a finite number.
        """
        prompts, each = self.prompts_of(number), self.section.candidates_per_prompt
        candidates = list(product(range(len(prompts)), range(each)))
        size = self.prompts.batch_size
        batches = [candidates[at : at + size] for at in range(0, len(candidates), size)]
        with self.merged():
            texts, empty = self._texts(prompts)

            def generate(place: int) -> tuple[Tensor, dict[str, Tensor]]:
                rows = [prompt for prompt, _ in batches[place]]
                indices = to_device(torch.tensor(rows), texts.hidden.device)
                finished = self._latents(batches[place], texts.rows(indices), empty, (seed, number))
                images = self.rollout.decode(finished)
                scored = self.mixer.score(images, [prompts[row] for row in rows])
                named = {REWARD_PREFIX + name: each for name, each in scored.by_name.items()}
                return self._sent(finished), {
                    name: self._sent(each) for name, each in {REWARD: scored.total, **named}.items()
                }

            def before_each(place: int) -> None:
                self.report(step, place * size, len(candidates))

            made = list(self.world.map(generate, len(batches), before_each))
        latents = [finished for finished, _ in made]
        scores = {name: [each[name] for _, each in made] for name in made[0][1]}
        self.report(step, len(candidates), len(candidates))
        by_name = {name: torch.cat(all_).view(len(prompts), each) for name, all_ in scores.items()}
        best = self._best(by_name[REWARD], prompts)
        # Waits for the device, once a round.
        selected = torch.cat(latents)[best.flatten()].float().cpu()
        return Round(
            step, prompts, selected, {name: each.float().cpu() for name, each in by_name.items()}
        )

    def _sent(self, tensor: Tensor) -> Tensor:
        """Return a result for the other processes; on the CPU, if there are any."""
        return tensor if self.world.is_alone else tensor.cpu()

    def _best(self, totals: Tensor, prompts: Sequence[str]) -> Tensor:
        """Return the indices of each prompt's best images, (P, kept), the best first.

        totals: (P, n).
        """
        known = totals.nan_to_num(nan=-torch.inf)
        # Stable, so that the first of equals is selected, on every device.
        order = known.sort(dim=1, descending=True, stable=True)
        kept = min(self.section.kept_per_prompt, self.section.candidates_per_prompt)
        if not totals.is_meta:
            _require_numbers(order.values[:, :kept], prompts)
        firsts = torch.arange(len(prompts), device=totals.device)[:, None] * totals.shape[1]
        return firsts + order.indices[:, :kept]

    def _latents(
        self,
        batch: Sequence[_Candidate],
        conditioning: Conditioning,
        empty: Conditioning,
        position: tuple[int, int],
    ) -> Tensor:
        """Generate finished latents, (n, 4, h, w). position: the seed and the round."""
        seed, number = position

        def noise(index: int, step: int) -> Tensor:
            return self._normal(seed, NOISE, number, *batch[index], step)

        starts = [self._normal(seed, START, number, *each) for each in batch]
        return self.rollout.generate(
            torch.stack(starts),
            conditioning=conditioning,
            empty=empty,
            time_ids=time_ids_of(self.prompts.size, len(batch)),
            trajectories=[untrained(self.rollout.steps)] * len(batch),
            noise=noise,
        )

    def _normal(self, seed: int, purpose: str, *position: int) -> Tensor:
        return torch.randn(self.shape, generator=seeds.generator(seed, purpose, *position))

    def _texts(self, prompts: Sequence[str]) -> tuple[Conditioning, Conditioning]:
        """Encode the prompts and the empty prompt to one length, with the current text encoders."""
        if self.prompts.texts is not None:
            return self.prompts.texts.conditioning(prompts, among=prompts)
        both = self.family.encode_text((*prompts, EMPTY))
        return both.rows(slice(-1)), both.rows(slice(-1, None))


def _require_numbers(best: Tensor, prompts: Sequence[str]) -> None:
    """Raise UserError for prompts without enough finite rewards. best: (P, kept), the highest."""
    are_finite = best.isfinite().all(dim=1).tolist()
    for prompt, is_finite in zip(prompts, are_finite, strict=True):
        if not is_finite:
            raise UserError(
                f'"{prompt}": the reward of the generated images is not a finite number',
                "Expected finite rewards for at least as many images as are kept per prompt",
                "Check the rewards (objective.rewards); if the model now generates only noise,"
                " go back to an earlier checkpoint and lower the learning rate.",
            )
