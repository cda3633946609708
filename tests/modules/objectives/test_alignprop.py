"""Reward training against what each algorithm is said to be, in float64 where it matters."""

from collections import Counter

import pytest
import torch

from modules import seeds
from modules.diffusion.draws import Draws
from modules.interfaces import ANCHOR, LAST_STEPS, REWARD, Conditioning, PromptBatch
from modules.methods.adapters.adapters import Adapters
from modules.methods.full import Full
from modules.objectives.alignprop import AlignProp
from modules.objectives.trajectories import trajectories_of
from modules.rewards.measures import Measure, brightness, color
from modules.rewards.mixer import Mixer, NamedReward
from modules.sampling.rollout import Trajectory
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.rewards import algorithms
from onetrainer.config.rewards.alignprop import AlignProp as Section
from tests import adapters, batches, exact, tiny
from tests.batches import distance, loss_of, rollout_of, some_weights, time_ids_of
from tests.close import FLOAT32, ROUNDINGS, close, near

SEED, STEP, STEPS = 3, 5, 3
PROMPTS = ("a cat", "a large dog", "a bird")
WARM = NamedReward("color", Measure(lambda images: color(images, "warm")))
MIXER = Mixer((WARM, NamedReward("brightness", Measure(brightness), is_trained=False)))


def batch_of(family, *places, is_encoded=True):
    """Some images of a step of three."""
    conditioning = empty = None
    if is_encoded:
        with torch.no_grad():
            texts = family.encode_text((*PROMPTS, ""))
        rows = [*places]
        pooled = (None, None) if texts.pooled is None else (texts.pooled[rows], texts.pooled[-1:])
        conditioning = Conditioning(texts.hidden[rows], pooled[0])
        empty = Conditioning(texts.hidden[-1:], pooled[1])
    return PromptBatch(
        prompts=tuple(PROMPTS[place] for place in places),
        step_prompts=PROMPTS,
        conditioning=conditioning,
        empty=empty,
        time_ids=time_ids_of(len(places)),
        positions=places,
        weight=1 / 3,
        size=(64, 64),
    )


def objective_of(family, algorithm=None, *, method=None, anchor=0.0, denoising=None, **rollout):
    section = Section(algorithm=algorithm or algorithms.AlignPropSteps(), keep={"anchor": anchor})
    contexts = {} if method is None else {"base_model": method.base_model, "merged": method.merged}
    return AlignProp(
        family,
        section=section,
        mixer=MIXER,
        rollout=rollout_of(family, **({"checkpoint": True} | rollout)),
        denoising=denoising,
        device=tiny.CPU,
        **contexts,
    )


@pytest.fixture(scope="module")
def family():
    """In float64; tests change nothing but which of its weights train."""
    return exact.family()


def gradient_of(objective, batch, weights):
    loss = loss_of(objective, batch, seed=SEED, step=STEP)
    return loss, torch.autograd.grad(loss.value, weights)


ALGORITHMS = {
    "random": algorithms.AlignPropSteps(),
    "draft_lv": algorithms.DraftLv(gradients_per_image=3),
    "refl": algorithms.ReFL(earliest=0.25),
    "drtune": algorithms.DRTune(trained_steps=2, early_stop=0.5),
}


FEW = ("random", "draft_lv")


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(n, marks=pytest.mark.long) for n in ALGORITHMS if n not in FEW)]
)
def test_a_step_is_the_same_however_it_is_cut_into_microbatches(family, name):
    weights = some_weights(family)
    objective = objective_of(family, ALGORITHMS[name])
    whole, expected = gradient_of(objective, batch_of(family, 0, 1, 2), weights)
    parts = [gradient_of(objective, batch_of(family, *cut), weights) for cut in ((0,), (1, 2))]
    found = [sum(each) for each in zip(*(gradients for _, gradients in parts), strict=True)]
    assert (
        distance(found, expected) < ROUNDINGS * FLOAT32
    )  # text is float32, and rounded by its batch
    for key in whole.scores:
        together = torch.cat([loss.scores[key] for loss, _ in parts])
        close(together, whole.scores[key])
    assert sum(loss.value for loss, _ in parts).item() == near(whole.value.item())


