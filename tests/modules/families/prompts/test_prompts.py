"""Prompts against diffusers' pipelines, and against chunks encoded by hand."""

import copy
import dataclasses

import pytest
import torch
from transformers import CLIPTextModel

from modules.families.prompts.prompts import ClipEncoder, ClipPrompts
from tests.close import close
from tests.each import each
from tests.tiny_prompts import (
    END,
    GIANT,
    LARGE,
    START,
    by_hand,
    core,
    encode_with,
    giant,
    ids_of,
    large,
    make,
    padded_with_bang,
    sd15,
    sd_pipeline,
    sdxl,
    tokenizer,
    words,
    xl_pipeline,
)

BANG = 256
SHORT = ["a photo of a cat", "", "two cats, sitting on a mat (in the sun), 4k"]


def test_short_prompts_equal_the_sd15_pipeline():
    close(sd15().encode(SHORT).hidden, encode_with(sd_pipeline(), SHORT))
    assert sd15().encode(SHORT).pooled is None


def test_short_prompts_equal_the_sd2_pipeline():
    model = make(CLIPTextModel, LARGE, 4, act="gelu")
    pipe = sd_pipeline(model, padded_with_bang())
    prompts = ClipPrompts(tokenizer(), (ClipEncoder("te", model, 0, 1, True),))
    close(prompts.encode(SHORT).hidden, encode_with(pipe, SHORT))


@each(("layer", "skipped"), [(2, None), (3, 1), (4, 2)])
def test_short_prompts_equal_the_sdxl_pipeline(layer, skipped):
    encoders = tuple(dataclasses.replace(each, layer=layer) for each in sdxl().encoders)
    ours = ClipPrompts(sdxl().tokenizer, encoders).encode(SHORT)
    hidden, pooled = encode_with(xl_pipeline(), SHORT, clip_skip=skipped)
    close(ours.hidden, hidden)
    close(ours.pooled, pooled)


@each("layer", [1, 2, 3])
@each("is_normed", [True, False])
def test_a_layer_is_counted_from_the_end(layer, is_normed):
    encoder = ClipEncoder("te", large(), END, layer, is_normed)
    expected, _ = by_hand(encoder, ids_of(tokenizer(), SHORT[0], END))
    found = ClipPrompts(tokenizer(), (encoder,)).encode(SHORT[:1]).hidden
    close(found, expected)


@each(("count", "chunks"), [(75, 1), (76, 2), (80, 2), (160, 3), (400, 6)])
def test_long_prompts_are_chunks_encoded_alone(count, chunks):
    text = words(count)
    sides = [
        by_hand(each, ids_of(sdxl().tokenizer, text, each.pad, chunks=chunks))
        for each in sdxl().encoders
    ]
    found = sdxl().encode([text])
    assert found.hidden.shape == (1, 77 * chunks, LARGE + GIANT)
    expected = torch.cat([hidden for hidden, _ in sides], dim=-1)
    close(found.hidden, expected)
    close(found.pooled, sides[1][1])


def test_shorter_captions_are_filled_up_with_empty_chunks():
    long, short = words(160), "a cat"
    found = sdxl().encode([short, long])
    components = [sdxl().encode([text]) for text in (short, "", "")]
    expected = torch.cat([part.hidden for part in components], dim=1)[0]
    close(found.hidden[0], expected)
    close(found.pooled[:1], components[0].pooled)
    alone = sdxl().encode([short], among=[long])
    close(alone.hidden, found.hidden[:1])


def test_an_empty_caption_is_one_chunk():
    rows = [[START, END, *[pad] * 75] for pad in (END, 0)]
    sides = [by_hand(each, [row]) for each, row in zip(sdxl().encoders, rows, strict=True)]
    found = sdxl().encode([""])
    expected = torch.cat([hidden for hidden, _ in sides], dim=-1)
    close(found.hidden, expected)
    close(found.pooled, sides[1][1])


def test_an_exclamation_mark_is_not_taken_for_padding():
    given = []
    for encoder in sdxl().encoders:
        table = encoder.model.get_input_embeddings()
        hook = table.register_forward_pre_hook(lambda _, ids: given.append(ids[0][0].tolist()))
        sdxl().encode(["wow !"])
        hook.remove()
    start = [START, 2781, BANG, END]
    assert given == [start + [END] * 73, start + [0] * 73]


