"""Embeddings in prompts: against diffusers' own, and against vectors put in by hand."""

import copy
import dataclasses

import pytest
import torch
from safetensors.torch import load_file

from modules.families.prompts.prompts import ClipPrompts
from modules.formats.embeddings.embedding_file import Embedding, write_embedding
from onetrainer.captions.placeholder_tokens import missing_tokens
from onetrainer.errors import UserError
from tests.close import close
from tests.each import each
from tests.tiny_prompts import (
    END,
    GIANT,
    LARGE,
    START,
    embedding,
    encode_with,
    ids_of,
    sd15,
    sd_pipeline,
    sdxl,
    tokenizer,
    words,
    xl_pipeline,
)

CAPTIONS = ["a photo of <smiley>", "<smiley>, a red <smiley> on grass", "nothing", ""]
PLACE = -1  # among ids written by hand: one vector, in the order of the prompt


def by_hand(encoder, rows, vectors):
    """The last but one layer for rows of ids, with vectors where PLACE is; layer by layer."""
    core = getattr(encoder.model, "text_model", encoder.model)
    ids, outputs, given = torch.tensor(rows), [], iter(vectors)
    for row in ids:
        inputs = core.embeddings.token_embedding(row.clamp(min=0)).clone()
        for place in (row == PLACE).nonzero().flatten():
            inputs[place] = next(given)
        hidden = inputs + core.embeddings.position_embedding.weight
        mask = torch.full((77, 77), -torch.inf).triu(1)
        for layer in core.encoder.layers[:-1]:
            hidden = layer(hidden[None] if hidden.ndim == 2 else hidden, mask[None, None])
        outputs.append(hidden)
    return torch.cat(outputs, dim=1)


@pytest.mark.parametrize("length", [1, 3])
def test_diffusers_reads_our_sd_file_and_encodes_the_same(tmp_path, length):
    write_embedding(tmp_path / "one.safetensors", embedding(length, encoders=["te"]))
    pipe = sd_pipeline()
    pipe.load_textual_inversion(tmp_path, weight_name="one.safetensors", token="<smiley>")
    prompts = sd15().with_embeddings({"<smiley>": embedding(length, encoders=["te"])})
    found = prompts.encode(CAPTIONS).hidden
    close(found, encode_with(pipe, CAPTIONS))
    assert not torch.allclose(found[0], sd15().encode(CAPTIONS).hidden[0], atol=0.01)


@pytest.mark.parametrize("length", [1, 3])
def test_diffusers_reads_our_sdxl_file_and_encodes_the_same(tmp_path, length):
    write_embedding(tmp_path / "one.safetensors", embedding(length))
    state, pipe = load_file(tmp_path / "one.safetensors"), xl_pipeline(end=END)
    for key, model, its_tokenizer in (
        ("clip_l", pipe.text_encoder, pipe.tokenizer),
        ("clip_g", pipe.text_encoder_2, pipe.tokenizer_2),
    ):
        pipe.load_textual_inversion(
            state[key], token="<smiley>", text_encoder=model, tokenizer=its_tokenizer
        )
    found = sdxl().with_embeddings({"<smiley>": embedding(length)}).encode(CAPTIONS)
    hidden, pooled = encode_with(pipe, CAPTIONS)
    close(found.hidden, hidden)
    close(found.pooled, pooled)


def test_two_embeddings_in_one_prompt_keep_their_places():
    first, second = embedding(2, seed=1), embedding(3, seed=2)
    prompts = sdxl().with_embeddings({"grin": first, "frown": second})
    found = prompts.encode(["a FROWN, then grin"]).hidden
    middle = ids_of(tokenizer(), ", then", 0)[0][1:3]
    row = [START, 320, *[PLACE] * 3, *middle, *[PLACE] * 2, END]
    sides = []
    for encoder in prompts.encoders:
        vectors = [*second.vectors[encoder.name], *first.vectors[encoder.name]]
        sides.append(by_hand(encoder, [row + [encoder.pad] * (77 - len(row))], vectors))
    close(found, torch.cat(sides, dim=-1))


@each(("before", "cut"), [(72, False), (73, True), (74, True), (75, True)])
def test_an_embedding_moves_whole_into_the_next_chunk(before, cut):
    prompts = sdxl().with_embeddings({"smiley": embedding(3)})
    encoder, vectors = prompts.encoders[0], embedding(3).vectors["te1"]
    found = prompts.encode([f"{words(before)} smiley sun"]).hidden[..., :LARGE]
    ids = ids_of(tokenizer(), words(before), END)[0][1 : 1 + before]
    first = ids if cut else [*ids, *[PLACE] * 3]
    sun = ids_of(tokenizer(), "sun", END)[0][1]
    second = [*[PLACE] * 3, sun] if cut else [sun]
    rows = [[START, *row, END, *[END] * (75 - len(row))] for row in (first, second)]
    close(found, by_hand(encoder, rows, vectors))


def test_an_embedding_longer_than_a_chunk_flows_on():
    prompts = sdxl().with_embeddings({"smiley": embedding(80)})
    encoder, vectors = prompts.encoders[0], embedding(80).vectors["te1"]
    rows = [[START, *[PLACE] * 75, END], [START, *[PLACE] * 5, *[END] * 71]]
    found = prompts.encode(["smiley"]).hidden[..., :LARGE]
    close(found, by_hand(encoder, rows, vectors))


