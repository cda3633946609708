"""Best of n: what is drawn, what of it is kept, and how it is learnt."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from modules import seeds
from modules.assembly.prompts import MixedBatches
from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.interfaces import REWARD, LatentMoments
from modules.methods.adapters.adapters import Adapters
from modules.objectives.best_of_n import BestOfN, _shuffled
from modules.objectives.candidate_files import RoundFiles
from modules.objectives.candidates import Candidates
from modules.objectives.denoising import Denoising
from modules.rewards.mixer import Mixer, NamedReward
from modules.sampling.rollout import untrained
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.rewards.algorithms import BestOfN as Section
from onetrainer.errors import UserError
from tests import tiny
from tests.adapters import section as adapter_section
from tests.adapters import shake
from tests.batches import batch_of, frames, rollout_of
from tests.managed import Calls

CPU = torch.device("cpu")
SEED, STEPS = 5, 2
PROMPTS = ("a cat", "a dog on a very long leash in the park", "two birds")
SECTION = Section(
    candidates_per_prompt=3, kept_per_prompt=1, prompts_per_round=2, steps_per_round=4
)


class Mean(nn.Module):
    """How bright an image is, by no gradient; not a number for the images that are said."""

    has_gradient = False

    def __init__(self, *, broken=()) -> None:
        super().__init__()
        self.broken, self.seen = set(broken), 0

    def extra_modules(self):
        return self

    def score(self, images, prompts):
        scores = images.mean(dim=(1, 2, 3))
        for row in range(len(scores)):
            if self.seen in self.broken:
                scores[row] = torch.nan
            self.seen += 1
        return scores


@pytest.fixture(scope="module")
def family():
    """Of tests that change nothing about it."""
    return tiny.family()


def best_of_n(
    family, *, rounds=None, reward=None, section=SECTION, encoded=True, cut=(2, 2), **more
):
    """The objective over a tiny family. cut: batch size and accumulation."""
    every = (EMPTY, *PROMPTS)
    prompts = PromptBatches(
        PROMPTS, EncodedPrompts.of(family, every) if encoded else None, *cut, SEED, (64, 64)
    )
    mixer = Mixer([NamedReward("mean", reward or Mean(), normalize=False)])
    rollout = rollout_of(family, steps=STEPS)
    candidates = Candidates(family, section, mixer, rollout, prompts, **more)
    denoising = Denoising(family, section=DenoisingSection(), device=CPU)
    return BestOfN(candidates, denoising, section.steps_per_round, rounds)


def steps_of(objective, *steps):
    """Every microbatch's loss of some steps, after each other."""
    return [
        objective.loss(batch, seed=SEED, step=step)
        for step in steps
        for batch in objective.candidates.prompts.at(step)
    ]


def drawn_alone(objective, number, place, candidate):
    """A candidate's finished latents, drawn by itself."""
    own = objective.candidates
    prompts = own.prompts_of(number)
    texts, empty = own.prompts.texts.conditioning([prompts[place]], among=prompts)

    def normal(purpose, *position):
        generator = seeds.generator(SEED, purpose, number, place, candidate, *position)
        return torch.randn(4, 8, 8, generator=generator)

    with torch.no_grad():
        return own.rollout.generate(
            normal("candidate-start")[None],
            conditioning=texts,
            empty=empty,
            time_ids=frames(1),
            trajectories=[untrained(STEPS)],
            noise=lambda _, step: normal("candidate-noise", step),
        )


