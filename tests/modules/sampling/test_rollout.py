"""Sampling with a gradient, in float64, against differences and a loop over diffusers' steps."""

from contextlib import contextmanager

import pytest
import torch
from torch.nn import functional

from modules.interfaces import Conditioning
from modules.memory.layers.layers import LayerSettings, manage_layers
from modules.sampling.rollout import Trajectory, untrained
from tests import exact, tiny
from tests.batches import distance, rollout_of, some_weights, time_ids_of
from tests.close import FLOAT32, FLOAT64, ROUNDINGS, close, near

STEPS, COUNT = 3, 2


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def noise(place, number):
    return normal(4, 8, 8, seed=100 * place + number)


class Case:
    """A tiny model of which some weights train, and a microbatch's conditioning."""

    def __init__(self, name="sd15", count=COUNT, **settings):
        self.family = exact.family(name, **settings)
        with torch.no_grad():
            self.family.vae.decoder.conv_out.weight.mul_(0.1)  # nothing is clamped
        self.weights = some_weights(self.family)
        self.inputs = {
            "conditioning": exact.conditioning(name, count),
            "empty": exact.conditioning(name, 1, seed=1),
            "time_ids": time_ids_of(count),
        }
        self.start = normal(count, 4, 8, 8, seed=7)
        self.direction = normal(count, 3, 64, 64, seed=8)

    def rollout(self, **changes):
        return rollout_of(self.family, **changes)

    def sample(self, rollout, trajectories, start=None, **settings):
        start = self.start if start is None else start
        return rollout.generate(
            start, trajectories=trajectories, noise=noise, **(self.inputs | settings)
        )

    def score(self, images):
        """Smooth, and as steep for every image."""
        return (images * self.direction[: len(images)]).sum() / 1000 + images.square().mean()

    def gradients(self, rollout, trajectories, **settings):
        latents = self.sample(rollout, trajectories, **settings)
        return torch.autograd.grad(self.score(rollout.decode(latents)), self.weights)


@pytest.fixture(scope="module")
def case():
    return Case()


def last(*counts, steps=STEPS):
    """Courses whose last steps carry a gradient."""
    return [Trajectory(tuple(n >= steps - k for n in range(steps)), steps) for k in counts]


@contextmanager
def moved(weights, directions, by):
    before = [weight.data for weight in weights]
    for weight, direction in zip(weights, directions, strict=True):
        weight.data = weight.data + by * direction
    try:
        yield
    finally:
        for weight, data in zip(weights, before, strict=True):
            weight.data = data


@pytest.mark.parametrize(
    ("through", "guidance"),
    [(2, 3.0), (STEPS, 1.0), *(pytest.param(n, 3.0, marks=pytest.mark.long) for n in (1, STEPS))],
)
def test_the_gradient_of_the_whole_chain_equals_central_differences(case, through, guidance):
    rollout = case.rollout(guidance=guidance)
    gradients = case.gradients(rollout, last(through, through))
    directions = [
        normal(*weight.shape, seed=3) * float(weight.detach().std()) for weight in case.weights
    ]
    cut = STEPS - through
    begun = []

    def record(place, number, latents):
        if number == cut:
            begun.append(latents.detach())

    with torch.no_grad():
        case.sample(rollout, last(through, through), on_step=record)

    def score(by):
        """What comes of the cut with moved weights: those before are not differentiated."""
        trajectories = [
            Trajectory(trajectory.trained, STEPS, begin=cut)
            for trajectory in last(through, through)
        ]
        with torch.no_grad(), moved(case.weights, directions, by):
            sampled = case.sample(rollout, trajectories, start=torch.cat(begun))
            return float(case.score(rollout.decode(sampled)))

    def central(by):
        return (score(by) - score(-by)) / (2 * by)

    # Richardson's step: the error of the second order falls out.
    expected = (4 * central(1e-3) - central(2e-3)) / 3
    found = float(sum((g * d).sum() for g, d in zip(gradients, directions, strict=True)))
    assert found == near(expected)


def by_hand(case, through, *, guidance, eta, detaches_without=False):
    """The straightforward loop: diffusers' scheduler, one image, two calls a step."""
    family, inputs = case.family, case.inputs
    total = 0
    for place in range(len(case.start)):
        scheduler = exact.scheduler(family.process.settings, family.process.prediction, steps=STEPS)
        latents, time_ids = case.start[place][None], inputs["time_ids"][:1]
        text = inputs["conditioning"]
        pooled = None if text.pooled is None else text.pooled[place][None]
        text = Conditioning(text.hidden[place][None], pooled)
        for number, timestep in enumerate(scheduler.timesteps):
            with torch.set_grad_enabled(number >= STEPS - through[place]):
                with_prompt = family.predict(latents, timestep, text, time_ids=time_ids)
                without = family.predict(latents, timestep, inputs["empty"], time_ids=time_ids)
                without = without.detach() if detaches_without else without
                predicted = without + guidance * (with_prompt - without)
                latents = scheduler.step(
                    predicted, timestep, latents, eta=eta, variance_noise=noise(place, number)
                ).prev_sample
        images = family.decode_latents(latents) / 2 + 0.5
        own = (images * case.direction[place]).sum() / 1000
        total = total + own + images.square().mean() / len(case.start)
    return torch.autograd.grad(total, case.weights)