def test_the_loss_is_minus_the_trained_reward_and_reports_every_score(family):
    some_weights(family)
    loss = loss_of(
        objective_of(family, algorithms.AlignPropSteps(through="fixed", last_steps=2)),
        batch_of(family, 0, 2),
    )
    assert set(loss.scores) == {REWARD, "reward color", "reward brightness", LAST_STEPS}
    assert torch.equal(loss.scores[REWARD], loss.scores["reward color"])
    assert torch.equal(loss.per_item, -loss.scores[REWARD])
    assert loss.value.item() == near(-loss.scores[REWARD].sum().item() / 3)
    assert loss.scores[LAST_STEPS].tolist() == [2, 2]
    assert not any(score.requires_grad for score in (*loss.scores.values(), loss.per_item))


def start_of(place):
    generator = seeds.generator(SEED, "reward-start", STEP, place)
    return torch.randn(4, 8, 8, generator=generator)[None]


def noise_of(place, number):
    generator = seeds.generator(SEED, "reward-noise", STEP, place, number)
    return torch.randn(4, 8, 8, generator=generator)


def latents_by_hand(family, place, trajectory):
    """An image's latents by the documented random numbers."""
    batch = batch_of(family, place)
    return rollout_of(family).generate(
        start_of(place),
        conditioning=batch.conditioning,
        empty=batch.empty,
        time_ids=batch.time_ids,
        trajectories=[trajectory],
        noise=lambda _, number: noise_of(place, number),
    )


def warm(family, latents):
    return color((family.decode_latents(latents) + 1) / 2, "warm").sum()


def test_noise_is_a_function_of_seed_step_position_and_number(family):
    weights = some_weights(family)
    loss, found = gradient_of(
        objective_of(family, algorithms.Draft(last_steps=2)), batch_of(family, 1), weights
    )
    latents = latents_by_hand(family, 1, Trajectory((False, True, True), STEPS))
    reward = warm(family, latents)
    assert loss.per_item.item() == near(-reward.item())
    assert distance(found, torch.autograd.grad(-reward / 3, weights)) < ROUNDINGS * FLOAT32


def test_draft_lv_averages_the_gradients_of_last_steps_from_the_same_image(family):
    weights = some_weights(family)
    loss, found = gradient_of(
        objective_of(family, algorithms.DraftLv(gradients_per_image=3)),
        batch_of(family, 1),
        weights,
    )
    scheduler = exact.scheduler(family.process.settings, "epsilon", steps=STEPS)
    timestep, batch = scheduler.timesteps[-1], batch_of(family, 1)
    finished = latents_by_hand(family, 1, Trajectory((False, False, True), STEPS))
    rewards = [warm(family, finished)]
    for number in (STEPS, STEPS + 2):
        level = scheduler.alphas_cumprod[timestep]
        noise_std = noise_of(1, number)
        noisy = level.sqrt() * finished.detach() + (1 - level).sqrt() * noise_std
        asked, nothing = (
            family.predict(noisy, timestep[None], text, time_ids=batch.time_ids)
            for text in (batch.conditioning, batch.empty)
        )
        latents = scheduler.step(
            nothing + 3 * (asked - nothing),
            timestep,
            noisy,
            eta=1.0,
            variance_noise=noise_of(1, number + 1)[None],
        ).prev_sample
        rewards.append(warm(family, latents))
    assert loss.scores[REWARD].item() == near(rewards[0].item())
    expected = torch.autograd.grad(-sum(rewards) / 3 / 3, weights)
    assert distance(found, expected) < ROUNDINGS * FLOAT32


def trajectories(algorithm, steps, count=2000):
    return trajectories_of(algorithm, steps=steps, draws=Draws(SEED, STEP, tuple(range(count))))


