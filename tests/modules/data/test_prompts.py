"""Which prompts each step samples, and how long their encodings are."""

import torch

from modules.data.prompts import EMPTY, EncodedPrompts, PromptBatches
from modules.interfaces import Conditioning

PROMPTS = tuple(f"prompt {number}" for number in range(5))


def encoded(prompt, tokens=77):
    value = float(len(prompt))
    return Conditioning(torch.full((1, tokens, 2), value), torch.full((1, 3), value))


def batches(*, batch_size=1, accumulation=4, texts=None):
    return PromptBatches(PROMPTS, texts, batch_size, accumulation, seed=3, size=(64, 32))


def test_every_prompt_has_its_place_before_any_comes_again():
    sampled = [prompt for step in range(5) for prompt in batches().of_step(step)]
    for turn in range(4):
        assert sorted(sampled[turn * 5 : turn * 5 + 5]) == sorted(PROMPTS)
    assert sampled[:5] != sampled[5:10]


def test_steps_are_the_same_however_they_are_cut():
    for step in range(3):
        whole, cut = (
            [
                (prompt, position)
                for batch in made.at(step)
                for prompt, position in zip(batch.prompts, batch.positions, strict=True)
            ]
            for made in (batches(batch_size=4, accumulation=1), batches())
        )
        assert whole == cut
        assert {batch.weight for batch in batches().at(step)} == {1 / 4}


def test_encodings_are_as_long_as_the_longest_of_the_step():
    own = {prompt: encoded(prompt) for prompt in (EMPTY, *PROMPTS)}
    own["prompt 2"] = encoded("prompt 2", tokens=154)
    made = batches(batch_size=2, accumulation=2, texts=EncodedPrompts(own))
    for step in range(5):
        is_long = "prompt 2" in made.of_step(step)
        for batch in made.at(step):
            assert batch.conditioning.hidden.shape == (2, 154 if is_long else 77, 2)
            assert batch.empty.hidden.shape == (1, 154 if is_long else 77, 2)
            assert batch.conditioning.pooled[:, 0].tolist() == [8.0, 8.0]


def test_time_ids_are_those_of_whole_images_heights_first():
    (batch, *_) = batches().at(0)
    assert batch.time_ids.tolist() == [[32, 64, 0, 0, 32, 64]]
