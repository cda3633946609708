"""Embeddings that replace what a text encoder says, against outputs replaced by hand."""

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from torch import nn

from modules.formats.embeddings.embedding_file import Embedding
from tests.each import each
from tests.tiny_prompts import GIANT, LARGE, embedding, sd15, sdxl, words

PROMPTS = {"sd": (sd15, ("te",)), "xl": (sdxl, ("te1", "te2"))}


def rows(length, encoders, *, seed):
    return embedding(length, encoders=encoders, seed=seed).vectors


def zeros(length, encoders):
    return {te: torch.zeros_like(r) for te, r in rows(length, encoders, seed=0).items()}


def replaced(hidden, places, outputs):
    """Hidden states, (1, T, D), with the encoders' outputs, side by side, at these places."""
    changed = hidden.clone()
    changed[0, places] = torch.cat(list(outputs.values()), dim=-1)
    return changed


@each("is_read", [True, False], ids=["input too", "output alone"])
@each("base", PROMPTS)
def test_the_output_is_replaced_at_the_token_alone_and_the_input_is_its_own_or_zeros(base, is_read):
    make, encoders = PROMPTS[base]
    outputs, vectors = rows(3, encoders, seed=1), rows(3, encoders, seed=2)
    read = vectors if is_read else zeros(3, encoders)
    plain = make().with_embeddings({"x": Embedding("x", read)}).encode(["a photo of x, red"])
    given = Embedding("x", vectors if is_read else {}, outputs)
    found = make().with_embeddings({"x": given}).encode(["a photo of x, red"])
    assert torch.equal(found.hidden, replaced(plain.hidden, [4, 5, 6], outputs))
    if base == "xl":
        assert torch.equal(found.pooled, plain.pooled)


@pytest.mark.parametrize("layer", [1, 3])
def test_the_output_is_replaced_behind_clip_skip_and_final_norm(layer):
    encoders = tuple(replace(encoder, layer=layer) for encoder in sd15().encoders)
    outputs = rows(2, ("te",), seed=1)
    prompts = replace(sd15(), encoders=encoders)
    found = prompts.with_embeddings({"x": Embedding("x", {}, outputs)}).encode(["x"]).hidden
    assert torch.equal(found[0, 1:3], outputs["te"])


@pytest.mark.parametrize(
    ("caption", "length", "places"),
    [
        (f"{words(73)} x", 3, [78, 79, 80]),  # moves whole into the next chunk
        ("x", 80, [*range(1, 76), *range(78, 83)]),  # flows on
    ],
)
def test_outputs_follow_their_vectors_across_the_border_of_a_chunk(caption, length, places):
    outputs = rows(length, ("te1", "te2"), seed=1)
    read = Embedding("x", zeros(length, ("te1", "te2")))
    plain = sdxl().with_embeddings({"x": read}).encode([caption]).hidden
    found = sdxl().with_embeddings({"x": Embedding("x", {}, outputs)}).encode([caption]).hidden
    assert torch.equal(found, replaced(plain, places, outputs))


def test_input_and_output_tokens_stand_side_by_side():
    both = {
        "out": Embedding("out", {}, rows(2, ("te1", "te2"), seed=1)),
        "in": embedding(1, seed=2),
    }
    read = {**both, "out": Embedding("out", zeros(2, ("te1", "te2")))}
    plain = sdxl().with_embeddings(read).encode(["out in out"]).hidden
    found = sdxl().with_embeddings(both).encode(["out in out"]).hidden
    once = replaced(plain, [1, 2], both["out"].outputs)
    assert torch.equal(found, replaced(once, [4, 5], both["out"].outputs))


def test_training_outputs_alone_builds_no_graph_through_the_encoders():
    outputs = {te: nn.Parameter(r) for te, r in rows(2, ("te1", "te2"), seed=1).items()}
    prompts = sdxl().with_embeddings(
        {"x": Embedding("x", rows(2, ("te1", "te2"), seed=2), outputs)}
    )
    said = []
    with ExitStack() as stack:
        for encoder in prompts.encoders:
            hook = encoder.model.register_forward_hook(
                lambda _model, _given, output: said.append(output.last_hidden_state.requires_grad)
            )
            stack.callback(hook.remove)
        found = prompts.encode(["a photo of x"])
    assert said == [False, False]
    found.hidden.sum().backward()
    assert [tuple(o.grad.shape) for o in outputs.values()] == [(2, LARGE), (2, GIANT)]
    assert all(torch.equal(o.grad, torch.ones_like(o)) for o in outputs.values())
    assert not found.pooled.requires_grad


def test_a_token_that_no_caption_holds_has_a_gradient_of_zero():
    vectors = {te: nn.Parameter(r) for te, r in rows(2, ("te1", "te2"), seed=2).items()}
    outputs = {te: nn.Parameter(r) for te, r in rows(2, ("te1", "te2"), seed=1).items()}
    prompts = sdxl().with_embeddings(
        {"in": Embedding("in", vectors), "out": Embedding("out", {}, outputs)}
    )
    encoded = prompts.encode(["nothing"])
    encoded.hidden.sum().backward()
    assert not any(p.grad.any() for p in (*vectors.values(), *outputs.values()))
    assert torch.equal(encoded.hidden, sdxl().encode(["nothing"]).hidden)


def test_outputs_of_vectors_are_what_the_encoder_says_of_them_alone():
    vectors = rows(3, ("te1", "te2"), seed=2)
    said = sdxl().with_embeddings({"x": Embedding("x", vectors)}).encode(["x"]).hidden[0, 1:4]
    found = sdxl().outputs_of(vectors)
    assert torch.equal(torch.cat([found["te1"], found["te2"]], dim=-1), said)


def test_settings_differ_between_outputs_and_inputs():
    one = rows(2, ("te",), seed=1)
    sides = [(one, {}), ({}, one), (one, one)]
    made = [sd15().with_embeddings({"x": Embedding("x", *side)}).settings() for side in sides]
    assert len(set(made)) == 3