@pytest.mark.parametrize("steps", [5, 10])
def test_the_last_steps_are_sampled_evenly_and_for_each_image(steps):
    sampled = trajectories(algorithms.AlignPropSteps(), steps)
    counts = Counter(len(trajectory.trained_steps) for trajectory in sampled)
    expected = len(sampled) / steps
    # Chi-squared of at most 9 degrees of freedom is above 30 once in 2000 times.
    assert sum((counts[n] - expected) ** 2 / expected for n in range(1, steps + 1)) < 30
    for trajectory in sampled:
        count = len(trajectory.trained_steps)
        assert trajectory.trained == (False,) * (steps - count) + (True,) * count
        assert (trajectory.begin, trajectory.end, trajectory.detaches_inputs) == (0, steps, False)


def test_refl_predicts_the_image_from_the_one_trained_step():
    sampled = trajectories(algorithms.ReFL(), 20)
    assert {trajectory.end for trajectory in sampled} == set(range(15, 20))
    assert all(trajectory.trained_steps == (trajectory.end,) for trajectory in sampled)


def test_drtune_trains_steps_apart_with_detached_inputs_up_to_an_early_end():
    sampled = trajectories(algorithms.DRTune(trained_steps=3, early_stop=0.4), 10)
    assert {trajectory.end for trajectory in sampled} == {5, 6, 7, 8, 10}
    assert all(
        len(trajectory.trained_steps) == 3 and trajectory.detaches_inputs for trajectory in sampled
    )
    assert {number for trajectory in sampled for number in trajectory.trained_steps} == set(
        range(10)
    )


def test_best_of_n_has_no_trajectories():
    with pytest.raises(ValueError, match="no gradient"):
        trajectories(algorithms.BestOfN(), 10)


def lora(family, **settings):
    method = Adapters.attach(family, adapters.section("lora", **settings), seed=0)
    method.train(True)
    return method


@pytest.mark.parametrize(
    "prediction", ["v_prediction", pytest.param("epsilon", marks=pytest.mark.long)]
)
def test_the_anchor_is_the_distance_to_the_base_models_predictions_of_noise(prediction):
    family = exact.family(prediction=prediction)
    method = lora(family)
    through = algorithms.Draft(last_steps=2)
    objective = objective_of(family, through, method=method, anchor=10.0)
    batch = batch_of(family, 0, 1)
    plain = loss_of(objective, batch, seed=SEED, step=STEP)
    assert plain.scores[ANCHOR].tolist() == [0, 0]
    adapters.shake(method)
    weights = [p for g in method.parameter_groups() for p in g.parameters.values()]
    loss, found = gradient_of(objective, batch, weights)
    without, reward = gradient_of(objective_of(family, through, method=method), batch, weights)
    scheduler = exact.scheduler(family.process.settings, prediction, steps=STEPS)
    chosen, total = [], 0
    for place in (0, 1):
        generator = seeds.generator(SEED, "reward-anchor", STEP, place)
        number = 1 + int(2 * torch.rand((), generator=generator, dtype=torch.float64))
        timestep = scheduler.timesteps[number]
        factor = 1 if prediction == "epsilon" else scheduler.alphas_cumprod[timestep]
        latents = begun_by_hand(family, place)[number]
        one = batch_of(family, place)
        inputs = {"conditioning": one.conditioning, "time_ids": one.time_ids}
        with method.base_model(), torch.no_grad():
            own = family.predict(latents, timestep[None], **inputs)
        mean = factor * (family.predict(latents, timestep[None], **inputs) - own).square().mean()
        assert loss.scores[ANCHOR][place].item() == pytest.approx(mean.item(), rel=1e-4)
        chosen.append(number)
        total = total + mean
    assert 2 in chosen  # a step that begins with what others have a gradient in
    assert loss.value.item() == near(without.value.item() + 10 * total.item() / 3)
    expected = torch.autograd.grad(10 * total / 3, weights)
    assert distance([a - b for a, b in zip(found, reward, strict=True)], expected) < 1e-4


