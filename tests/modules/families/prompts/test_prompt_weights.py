"""Weighted prompts against the formulas of AUTOMATIC1111 and ComfyUI in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.close import close
from tests.tiny_prompts import by_hand, embedding, ids_of, sd15, sdxl, tokenizer, words

LONG = words(80)
# A prompt, the same without marks, and the weight of each of its tokens, by style.
PROMPTS = {
    "a1111": [
        ("a (red:1.5) cat, [sun]", "a red cat, sun", [1, 1.5, 1, 1, 1 / 1.1]),
        (f"{LONG} (dog:0.5)", f"{LONG} dog", [1] * 80 + [0.5]),
    ],
    "comfyui": [
        ("a (red:1.5) cat, ((sun))", "a red cat, sun", [1, 1.5, 1, 1, 1.21]),
        (f"{LONG} (dog:-0.5)", f"{LONG} dog", [1] * 80 + [-0.5]),
    ],
}


def expected(encoder, style, plain, weights):
    """The formulas, chunk by chunk. Stable Diffusion web UI, "Original"; ComfyUI's own."""
    pad, chunks = encoder.pad, -(-len(weights) // 75)
    rows = ids_of(tokenizer(), plain, pad, chunks=chunks)
    empty = by_hand(encoder, ids_of(tokenizer(), "", pad))[0][0].numpy().astype(np.float64)
    found = []
    for number, row in enumerate(rows):
        z = by_hand(encoder, [row])[0][0].numpy().astype(np.float64)
        w = np.ones((77, 1))
        own = weights[75 * number : 75 * number + 75]
        w[1 : 1 + len(own), 0] = own
        if style == "a1111":
            found.append(z * w * (z.mean() / (z * w).mean()))
        else:
            found.append((z - empty) * w + empty)
    return torch.tensor(np.concatenate(found))


@pytest.mark.parametrize("style", PROMPTS)
def test_vectors_are_those_of_the_formula(style):
    for make in (sd15, sdxl):
        plain, prompts = make(), replace(make(), weights=style)
        for text, unmarked, weights in PROMPTS[style]:
            found = prompts.encode([text, "a cat"])
            by_encoder = [expected(each, style, unmarked, weights) for each in plain.encoders]
            reference = torch.cat(by_encoder, dim=-1)
            close(found.hidden[0], reference)
            # The prompt beside it, and the vectors of whole texts, are as without weights.
            unweighted = plain.encode([unmarked, "a cat"])
            close(found.hidden[1], unweighted.hidden[1])
            if unweighted.pooled is not None:
                close(found.pooled, unweighted.pooled)


def test_prompts_without_marks_are_encoded_bit_for_bit_as_without_weights():
    for make in (sd15, sdxl):
        for style in PROMPTS:
            captions = ["a red cat", "", LONG]
            found = replace(make(), weights=style).encode(captions, among=["a (b:2)"])
            assert torch.equal(found.hidden, make().encode(captions).hidden)


def test_escaped_parentheses_are_tokens_and_count_as_such():
    prompts = replace(sd15(), weights="a1111")
    assert torch.equal(
        prompts.encode([r"cat \(animal\)"]).hidden, sd15().encode(["cat (animal)"]).hidden
    )
    assert prompts.count_tokens("(cat:1.3)") == 1
    assert sd15().count_tokens("(cat:1.3)") > 1


def test_all_vectors_of_an_embedding_are_weighted():
    plain = sd15().with_embeddings({"smiley": embedding(2, encoders=["te"])})
    unweighted = plain.encode(["a smiley"]).hidden[0].double()
    found = replace(plain, weights="a1111").encode(["a (smiley:2)"]).hidden[0]
    weights = torch.ones(77, 1).double()
    weights[2:4] = 2  # after the start and "a"
    weighted = weights * unweighted
    reference = weighted * (unweighted.mean() / weighted.mean())
    close(found, reference)


def test_cached_captions_depend_on_how_weights_are_read():
    settings = {replace(sd15(), weights=style).settings() for style in ("off", *PROMPTS)}
    assert len(settings) == 3
    assert sd15().settings() in settings