@pytest.mark.parametrize("name", [pytest.param("sd15", marks=pytest.mark.long), "sdxl"])
def test_of_each_prompt_those_are_kept_that_score_best(name):
    objective = best_of_n(
        tiny.family(name), section=SECTION.model_copy(update={"kept_per_prompt": 2})
    )
    number = 1
    with torch.no_grad():
        made = objective.candidates.generate(number, seed=SEED, step=4)
    batches = replace(objective.candidates.prompts, batch_size=2, accumulation=1)
    assert made.prompts == batches.of_step(number)
    for place in range(2):
        alone = [drawn_alone(objective, number, place, one) for one in range(3)]
        with torch.no_grad():
            brightness = [
                float((objective.candidates.family.decode_latents(one) + 1).mean() / 2)
                for one in alone
            ]
        # Alone or in a batch they differ by rounding.
        torch.testing.assert_close(made.scores[REWARD][place].tolist(), brightness)
        first, second, _ = sorted(range(3), key=brightness.__getitem__, reverse=True)
        expected = torch.cat([alone[first], alone[second]])
        kept = made.latents[2 * place : 2 * place + 2]
        torch.testing.assert_close(kept, expected, atol=1e-4, rtol=1e-4)


def test_a_step_trains_on_the_kept_images_as_if_they_were_the_users(family):
    objective = best_of_n(family, cut=(2, 1))
    (found,) = steps_of(objective, 5)
    made = objective._round
    assert made.step == 5  # round 1 begins with step 4: nobody had drawn it
    order = [_shuffled(made, turn, seed=SEED, number=1) for turn in (2, 3)]
    prompts = [made.prompts[place] for place in order]
    batch = replace(
        batch_of(family, (0, 1), weight=0.5),
        moments=LatentMoments(made.latents[order], torch.zeros(2, 4, 8, 8)),
        captions=tuple(prompts),
        step_captions=tuple(prompts),
        conditioning=family.encode_text(prompts),
    )
    expected = objective.denoising.loss(batch, seed=SEED, step=5)
    torch.testing.assert_close(found.value, expected.value)
    torch.testing.assert_close(found.per_item, expected.per_item)