def test_pooled_is_at_the_first_end_also_where_added_tokens_have_higher_ids():
    larger = copy.deepcopy(tokenizer())
    larger.add_tokens(["<smiley>"])
    model, right = copy.deepcopy((giant(), giant(end=END)))
    for shaped in (model, right):
        table = shaped.get_input_embeddings()
        added = torch.full((1, GIANT), 0.1)
        table.weight = torch.nn.Parameter(torch.cat([table.weight, added]), requires_grad=False)
    ids = torch.tensor(ids_of(larger, "a <smiley> cat", 0))
    assert ids.max() == 49408
    encoder = ClipEncoder("te2", model, 0, 2, False, True)
    found = ClipPrompts(larger, (encoder,)).encode(["a <smiley> cat"])
    close(found.pooled, right(ids).text_embeds)
    assert not torch.allclose(model(ids).text_embeds, right(ids).text_embeds, atol=1e-3)


@pytest.mark.parametrize("layer", [1, 2])
def test_gradients_reach_the_encoders_also_when_layers_are_computed_twice(layer):
    once, twice = gradients(layer, is_twice=False), gradients(layer, is_twice=True)
    for one, other in zip(once, twice, strict=True):
        assert one.abs().max() > 0
        close(one, other)


def gradients(layer, *, is_twice):
    """Of a weight in the first layer of each of SDXL's encoders."""
    encoders = []
    for encoder in sdxl().encoders:
        model = copy.deepcopy(encoder.model).requires_grad_(True).train()
        if is_twice and hasattr(model, "activation_checkpointing_enable"):
            model.activation_checkpointing_enable({"use_reentrant": False})
        elif is_twice:  # its name before transformers 5.23
            model.gradient_checkpointing_enable({"use_reentrant": False})
        encoders.append(dataclasses.replace(encoder, model=model, layer=layer))
    found = ClipPrompts(tokenizer(), tuple(encoders)).encode(["a cat", words(80)])
    (found.hidden.pow(2).mean() + found.pooled.pow(2).mean()).backward()
    return [core(each.model).encoder.layers[0].mlp.fc1.weight.grad for each in encoders]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_encoders_are_near_the_full_ones(dtype):
    encoders = tuple(
        dataclasses.replace(each, model=copy.deepcopy(each.model).to(dtype))
        for each in sdxl().encoders
    )
    half, full = ClipPrompts(sdxl().tokenizer, encoders).encode(SHORT), sdxl().encode(SHORT)
    assert half.hidden.dtype == half.pooled.dtype == dtype
    tolerance = 0.02 if dtype == torch.float16 else 0.15
    torch.testing.assert_close(half.hidden.float(), full.hidden, atol=tolerance, rtol=tolerance)


def test_autocast_lets_single_precision_encoders_run():
    with torch.autocast("cpu", torch.bfloat16):
        found = sdxl().encode(SHORT)
    torch.testing.assert_close(
        found.hidden.float(), sdxl().encode(SHORT).hidden, atol=0.15, rtol=0.15
    )


def test_tokens_are_counted_without_start_and_end():
    assert [sdxl().count_tokens(text) for text in ("", "a cat!", words(160))] == [0, 3, 160]


def test_settings_contain_all_that_decides_an_encoding():
    first, second = sdxl().encoders
    larger = copy.deepcopy(tokenizer())
    larger.add_tokens(["<smiley>"])
    others = [
        ClipPrompts(larger, sdxl().encoders),
        ClipPrompts(tokenizer(), (first,)),
        ClipPrompts(tokenizer(), (dataclasses.replace(first, layer=1), second)),
        ClipPrompts(tokenizer(), (dataclasses.replace(first, is_normed=True), second)),
        ClipPrompts(tokenizer(), (first, dataclasses.replace(second, pad=END))),
    ]
    assert len({sdxl().settings(), *(other.settings() for other in others)}) == 1 + len(others)
    assert ClipPrompts(tokenizer(), (first, second)).settings() == sdxl().settings()
