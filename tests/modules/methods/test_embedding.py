"""Trained embeddings: what they begin as, how they are kept, and the files they become."""

import itertools

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from modules.formats.embeddings.embedding_file import (
    Embedding,
    read_embeddings_by_token,
    write_embedding,
)
from modules.interfaces import ExportOptions
from modules.methods.embedding import Embeddings, tokens_in_vocabulary, unique_file_names
from modules.sampling.sampler import sample
from onetrainer.config.methods.embedding import Embeddings as Section
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.config.run.sampling import Prompt
from onetrainer.errors import UserError
from tests import tiny
from tests.batches import distance
from tests.cases import cases
from tests.close import close
from tests.each import each

BASES = ("sd15", "sd2", "sdxl")
OPTIONS = ExportOptions(torch.float32, {})


def attach(family, *words, seed=3, **section):
    return Embeddings.attach(
        family, Section(tokens=[EmbeddingToken(**word) for word in words], **section), seed=seed
    )


def tokens(family, text):
    """The vectors of a text's tokens, by the encoder's name, side by side with nothing of ours."""
    ids = family.prompts.tokenizer(text, add_special_tokens=False)["input_ids"]
    return {
        te: encoder.get_input_embeddings().weight[ids]
        for te, encoder in family.text_encoders.items()
    }