def begun_by_hand(family, place):
    """The latents before each of an image's steps."""
    begun = {}
    batch = batch_of(family, place)
    with torch.no_grad():
        rollout_of(family).generate(
            start_of(place),
            conditioning=batch.conditioning,
            empty=batch.empty,
            time_ids=batch.time_ids,
            trajectories=[Trajectory((False,) * STEPS, STEPS)],
            noise=lambda _, number: noise_of(place, number),
            on_step=lambda _, number, latents: begun.setdefault(number, latents),
        )
    return begun


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_weights_put_aside_for_the_anchor_leave_graphs_that_wait_right(kind):
    """In bfloat16, where autocast would go on with casts of what was put aside."""
    gradients = []
    for checkpoint in (False, True):
        family = tiny.family()
        if kind == "full":
            section = FullSection(weights="fp32", targets="attn")
            method = Full.attach(family, section, source=None, keep_original=tiny.CPU)
        else:
            method = lora(family)
        weights = [p for g in method.parameter_groups() for p in g.parameters.values()]
        with torch.no_grad():
            for weight in weights:
                weight.mul_(1.2).add_(0.05)
        algorithm = algorithms.Draft(last_steps=1)
        objective = objective_of(
            family, algorithm, method=method, anchor=1000.0, checkpoint=checkpoint
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(objective, batch_of(family, 0), seed=SEED, step=STEP)
        assert loss.scores[ANCHOR].item() > 5e-5  # times 1000
        gradients.append(torch.autograd.grad(loss.value, weights))
    assert distance(*gradients) < 0.02


def test_a_trained_text_encoder_is_asked_now_and_gets_a_gradient():
    family = tiny.family()
    method = lora(family, text=True)
    adapters.shake(method)
    objective = objective_of(family, algorithms.Draft(last_steps=2), method=method, anchor=1.0)
    batch = batch_of(family, 0, 2, is_encoded=False)
    loss = loss_of(objective, batch, seed=SEED, step=STEP)
    loss.value.backward()
    grads = {
        g.component: [p.grad for p in g.parameters.values()] for g in method.parameter_groups()
    }
    assert set(grads) == {"unet", "te"}
    assert all(torch.stack([each.norm() for each in own]).norm() > 0 for own in grads.values())
    encoded = loss_of(objective, batch_of(family, 0, 2), seed=SEED, step=STEP)
    assert torch.allclose(loss.per_item, encoded.per_item, atol=1e-4)


def test_images_of_the_user_are_trained_by_denoising():
    class Denoising:
        def draw(self, batch, *, seed, step):
            return batch, seed, step

        def compute(self, inputs):
            return inputs

        def validation(self, batch, probe):
            return batch, probe

    family = tiny.family()
    batch = batches.batch_of(family, (0, 1))
    objective = objective_of(family, denoising=Denoising())
    assert loss_of(objective, batch, seed=1, step=2) == (batch, 1, 2)
    assert objective.validation(batch, None) == (batch, None)


@pytest.mark.parametrize("name", ["sd15", pytest.param("sdxl", marks=pytest.mark.long)])
def test_updates_in_bf16_raise_the_reward(name):
    family = tiny.family(name, compute_dtype=torch.bfloat16)
    method = lora(family, targets="attn")
    objective = objective_of(
        family, algorithms.Draft(last_steps=1), method=method, steps=2, eta=0.0
    )
    batch = batch_of(family, 0, 1)
    weights = [p for g in method.parameter_groups() for p in g.parameters.values()]
    optimizer = torch.optim.Adam(weights, lr=0.03)
    rewards = []
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(objective, batch, seed=SEED, step=STEP)
        loss.value.backward()
        optimizer.step()
        optimizer.zero_grad()
        rewards.append(loss.scores[REWARD].mean().item())
    assert rewards[0] < rewards[1] < rewards[2]