@pytest.mark.parametrize(
    ("name", "through"),
    [("sd15", (1, 2)), ("sdxl", (STEPS, 2))],
)
def test_the_update_equals_that_of_a_loop_over_the_scheduler_of_diffusers(name, through):
    case = Case(name, prediction="v_prediction" if name == "sdxl" else "epsilon")
    found = case.gradients(case.rollout(checkpoint=True), last(*through))
    assert distance(found, by_hand(case, through, guidance=3.0, eta=1.0)) < ROUNDINGS * FLOAT32


def test_guidance_may_leave_its_half_without_a_prompt_out_of_the_gradient(case):
    rollout = case.rollout(guidance_gradient=False, checkpoint=True, eta=0.3)
    found = case.gradients(rollout, last(1, 2))
    expected = by_hand(case, (1, 2), guidance=3.0, eta=0.3, detaches_without=True)
    assert distance(found, expected) < ROUNDINGS * FLOAT32
    whole = by_hand(case, (1, 2), guidance=3.0, eta=0.3)
    assert distance(found, whole) > 1e-2


@pytest.mark.parametrize(
    ("through", "guidance"),
    [((1, STEPS), 3.0), ((1, 2), 1.0)],
)
def test_checkpoints_change_no_gradient(case, through, guidance):
    plain = case.gradients(case.rollout(guidance=guidance), last(*through))
    again = case.gradients(case.rollout(guidance=guidance, checkpoint=True), last(*through))
    assert distance(again, plain) < ROUNDINGS * FLOAT64


def test_checkpointed_layers_inside_change_no_gradient(case):
    rollout = case.rollout(checkpoint=True)
    plain = case.gradients(rollout, last(1, 2))
    managed = manage_layers(
        {"unet": list(case.family.unet.down_blocks)},
        LayerSettings(checkpointing="block"),
        train_device=tiny.CPU,
        offload_device=tiny.CPU,
    )
    try:
        again = case.gradients(rollout, last(1, 2))
    finally:
        managed.undo()
    assert distance(again, plain) < ROUNDINGS * FLOAT64


def test_detached_inputs_leave_the_sum_of_each_trained_prediction(case):
    """DRTune by hand: what comes after a prediction multiplies its gradient, nothing else."""
    rollout = case.rollout(guidance=1.0)
    begun = {}
    trajectories = [
        Trajectory((True, False, True), end, detaches_inputs=True) for end in (STEPS, 2)
    ]
    begin = case.sample(
        rollout,
        trajectories,
        on_step=lambda p, n, latents: begun.setdefault((p, n), latents.detach()),
    )
    direction = normal(COUNT, 4, 8, 8, seed=9)
    found = torch.autograd.grad((begin * direction).sum(), case.weights)
    text, total = case.inputs["conditioning"], 0
    for place, trajectory in enumerate(trajectories):
        for number in (0, 2):
            predicted = case.family.predict(
                begun[place, number],
                torch.tensor([rollout.table[number].timestep]),
                Conditioning(text.hidden[place][None]),
                time_ids=case.inputs["time_ids"][:1],
            )
            is_end = number == trajectory.end
            step = rollout.table[number]
            factor = step.clean.predicted if is_end else step.next_latents.predicted
            for later in range(number + 1, trajectory.last + 1):
                own = rollout.table[later]
                factor *= own.clean.latents if later == trajectory.end else own.next_latents.latents
            total = total + factor * (predicted * direction[place]).sum()
    assert distance(found, torch.autograd.grad(total, case.weights)) < ROUNDINGS * FLOAT64


def test_each_image_goes_its_own_trajectory_in_any_batch(case):
    rollout = case.rollout()
    trajectories = [Trajectory((True, False, True), STEPS), Trajectory((True, True, False), 1)]
    together = case.sample(rollout, trajectories)
    for place, trajectory in enumerate(trajectories):
        alone = rollout.generate(
            case.start[place][None],
            conditioning=Conditioning(case.inputs["conditioning"].hidden[place][None]),
            empty=case.inputs["empty"],
            time_ids=case.inputs["time_ids"][:1],
            trajectories=[trajectory],
            noise=lambda _, number, place=place: noise(place, number),
        )
        close(together[place], alone[0])
        gradients = [
            torch.autograd.grad(latents.sum(), case.weights, retain_graph=True)
            for latents in (together[place], alone)
        ]
        assert distance(*gradients) < ROUNDINGS * FLOAT64


@contextmanager
def calls_of(family):
    """The UNet's calls: latents in each, and whether a gradient is recorded."""
    calls = []
    unet = family.unet
    handle = unet.register_forward_pre_hook(
        lambda _, args: calls.append((len(args[0]), torch.is_grad_enabled()))
    )
    try:
        yield calls
    finally:
        handle.remove()


