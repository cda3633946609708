"""Rules of embeddings."""

import json
from typing import get_args

from onetrainer.config.optimizers.optimizer import Optimizer
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix
from onetrainer.presets.presets import load_document, resolve
from onetrainer.rules.embedding import problems
from tests.each import each


def found(**document):
    return [(p.path, p.severity) for p in problems(TrainConfig.model_validate(document))]


def tokens(*names, **section):
    return {"tokens": [{"token": name} for name in names], **section}


SCHEDULE_FREE = [
    section().kind for section in get_args(get_args(Optimizer)[0]) if section.is_schedule_free
]
PROMPT = {"prompts": [{"prompt": "a  <MY cat> on grass"}]}


def test_tokens_with_a_lora_and_no_tokens_at_all_are_fine():
    assert found() == []
    assert found(embeddings=tokens("<my cat>", "<my cat 2>", bundle=True), sampling=PROMPT) == []
    assert found(method={"kind": "embedding"}, embeddings=tokens("<my cat>"), sampling=PROMPT) == []


@each("entries", [[], [{"token": "cat", "initial_text": "dog", "train": False}]])
def test_the_embedding_method_needs_a_trained_token(entries):
    method = {"kind": "embedding"}
    assert found(method=method, embeddings={"tokens": entries}) == [("embeddings.tokens", "error")]
    assert found(embeddings={"tokens": entries}) == []


@each(
    ("names", "place", "severity"),
    [
        (("cat", " CAT"), 1, "error"),
        (("red cat", "dog", "Red  Cat"), 2, "error"),
        (("dog", " "), 1, "error"),
        (("***",), 0, "error"),
        (("red, cat",), 0, "warning"),
    ],
)
def test_tokens_that_cannot_be_distinguished_or_found_are_named(names, place, severity):
    assert found(embeddings=tokens(*names)) == [(f"embeddings.tokens.{place}.token", severity)]


@each("kind", SCHEDULE_FREE)
def test_norms_cannot_be_preserved_with_averages_of_the_optimizer(kind):
    document = {"optimizer": {"kind": kind}, "embeddings": tokens("cat")}
    (problem,) = problems(TrainConfig.model_validate(document))
    assert (problem.path, problem.severity) == ("embeddings.preserve_norm", "error")
    assert [fix.path for fix in problem.choices] == [problem.path, "optimizer.kind"]
    for fix in problem.choices:
        section, name = fix.path.split(".")
        mended = {**document, section: {**document[section], name: fix.value}}
        assert found(**mended) == []
    idle = {"tokens": [{"token": "cat", "initial_text": "cat", "train": False}]}
    assert found(optimizer={"kind": kind}, embeddings=idle) == []


def test_a_frozen_token_needs_an_initial_value():
    place = ("embeddings.tokens.1.start_from", "error")
    still = {"token": "cat", "train": False}
    assert found(embeddings={"tokens": [{"token": "dog"}, still]}) == [place]
    assert found(embeddings={"tokens": [{"token": "dog"}, still | {"initial_text": " "}]}) == [
        place
    ]
    for beginning in ({"initial_text": "a cat"}, {"start_from": "cat.pt"}):
        assert found(embeddings={"tokens": [{"token": "dog"}, still | beginning]}) == []


def test_samples_without_a_token_are_a_warning():
    assert found(embeddings=tokens("dog"), sampling=PROMPT) == [("sampling.prompts", "warning")]
    assert found(embeddings=tokens("dog", "<my cat>"), sampling=PROMPT) == []
    negative = {"prompts": [{"prompt": "a cat", "negative": "dog"}]}
    assert found(embeddings=tokens("dog"), sampling=negative) == []


def test_bundling_needs_an_adapter_and_is_has_a_fix():
    config = TrainConfig.model_validate(
        {"method": {"kind": "embedding"}, "embeddings": tokens("cat", bundle=True)}
    )
    (problem,) = problems(config)
    assert (problem.path, problem.severity) == ("embeddings.bundle", "warning")
    assert problem.fix == Fix("embeddings.bundle", value=False)


def test_a_file_to_continue_from_is_relative_to_the_config(tmp_path):
    entry = {"token": "cat", "start_from": "old/cat.pt"}
    (tmp_path / "c.json").write_text(json.dumps({"embeddings": {"tokens": [entry]}}))
    config = resolve(load_document(tmp_path / "c.json"), source="")
    assert config.embeddings.tokens[0].start_from == str(tmp_path / "old" / "cat.pt")
