"""Evaluations on validation prompts: what is generated and measured, against its documentation."""

from contextlib import nullcontext

import pytest
import torch

from modules import seeds
from modules.data.prompts import EMPTY, EncodedPrompts
from modules.evaluation.prompts import DISTANCE_LEVELS, Evaluator, ValidationPrompts
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings
from modules.rewards.measures import Measure, brightness
from modules.rewards.mixer import Mixer, NamedReward
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import EmbeddingToken
from tests import adapters, tiny
from tests.batches import rollout_of, time_ids_of
from tests.close import close

PROMPTS = ("a cat", "a large dog")
MIXER = Mixer((NamedReward("brightness", Measure(brightness)),))


def evaluator(family, method=None, *, encoded=False, at_once=2, count=3):
    texts = EncodedPrompts.of(family, (EMPTY, *PROMPTS)) if encoded else None
    return Evaluator(
        family=family,
        validation=ValidationPrompts(PROMPTS, count, 4, (64, 64), texts, at_once),
        rollout=rollout_of(family, steps=2, guidance=2.0, checkpoint=True),
        merged=nullcontext if method is None else method.merged,
        autocast=nullcontext,
        base_model=None if method is None else method.base_model,
        device=tiny.CPU,
    )


def looked(own):
    return list(own.evaluate(MIXER, lambda _: None))


def trained(name, what):
    """A family of which the tokens, the text encoders or the UNet have been trained."""
    prediction = "v_prediction" if name == "sd2" else "epsilon"
    family = tiny.family(name, prediction=prediction)
    with torch.no_grad():  # an untrained UNet pays hardly any heed to its text
        for path, weight in family.unet.named_parameters():
            if ".attn2.to_v" in path or ".attn2.to_out" in path:
                weight.mul_(16)
    if what == "words":
        section = EmbeddingsSection(tokens=[EmbeddingToken(token="cat", initial_text="dog")])
        family, method = Embeddings.attach(family, section, seed=0)
        with torch.no_grad():
            for rows in method.extra_modules().parameters():
                rows.copy_(torch.randn(rows.shape, generator=torch.Generator().manual_seed(1)))
        return family, method
    section = adapters.section("lora", targets="attn", text=what == "text")
    method = Adapters.attach(family, section, seed=0)
    adapters.shake(method)
    if what == "text":
        for adapter in method.adapters["unet"].values():
            torch.nn.init.zeros_(adapter.lora_up.weight)
    return family, method


@pytest.mark.parametrize(("name", "what"), [("sd15", "words"), ("sdxl", "text"), ("sd2", "unet")])
def test_the_distance_is_that_of_noise_predictions_of_each_models_own_reading(name, what):
    family, method = trained(name, what)
    own = evaluator(family, method, encoded=what == "unet", count=2)
    found = looked(own)[0].distance
    assert (found > 1e-9).all()
    assert (looked(own)[1].distance > 1e-9).all() == (what != "words")  # of "cat" alone
    with torch.no_grad():
        latents = own._latents(PROMPTS[0], [4, 5])
        total = torch.zeros(2)
        for place, fraction in enumerate(DISTANCE_LEVELS):
            level = int(fraction * 1000)
            noise = torch.randn(4, 8, 8, generator=seeds.generator(4, "distance", place))
            signal, spread = family.process.levels.signal[level], family.process.levels.noise[level]
            noisy = signal * latents + spread * noise

            def noise_of(noisy=noisy, level=level, signal=signal, spread=spread):
                text = family.encode_text([PROMPTS[0]]).repeated(2)
                seen = family.predict(noisy, torch.full((2,), level), text, time_ids=time_ids_of(2))
                return (
                    seen
                    if family.process.prediction == "epsilon"
                    else signal * seen + spread * noisy
                )

            now = noise_of()
            with method.base_model():
                total += (now - noise_of()).square().mean(dim=(1, 2, 3)) / len(DISTANCE_LEVELS)
    # Sampled with separate adapters, and with merged weights: other roundings.
    close(found, total)


def test_an_evaluation_is_the_same_for_every_batch_size():
    family = tiny.family()
    for one, other in zip(
        looked(evaluator(family, at_once=1)), looked(evaluator(family, at_once=3)), strict=True
    ):
        assert one.prompt == other.prompt
        torch.testing.assert_close(one.images, other.images, atol=1e-4, rtol=1e-4)
        close(one.total, other.total)
        assert len(one.total) == 3
        assert (one.images[0] - one.images[1]).abs().max() > 0.01  # another seed


def test_an_evaluation_leaves_torchs_own_generator_alone_and_no_graph():
    family = tiny.family()
    family.unet.requires_grad_()
    state = torch.get_rng_state()
    first = looked(evaluator(family))
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(one.images.requires_grad or one.total.requires_grad for one in first)
    assert all(
        torch.equal(one.images, other.images)
        for one, other in zip(first, looked(evaluator(family)), strict=True)
    )


def test_a_callback_before_each_image_may_end_the_evaluation():
    reported = []

    def before_each(done):
        reported.append(done)
        if done == 3:
            raise KeyboardInterrupt

    evaluate = evaluator(tiny.family()).evaluate(MIXER, before_each)
    assert next(evaluate).prompt == PROMPTS[0]
    with pytest.raises(KeyboardInterrupt):
        next(evaluate)
    assert reported == [0, 2, 3]