def test_before_the_cut_nothing_is_recorded_and_after_it_images_are_batched(case):
    has_graph = {}
    with calls_of(case.family) as calls:
        case.sample(
            case.rollout(),
            last(1, 2),
            on_step=lambda place, number, latents: has_graph.setdefault(
                (place, number), latents.grad_fn is not None
            ),
        )
    assert calls == [(4, False), (2, False), (4, True), (2, True)]
    assert [has_graph[0, number] for number in range(STEPS)] == [False, False, False]
    assert [has_graph[1, number] for number in range(STEPS)] == [False, False, True]


def test_without_guidance_only_prompts_are_asked(case):
    with calls_of(case.family) as calls, torch.no_grad():
        case.sample(case.rollout(guidance=1.0), [untrained(STEPS)] * 2, empty=None)
    assert calls == [(2, False)] * STEPS
    with pytest.raises(ValueError, match="empty prompt"):
        case.sample(case.rollout(), [untrained(STEPS)] * 2, empty=None)


def test_steps_without_a_gradient_are_computed_on_the_quick_path_entered_once(case):
    entered, inside = [], []

    @contextmanager
    def inference_mode():
        entered.append("in")
        with torch.no_grad():
            yield
        entered.append("out")

    handle = case.family.unet.register_forward_pre_hook(
        lambda *_: inside.append(len(entered) % 2 == 1)
    )
    latents = case.sample(case.rollout(), last(1, 2), inference_mode=inference_mode)
    handle.remove()
    assert entered == ["in", "out"]
    assert inside == [True] * 2 + [False] * 2
    plain = case.sample(case.rollout(), last(1, 2))
    assert torch.equal(latents, plain)
    found, expected = (torch.autograd.grad(x.sum(), case.weights) for x in (latents, plain))
    assert distance(found, expected) == 0


def test_a_trajectory_that_ends_early_predicts_the_image_from_there(case):
    rollout = case.rollout(guidance=1.0, eta=0.0)
    begun = {}
    with torch.no_grad():
        found = case.sample(
            rollout,
            [Trajectory((False,) * STEPS, 2)] * 2,
            on_step=lambda place, number, latents: begun.setdefault((place, number), latents),
        )
        latents = torch.cat([begun[0, 2], begun[1, 2]])
        seen = rollout.predict_noise(
            latents,
            [2, 2],
            conditioning=case.inputs["conditioning"],
            time_ids=case.inputs["time_ids"],
        )
    step = rollout.table[2]
    close(found, (latents - step.spread * seen) / step.signal)
    assert set(begun) == {(place, number) for place in (0, 1) for number in (0, 1, 2)}


def test_the_noise_seen_by_a_velocity_model_is_that_of_its_prediction():
    case = Case(prediction="v_prediction", count=1)
    rollout = case.rollout()
    inputs = {key: case.inputs[key] for key in ("conditioning", "time_ids")}
    with torch.no_grad():
        seen = rollout.predict_noise(case.start, [1], **inputs)
        timestep = rollout.table[1].timestep
        velocity = case.family.predict(
            case.start,
            torch.tensor([timestep]),
            inputs["conditioning"],
            time_ids=inputs["time_ids"],
        )
    scheduler = exact.scheduler(case.family.process.settings, "v_prediction", steps=STEPS)
    level = scheduler.alphas_cumprod[timestep]
    expected = level**0.5 * velocity + (1 - level) ** 0.5 * case.start
    close(seen, expected)


def test_images_are_clamped_and_have_no_gradient_beyond(case):
    family = exact.family()
    rollout = rollout_of(family, eta=0.0, guidance=1.0)
    latents = normal(2, 4, 8, 8, seed=7).requires_grad_()
    images = rollout.decode(latents)
    plain = family.vae.decode(latents / family._scale).sample / 2 + 0.5
    is_inside = (plain > 0) & (plain < 1)
    assert 0.01 < is_inside.double().mean() < 0.99
    close(images, plain.clamp(0, 1))
    found = torch.autograd.grad((images * case.direction).sum(), latents)
    expected = torch.autograd.grad((plain * is_inside * case.direction).sum(), latents)
    assert distance(found, expected) < ROUNDINGS * FLOAT64


def test_a_trajectory_without_a_step_is_refused():
    with pytest.raises(ValueError, match="no step"):
        Trajectory((True, True), 0, begin=1)
    with pytest.raises(ValueError, match="cannot end"):
        Trajectory((True, True), 3)


def test_the_score_is_not_flat(case):
    """Else every comparison of gradients would hold."""
    gradients = case.gradients(case.rollout(), last(1, 1))
    assert all(float(each.norm()) > 1e-6 for each in gradients[-1:])
    assert (
        functional.cosine_similarity(
            gradients[-1].flatten(),
            case.gradients(case.rollout(), last(STEPS, STEPS))[-1].flatten(),
            dim=0,
        )
        < 0.9999
    )