@each("caption", ["smileys", "asmiley", "smiley_2", "smiley2", "ſmileyish", "a smile y"])
def test_a_name_inside_a_longer_name_is_left_alone(caption):
    prompts = sd15().with_embeddings({"smiley": embedding(2, encoders=["te"])})
    assert torch.equal(prompts.encode([caption]).hidden, sd15().encode([caption]).hidden)


@each("caption", ["SMILEY", "(smiley:1.2)", "smiley,", "x-smiley", "smiley's"])
def test_a_name_between_other_signs_is_found(caption):
    one = sd15().with_embeddings({"Smiley": embedding(1, encoders=["te"])})
    two = sd15().with_embeddings({"Smiley": embedding(2, encoders=["te"])})
    assert two.count_tokens(caption) == one.count_tokens(caption) + 1


def test_the_longer_of_two_names_wins():
    prompts = sd15().with_embeddings(
        {"bad": embedding(1, encoders=["te"]), "bad hands-5": embedding(9, encoders=["te"])}
    )
    assert prompts.count_tokens("bad  Hands-5") == 9
    assert prompts.count_tokens("bad hands") == 2


def test_vectors_train_in_single_precision_in_a_half_encoder():
    vectors = {name: v.requires_grad_() for name, v in embedding(2).vectors.items()}
    encoders = tuple(
        dataclasses.replace(each, model=copy.deepcopy(each.model).to(torch.bfloat16))
        for each in sdxl().encoders
    )
    prompts = ClipPrompts(tokenizer(), encoders).with_embeddings({"x": Embedding("x", vectors)})
    found = prompts.encode(["a photo of x", "x"])
    (found.hidden.float().pow(2).mean() + found.pooled.float().pow(2).mean()).backward()
    assert found.hidden.dtype == torch.bfloat16
    assert all(v.grad.dtype == torch.float32 and v.grad.abs().min() > 0 for v in vectors.values())


def test_encoder_and_tokenizer_stay_as_they_were():
    plain, table = sdxl(), sdxl().encoders[1].model.get_input_embeddings()
    weights, vocabulary, expected = table.weight.clone(), len(tokenizer()), plain.encode(CAPTIONS)
    knowing = plain.with_embeddings({"<smiley>": embedding(3)})
    knowing.encode(CAPTIONS)
    assert torch.equal(table.weight, weights)
    assert not table._forward_hooks
    assert len(tokenizer()) == vocabulary
    assert torch.equal(plain.encode(CAPTIONS).hidden, expected.hidden)
    assert not plain.embeddings


def test_the_table_is_let_go_of_when_encoding_fails(monkeypatch):
    prompts = sd15().with_embeddings({"smiley": embedding(2, encoders=["te"])})
    model = prompts.encoders[0].model
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prompts.encode(["smiley"])
    assert not model.get_input_embeddings()._forward_hooks


@each(
    ("vectors", "words"),
    [
        ({"te": torch.zeros(1, 1024)}, ("vectors of 1024 numbers (SD 2.x)",)),
        ({"te": torch.zeros(1, LARGE)}, (f"vectors of {LARGE} numbers (",)),
        (
            {"te1": torch.zeros(1, LARGE)},
            (f"of {LARGE} numbers (SDXL)", f"{LARGE} and {GIANT} numbers (SDXL)"),
        ),
        ({"te1": torch.zeros(1, 768), "te2": torch.zeros(1, 1280)}, ("768 and 1280 numbers",)),
        ({}, ("no vectors (no published family)",)),
        ({"te": torch.zeros(1, LARGE), "te2": torch.zeros(1, GIANT)}, (f"{LARGE} and {GIANT}",)),
    ],
)
def test_an_embedding_for_another_model_is_refused(vectors, words):
    for sides in ((vectors, {}), ({}, vectors)):
        with pytest.raises(UserError) as refusal:
            sdxl().with_embeddings({"smiley": Embedding("smiley", *sides)})
        assert all(word in str(refusal.value) for word in ("smiley", *words))


@each("second", ["SMILEY", " smiley", ""])
def test_a_token_cannot_mean_two_embeddings_or_be_empty(second):
    prompts = sdxl().with_embeddings({"smiley": embedding(1)})
    with pytest.raises(UserError):
        prompts.with_embeddings({second: embedding(2)})


def test_settings_differ_between_embeddings():
    others = [
        sdxl().with_embeddings({"smiley": embedding(2)}),
        sdxl().with_embeddings({"smiley": embedding(2, seed=1)}),
        sdxl().with_embeddings({"smiling": embedding(2)}),
    ]
    assert len({sdxl().settings(), *(other.settings() for other in others)}) == 4


def test_tokens_that_no_caption_holds_are_named():
    captions = ["a photo of a Red  Cat", "smileys", "<grin>,frown"]
    words = ["red cat", "smiley", "<grin>", "FROWN", "cat 2"]
    assert missing_tokens(captions, words) == ["smiley", "cat 2"]
    assert missing_tokens([], ["grin"]) == ["grin"]
    assert missing_tokens(captions, []) == []
