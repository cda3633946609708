"""The pictures of a round of best of n: drawn by the model as it is, scored, and the best kept."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from modules import seeds
from modules.data.prompts import EMPTY, PromptBatches, frames_of
from modules.interfaces import REWARD, REWARD_PREFIX, Conditioning, Family
from modules.memory.to_device import sent
from modules.objectives.candidate_files import Round
from modules.rewards.mixer import Mixer
from modules.sampling.rollout import Rollout, untrained
from modules.sampling.sampler import LATENT_CHANNELS, LATENT_SCALE
from onetrainer.config.rewards.algorithms import BestOfN as Section
from onetrainer.errors import UserError

START, NOISE = "candidate-start", "candidate-noise"
"""What draws are for: a drawing's first noise, and the noise of its steps."""


@dataclass(frozen=True)
class _Candidate:
    """place: of its prompt in the round. number: from 0, among those of the prompt."""

    place: int
    number: int


@dataclass(frozen=True)
class Candidates:
    """Draws rounds.

    mixer: the rewards as they are at the time. prompts: the run's; a round takes the next so many
    of them in their order, and draws as many pictures at once as a microbatch has. merged: of the
    method. tell: told the step that waits, how many of a round's pictures are drawn, and how many
    there are to be; may raise, to end it.
    """

    family: Family
    section: Section
    mixer: Callable[[], Mixer]
    rollout: Rollout
    prompts: PromptBatches
    merged: Callable[[], AbstractContextManager[None]] = nullcontext
    tell: Callable[[int, int, int], None] = lambda *_: None

    def prompts_of(self, number: int) -> tuple[str, ...]:
        """The prompts of a round."""
        each = replace(self.prompts, batch_size=1, accumulation=self.section.prompts_per_round)
        return each.of_step(number)

    @property
    def shape(self) -> torch.Size:
        """That of a picture's latents, (4, h, w)."""
        width, height = self.prompts.size
        return torch.Size((LATENT_CHANNELS, height // LATENT_SCALE, width // LATENT_SCALE))

    @torch.no_grad()
    def drawn(self, number: int, *, seed: int, step: int) -> Round:
        """A round, before a step; to be called under the engine's autocast.

        Each picture depends on (seed, round, place of its prompt, its own number) and the weights,
        up to rounding on nothing else. Raises UserError if a prompt has too few pictures whose
        reward is a number.
        """
        prompts, each = self.prompts_of(number), self.section.candidates_per_prompt
        wanted = [_Candidate(place, one) for place in range(len(prompts)) for one in range(each)]
        latents: list[Tensor] = []
        scores: dict[str, list[Tensor]] = {}
        with self.merged():
            texts, empty = self._texts(prompts)
            for start in range(0, len(wanted), self.prompts.batch_size):
                self.tell(step, start, len(wanted))
                some = wanted[start : start + self.prompts.batch_size]
                rows = [candidate.place for candidate in some]
                finished = self._finished(some, _taken(texts, rows), empty, (seed, number))
                images = self.rollout.decode(finished)
                scored = self.mixer().score(images, [prompts[row] for row in rows])
                latents.append(finished)
                scores.setdefault(REWARD, []).append(scored.total)
                for name, own in scored.by_name.items():
                    scores.setdefault(REWARD_PREFIX + name, []).append(own)
        self.tell(step, len(wanted), len(wanted))
        by_name = {name: torch.cat(own).view(len(prompts), each) for name, own in scores.items()}
        best = self._best(by_name[REWARD], prompts)
        # Waits for the device, once a round.
        kept = torch.cat(latents)[best.flatten()].float().cpu()
        return Round(
            step, prompts, kept, {name: own.float().cpu() for name, own in by_name.items()}
        )

    def _best(self, totals: Tensor, prompts: Sequence[str]) -> Tensor:
        """The places of each prompt's best pictures among all, (P, kept), the best first.

        totals: (P, n).
        """
        known = totals.nan_to_num(nan=-torch.inf)
        # Stable, so that of equals the first counts, on every device.
        order = known.sort(dim=1, descending=True, stable=True)
        kept = min(self.section.kept_per_prompt, self.section.candidates_per_prompt)
        if not totals.is_meta:
            _require_numbers(order.values[:, :kept], prompts)
        firsts = torch.arange(len(prompts), device=totals.device)[:, None] * totals.shape[1]
        return firsts + order.indices[:, :kept]

    def _finished(
        self,
        some: Sequence[_Candidate],
        conditioning: Conditioning,
        empty: Conditioning,
        position: tuple[int, int],
    ) -> Tensor:
        """Finished latents, (n, 4, h, w). position: the seed and the round."""
        seed, number = position

        def noise(place: int, step: int) -> Tensor:
            own = some[place]
            return self._normal(seed, NOISE, number, own.place, own.number, step)

        starts = [self._normal(seed, START, number, own.place, own.number) for own in some]
        return self.rollout.draw(
            torch.stack(starts),
            conditioning=conditioning,
            empty=empty,
            frames=frames_of(self.prompts.size, len(some)),
            courses=[untrained(self.rollout.steps)] * len(some),
            noise=noise,
        )

    def _normal(self, seed: int, purpose: str, *position: int) -> Tensor:
        return torch.randn(self.shape, generator=seeds.generator(seed, purpose, *position))

    def _texts(self, prompts: Sequence[str]) -> tuple[Conditioning, Conditioning]:
        """That of the prompts and that of none, all equally long, as the model reads them now."""
        if self.prompts.texts is not None:
            return self.prompts.texts.together(prompts, among=prompts)
        both = self.family.encode_text((*prompts, EMPTY))
        return _taken(both, list(range(len(prompts)))), _taken(both, [len(prompts)])


def _taken(conditioning: Conditioning, rows: list[int]) -> Conditioning:
    """That of some pictures, by their places."""
    places = sent(torch.tensor(rows), conditioning.hidden.device)
    pooled = None if conditioning.pooled is None else conditioning.pooled[places]
    return Conditioning(conditioning.hidden[places], pooled)


def _require_numbers(best: Tensor, prompts: Sequence[str]) -> None:
    """best: (P, kept), each prompt's highest totals. Raises UserError for those without any."""
    is_known = best.isfinite().all(dim=1).tolist()
    for prompt, known in zip(prompts, is_known, strict=True):
        if not known:
            raise UserError(
                f'"{prompt}": the reward of what was drawn is not a number',
                "As many pictures with a reward as are to be kept were expected",
                "Look at the rewards (objective.rewards); if the model draws nothing but noise by"
                " now, go back to an earlier checkpoint and lower the learning rate.",
            )