def test_each_kept_image_is_trained_as_often_and_each_candidate_reported_in_order(family):
    objective = best_of_n(family, cut=(1, 1))
    told = [float(loss.scores[REWARD]) for loss in steps_of(objective, 0, 1, 2, 3)]
    made = objective._round
    picked = Counter(_shuffled(made, turn, seed=SEED, number=0) for turn in range(12))
    assert picked == {0: 6, 1: 6}
    totals = made.scores[REWARD]
    assert told == [float(totals[turn % 2, turn // 2]) for turn in range(4)]


def test_steps_on_the_users_images_skip_no_selected_image(family):
    """Every other step is one; a round has four steps, and so two that learn what was drawn."""
    mixed = MixedBatches(None, None, denoising_fraction=0.5, is_leaving=lambda: False)
    objective = replace(
        best_of_n(family, cut=(1, 1)), reward_steps_before=mixed.reward_steps_before
    )
    for first in (0, 4):
        own = [step for step in range(first, first + 4) if not mixed.is_denoising_step(step)]
        told = [float(loss.scores[REWARD]) for loss in steps_of(objective, *own)]
        totals = objective._round.scores[REWARD]
        assert told == [float(totals[0, 0]), float(totals[1, 0])]


@pytest.mark.parametrize("encoded", [True, False])
def test_a_step_is_the_same_however_it_is_cut(family, encoded):
    def told(cut):
        objective = best_of_n(family, cut=cut, encoded=encoded)
        with torch.no_grad():
            losses = steps_of(objective, 1)
        scores = torch.cat([loss.scores[REWARD] for loss in losses])
        per_item = torch.cat([loss.per_item for loss in losses])
        return sum(loss.value for loss in losses), per_item, scores

    for whole, parts in zip(told((4, 1)), told((1, 4)), strict=True):
        torch.testing.assert_close(whole, parts, atol=1e-5, rtol=1e-5)


def test_a_resumed_round_is_read_and_bit_for_bit_the_same(tmp_path, family):
    before = best_of_n(family, rounds=RoundFiles(tmp_path, completed_steps=0))
    first = steps_of(before, 0, 1, 4)
    (tmp_path / "round-000001.safetensors.part").touch()
    calls = Calls(family.unet)
    after = best_of_n(family, rounds=RoundFiles(tmp_path, completed_steps=4))
    # Round 1 was drawn in step 4, which has not been made: it is to be drawn anew.
    assert [path.name for path in tmp_path.iterdir()] == ["round-000000.safetensors"]
    again = steps_of(after, 0, 1)
    assert calls.count == 4  # microbatches of two steps; nothing is drawn
    again += steps_of(after, 4)
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.value, other.value)
        assert torch.equal(one.scores[REWARD], other.scores[REWARD])


def test_rounds_are_generated_by_the_model_as_it_has_become():
    family = tiny.family()
    method = Adapters.attach(family, adapter_section("lora", dropout=0.5), seed=0)
    objective = best_of_n(family, merged=method.merged)
    method.train(True)
    steps_of(objective, 0)
    base = objective._round
    shake(method)
    steps_of(objective, 3)
    assert objective._round is base  # within a round nothing is drawn
    steps_of(objective, 4)
    method.train(False)  # without dropout
    beside = replace(objective.candidates, merged=torch.no_grad).generate(1, seed=SEED, step=4)
    made = objective._round
    torch.testing.assert_close(made.scores[REWARD], beside.scores[REWARD], atol=1e-4, rtol=1e-4)
    with method.base_model():
        plain = objective.candidates.generate(1, seed=SEED, step=4)
    assert (plain.scores[REWARD] - made.scores[REWARD]).abs().max() > 1e-3


def test_a_score_that_is_no_number_is_never_kept_and_reported_where_there_is_no_other(family):
    objective = best_of_n(family, reward=Mean(broken=[0, 4]))
    made = objective.candidates.generate(0, seed=SEED, step=0)
    known = best_of_n(family).candidates.generate(0, seed=SEED, step=0)
    assert made.scores[REWARD].isnan().sum() == 2
    best = known.scores[REWARD].clone()
    best[0, 0] = best[1, 1] = -1
    torch.testing.assert_close(
        [float(own.nan_to_num(-1).max()) for own in made.scores[REWARD]], best.amax(1).tolist()
    )
    broken = best_of_n(family, reward=Mean(broken=[3, 4, 5]))
    with pytest.raises(
        UserError, match=f'"{made.prompts[1]}": the reward .* is not a finite number'
    ):
        broken.candidates.generate(0, seed=SEED, step=0)


def test_files_that_do_not_fit_are_reported(tmp_path, family):
    steps_of(best_of_n(family, rounds=RoundFiles(tmp_path, completed_steps=0)), 0)
    more = SECTION.model_copy(update={"kept_per_prompt": 2})
    other = best_of_n(family, section=more, rounds=RoundFiles(tmp_path, completed_steps=1))
    with pytest.raises(UserError, match=r"round-000000.*generated from other prompts"):
        steps_of(other, 0)
    (tmp_path / "round-000000.safetensors").write_bytes(b"no tensors")
    with pytest.raises(UserError, match=r"round-000000.*cannot be read"):
        RoundFiles(tmp_path, completed_steps=1)


def test_what_is_generated_is_reported_and_the_callback_may_end_it(family):
    told = []

    def tell(*counts):
        told.append(counts)
        if len(told) == 2:
            raise KeyboardInterrupt

    objective = best_of_n(family, report=tell)
    with pytest.raises(KeyboardInterrupt):
        steps_of(objective, 5)
    assert told == [(5, 0, 6), (5, 2, 6)]


def test_images_of_the_users_are_trained_and_measured_by_denoising(family):
    denoising = SimpleNamespace(loss=lambda *_, **__: "learnt", validation=lambda *_: "measured")
    objective = replace(best_of_n(family), denoising=denoising)
    batch = batch_of(family, (0,))
    assert objective.loss(batch, seed=0, step=0) == "learnt"
    assert objective.validation(batch, None) == "measured"
