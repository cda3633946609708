"""Concept sliders: the loss against its formula in float64, strengths, the check of both ends."""

import math

import torch

from modules import seeds
from modules.assembly.method import Attached
from modules.assembly.sliders import slider_objective
from modules.data.prompts import EncodedPrompts, time_ids_of
from modules.interfaces import PromptBatch
from modules.methods.adapters.adapters import Adapters
from modules.objectives.slider import prompts_of
from onetrainer.config.objectives.slider import Direction, Slider
from tests import adapters, exact, managed, tiny
from tests.batches import loss_of
from tests.close import close, near
from tests.each import few_each

SEED, STEPS, ETA, CFG, ALPHA_OVER_RANK = 3, 3, 1.5, 3.0, 0.5
KINDS = ("epsilon", "v_prediction")
AGE = Direction(target="person", positive="old person", negative="young person")
ERASED = Direction(target="art", positive="a cubist painting", neutral="photo", action="erase")
SECTION = Slider(
    directions=(AGE, ERASED),
    guidance=ETA,
    strength=0.7,
    steps=STEPS,
    denoising_guidance=CFG,
    width=64,
    height=64,
)


def attached(family, section=SECTION, **settings):
    """Adapters with an effect, of the family's precision, and the objective."""
    method = Adapters.attach(family, adapters.section("lora", targets="attn", **settings), seed=0)
    method.extra_modules().to(family.unet.dtype)
    adapters.shake(method, scale=0.05)
    method.train(True)
    texts = EncodedPrompts.of(family, prompts_of(section.directions))
    return method, slider_objective(section, Attached(family, method), texts, device=tiny.CPU)


def batch_of(*places, section=SECTION):
    labels = [direction.label for direction in section.directions]
    prompts = tuple(labels[place % len(labels)] for place in range(2))
    return PromptBatch(
        prompts=tuple(prompts[place] for place in places),
        step_prompts=prompts,
        conditioning=None,
        empty=None,
        time_ids=time_ids_of((64, 64), len(places)),
        positions=places,
        weight=1 / 2,
        size=(64, 64),
    )


def with_weights(family, method, strength):
    """The family's prediction for a prompt with W + s α/r B A in place of adapters, in float64."""
    layers = dict(family.unet.named_modules())
    originals = {}
    for name, adapter in method.adapters["unet"].items():
        layer = layers[method.plans[name].layer.path]
        change = adapter.lora_up.weight.flatten(1) @ adapter.lora_down.weight.flatten(1)
        originals[layer] = layer.weight.data
        layer.weight.data = layer.weight + strength * ALPHA_OVER_RANK * change

    def predict(latents, timestep, prompt):
        text = family.encode_text([prompt], among=prompts_of(SECTION.directions))
        time_ids = time_ids_of((64, 64), 1)
        return family.predict(latents, torch.tensor([timestep]), text, time_ids=time_ids)

    return predict, originals


def computed(family, method, strength, *calls):
    """Predictions at a strength, with all adapters off."""
    predict, originals = with_weights(family, method, strength)
    try:
        with method.base_model(), torch.no_grad():
            return [predict(*call) for call in calls]
    finally:
        for layer, weight in originals.items():
            layer.weight.data = weight


def loss_by_hand(family, method, direction, *, strength, sign, step, place):
    """The loss of an image, from DDIM's and the slider's formulas."""
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    levels = torch.cumprod(1 - betas, 0).tolist()
    noise = seeds.generator(SEED, "slider-start", step, place)
    latents = torch.randn(1, 4, 8, 8, generator=noise).double()
    chance = torch.rand(
        (), generator=seeds.generator(SEED, "slider-steps", step, place), dtype=torch.float64
    )
    count = 1 + int(chance * (STEPS - 1))
    times = [1 + 1000 // STEPS * number for number in reversed(range(STEPS))]
    for timestep in times[:count]:
        calls = [(latents, timestep, direction.target), (latents, timestep, "")]
        prompted, without = computed(family, method, strength, *calls)
        guided = without + CFG * (prompted - without)
        level, after = levels[timestep], levels[timestep - 1000 // STEPS]
        if family.process.prediction == "v_prediction":
            clean = math.sqrt(level) * latents - math.sqrt(1 - level) * guided
            guided = math.sqrt(level) * guided + math.sqrt(1 - level) * latents
        else:
            clean = (latents - math.sqrt(1 - level) * guided) / math.sqrt(level)
        latents = math.sqrt(after) * clean + math.sqrt(1 - after) * guided
    prompts = (direction.neutral or direction.target, direction.positive, direction.negative)
    calls = [(latents, times[count], prompt) for prompt in prompts]
    neutral, positive, negative = computed(family, method, 0, *calls)
    own = sign if direction.action == "enhance" else -sign
    goal = neutral + own * ETA * (positive - negative)
    [found] = computed(family, method, strength, (latents, times[count], direction.target))
    return (found - goal).square().mean().item()


@few_each(
    ("prediction", "steps"),
    [(kind, {4: 1, 5: -1}) for kind in KINDS] + [(KINDS[0], {4: 1}), (KINDS[1], {5: -1})],
    [(KINDS[0], {4: 1}), (KINDS[1], {5: -1})],
)
def test_the_loss_is_the_distance_to_the_moved_prediction_at_either_strength(prediction, steps):
    family = exact.family(prediction=prediction)
    method, objective = attached(family)
    for step, sign in steps.items():
        found = loss_of(objective, batch_of(0, 1), seed=SEED, step=step)
        expected = [
            loss_by_hand(
                family, method, direction, strength=0.7 * sign, sign=sign, step=step, place=place
            )
            for place, direction in enumerate(SECTION.directions)
        ]
        # The only float32 numbers are the encoded text, which both use, and the loss at the end.
        assert found.per_item.tolist() == near(expected, roundings=1)
        assert found.value.item() == near(sum(expected) / 2, roundings=1)


def test_an_image_has_the_same_loss_in_any_microbatch():
    family = tiny.family()
    _, objective = attached(family)
    whole = loss_of(objective, batch_of(0, 1), seed=SEED, step=4).per_item
    for place in (0, 1):
        alone = loss_of(objective, batch_of(place), seed=SEED, step=4).per_item
        close(alone[0], whole[place], of=whole.sqrt())  # squares of small differences of numbers


@few_each(("policy",), ["block", "selective"], ["block"])
def test_checkpointing_recomputes_at_the_strength_of_the_forward_pass(policy):
    def gradients(step):
        loss = loss_of(objective, batch_of(0), seed=SEED, step=step)
        with loss.recomputation():
            return torch.autograd.grad(loss.value, list(method.extra_modules().parameters()))

    family = tiny.family()
    method, objective = attached(family)
    plain = gradients(5)
    layers = managed.checkpoint(family, policy)
    try:
        again = gradients(5)
    finally:
        layers.undo()
    for one, other in zip(plain, again, strict=True):
        assert torch.equal(one, other)


def test_the_check_measures_the_way_that_predictions_move():
    family = exact.family()
    method, objective = attached(family)
    with torch.no_grad():
        for weight in method.extra_modules().parameters():
            weight.zero_()
    for number in (0, 1):
        untrained = objective.measure(number, seed=SEED)
        assert untrained.keys() == {0.7, -0.7}
        assert untrained == objective.measure(number, seed=SEED)
        for shift in untrained.values():
            assert shift.along == 0
            assert shift.length > 0
    # With the neutral prompt as the target, all that is missing is the way itself.
    shift = objective.measure(0, seed=SEED)[0.7]
    assert shift.loss == near(shift.length / (4 * 8 * 8))