def train(family, method, captions, *, steps=2, lr=0.05):
    """Move the embeddings away from where they began, as the loop does."""
    parameters = [p for group in method.parameter_groups() for p in group.parameters.values()]
    optimizer = torch.optim.SGD(parameters, lr=lr)
    for _ in range(steps):
        hidden = family.encode_text(captions).hidden.float()
        (hidden * torch.arange(hidden.shape[-1]).sin()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step()


def predict(family, text="a photo of <cat>"):
    prompt = Prompt(prompt=text, width=64, height=64, seed=1)
    return sample(family, [prompt], steps=2, guidance=3.0)


@pytest.mark.parametrize("base", cases(BASES, ["sd2", "sdxl"]))
def test_a_token_begins_as_its_text_in_every_encoder(base):
    family = tiny.family(base)
    knowing, _ = attach(family, {"token": "<cat>", "initial_text": "a red cat"})
    text, word = "a photo of a red cat, happy", "a photo of <cat>, happy"
    assert torch.equal(knowing.encode_text([word]).hidden, family.encode_text([text]).hidden)
    assert knowing.count_tokens("<cat>") == 3


@pytest.mark.parametrize(("vectors", "repeated"), [(2, "a red"), (5, "a red cat a red")])
def test_a_text_is_cut_or_repeated_to_the_number_of_vectors(vectors, repeated):
    family = tiny.family("sdxl")
    _, method = attach(family, {"initial_text": "a red cat", "vectors": vectors})
    (trained,) = method.trained()
    for te, expected in tokens(family, repeated).items():
        assert torch.equal(trained.vectors[te], expected)


def test_without_text_vectors_are_random_by_the_seed_and_as_long_as_known_tokens():
    family = tiny.family("sdxl")
    made = [attach(family, {"vectors": 2}, seed=seed)[1].trained()[0] for seed in (1, 1, 2)]
    for te, encoder in family.text_encoders.items():
        one, same, other = (each.vectors[te] for each in made)
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
        median = encoder.get_input_embeddings().weight.norm(dim=1).median()
        close(one.norm(dim=1), median.expand(2))


@pytest.mark.parametrize("base", cases(BASES, ["sd2", "sdxl"]))
def test_an_output_token_begins_as_what_the_encoder_says_of_its_text(base):
    family = tiny.family(base)
    knowing, method = attach(
        family, {"token": "<cat>", "initial_text": "a red cat", "place": "output"}
    )
    # Alone in a prompt: elsewhere the encoder says of a text what stands before it, too.
    close(knowing.encode_text(["<cat>"]).hidden, family.encode_text(["a red cat"]).hidden)
    assert all(name.endswith("_out") for name in method.state_dict())
    pooled = [
        each.encode_text([text]).pooled
        for each, text in ((knowing, "<cat>"), (family, "a red cat"))
    ]
    assert pooled == [None, None] or torch.equal(*pooled)


def test_a_token_goes_on_from_a_file(tmp_path):
    path, family = tmp_path / "old.safetensors", tiny.family("sdxl")
    widths = zip(("te1", "te2"), tiny.WIDTHS["sdxl"], strict=True)
    vectors = {te: torch.randn(4, width) for te, width in widths}
    write_embedding(path, Embedding("old", vectors), dtype=torch.float16)
    _, method = attach(family, {"start_from": str(path), "vectors": 1, "initial_text": "dog"})
    (trained,) = method.trained()
    for te, rows in vectors.items():
        assert trained.vectors[te].dtype == torch.float32
        assert torch.equal(trained.vectors[te], rows.half().float())


@pytest.mark.parametrize("has_input", [True, False])
def test_an_output_token_goes_on_from_a_file(tmp_path, has_input):
    path, family = tmp_path / "old.safetensors", tiny.family()
    sides = [{"te": torch.randn(4, tiny.WIDTH)} for _ in range(2)]
    write_embedding(path, Embedding("old", sides[0] if has_input else {}, sides[1]))
    knowing, _ = attach(family, {"token": "x", "start_from": str(path), "place": "output"})
    direct = family.with_embeddings(read_embeddings_by_token(path))
    assert torch.equal(knowing.encode_text(["x, y"]).hidden, direct.encode_text(["old, y"]).hidden)


@each(
    ("base", "place", "sides", "words"),
    [
        ("sd2", "input", ("vectors",), f"vectors of {tiny.WIDTH} numbers"),
        ("sdxl", "output", ("outputs",), f"vectors of {tiny.WIDTH} numbers"),
        ("sd15", "input", ("outputs",), "as an output embedding"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, base, place, sides, words):
    path = tmp_path / "old.safetensors"
    given = {side: {"te": torch.randn(1, tiny.WIDTH)} for side in sides}
    write_embedding(path, Embedding("old", given.get("vectors", {}), given.get("outputs", {})))
    with pytest.raises(UserError, match=words):
        attach(tiny.family(base), {"start_from": str(path), "place": place})


def test_a_text_longer_than_a_prompt_is_refused_unless_it_is_cut():
    word = {"initial_text": "cat " * 80}
    with pytest.raises(UserError, match="80 tokens"):
        attach(tiny.family(), word)
    assert attach(tiny.family(), {**word, "vectors": 75})[1].trained()[0].length == 75


@pytest.mark.parametrize("base", cases(BASES, ["sd2", "sdxl"]))
def test_vectors_keep_their_length(base):
    words = [
        {"token": place, "initial_text": "a red cat", "place": place}
        for place in ("input", "output")
    ]
    family = tiny.family(base)
    knowing, method = attach(family, *words)
    begun = method.trained()
    train(knowing, method, ["input or output"])
    now = method.trained()
    for te, encoder in family.text_encoders.items():
        median = encoder.get_input_embeddings().weight.norm(dim=1).median()
        close(now[0].vectors[te].norm(dim=1), median.expand(3))
        own = begun[1].outputs[te].norm(dim=1)
        close(now[1].outputs[te].norm(dim=1), own)
        assert distance([now[0].vectors[te]], [begun[0].vectors[te]]) > 1e-3
        assert distance([now[1].outputs[te]], [begun[1].outputs[te]]) > 1e-3


def test_base_model_is_what_it_was_before_training():
    words = [
        {"token": place, "initial_text": "red cat", "place": place} for place in ("input", "output")
    ]
    knowing, method = attach(tiny.family("sdxl"), *words)
    captions = ["an input, an output"]
    before = knowing.encode_text(captions).hidden.detach()
    train(knowing, method, captions)
    after = knowing.encode_text(captions).hidden.detach()
    with torch.no_grad(), method.base_model():
        assert torch.equal(knowing.encode_text(captions).hidden, before)
    assert torch.equal(knowing.encode_text(captions).hidden, after)
    assert not torch.equal(before, after)


def test_a_saved_state_is_restored_for_any_order_of_the_tokens():
    words = [{"token": "<a>", "vectors": 2}, {"token": "b.c", "place": "output"}]
    knowing, method = attach(tiny.family("sdxl"), *words)
    train(knowing, method, ["<a> b.c"])
    state = {name: rows.clone() for name, rows in method.state_dict().items()}
    assert state.keys() == {"<a>.te1", "<a>.te2", "b.c.te1_out", "b.c.te2_out"}
    other, resumed = attach(tiny.family("sdxl"), *reversed(words))
    resumed.load_state_dict(state)
    captions = ["a <a> and b.c"]
    assert torch.equal(knowing.encode_text(captions).hidden, other.encode_text(captions).hidden)
    for wrong in ({}, state | {"<a>.te1": torch.zeros(1, 32)}):
        with pytest.raises(ValueError, match="te1"):
            resumed.load_state_dict(wrong)


def test_rates_and_ends_are_each_tokens_or_else_those_of_all():
    words = [
        {"token": "a", "lr": 0.5, "stop_after": 7},
        {"token": "b"},
        {"token": "c", "train": False},
    ]
    _, method = attach(tiny.family("sdxl"), *words, lr=0.25, stop_after=9)
    groups = method.parameter_groups()
    found = [(g.component, list(g.parameters), g.lr, g.stop_after) for g in groups]
    assert found == [
        ("embeddings", ["a.te1", "a.te2"], 0.5, 7),
        ("embeddings", ["b.te1", "b.te2"], 0.25, 9),
    ]


@pytest.mark.parametrize(
    ("base", "place"),
    cases(
        itertools.product(BASES, ["input", "output"]),
        [("sd2", "input"), ("sdxl", "output")],
    ),
)
def test_the_file_generates_what_the_trained_token_generates(tmp_path, base, place):
    knowing, method = attach(tiny.family(base), {"token": "<cat>", "vectors": 2, "place": place})
    before = predict(knowing)
    train(knowing, method, ["a <cat>"])
    (path,) = method.export(tmp_path / "cat", OPTIONS)
    assert path == tmp_path / "cat.safetensors"
    (read,) = read_embeddings_by_token(path).values()
    live = predict(knowing)
    assert torch.equal(predict(tiny.family(base).with_embeddings({read.name: read})), live)
    assert not torch.equal(before, live)


def test_several_tokens_get_a_file_each_in_the_wanted_precision(tmp_path):
    words = [{"token": "<cat>"}, {"token": "cat"}, {"token": "c", "train": False}]
    _, method = attach(tiny.family("sdxl"), *words)
    metadata = {"modelspec.architecture": "stable-diffusion-xl-v1-base/lora", "ss_seed": "1"}
    paths = method.export(tmp_path / "my.words", ExportOptions(torch.float16, metadata))
    assert [path.name for path in paths] == [
        "my.words-cat.safetensors",
        "my.words-cat-2.safetensors",
    ]
    tensors = load_file(paths[0])
    assert {key: rows.dtype for key, rows in tensors.items()} == dict.fromkeys(
        ("clip_l", "clip_g"), torch.float16
    )
    with safe_open(paths[0], "pt") as file:
        written = file.metadata()
    assert written["modelspec.architecture"] == "stable-diffusion-xl-v1-base/textual-inversion"
    assert (written["name"], written["modelspec.trigger_phrase"], written["ss_seed"]) == (
        "<cat>",
        "<cat>",
        "1",
    )


def test_file_names_are_safe_and_apart():
    words = ["<my cat>", "My-Cat", "a/b\\c:d", "***", "…", "日本" * 40]
    found = unique_file_names(words)
    assert found[:5] == ["my-cat", "My-Cat-2", "a-b-c-d", "word", "word-2"]
    assert found[5] == "日本" * 10


def test_tokens_of_the_vocabulary_are_named():
    section = Section(
        tokens=[EmbeddingToken(token=word) for word in ("cat", "<cat>", "sks", "smilley", "Red")]
    )
    assert tokens_in_vocabulary(tiny.family(), section) == ["cat", "sks", "Red"]
