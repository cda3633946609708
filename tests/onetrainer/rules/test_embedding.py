"""What a config says of words that cannot be learned as they stand."""

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


def words(*names, **section):
    return {"tokens": [{"token": name} for name in names], **section}


SCHEDULE_FREE = [
    section().kind for section in get_args(get_args(Optimizer)[0]) if section.is_schedule_free
]
PROMPT = {"prompts": [{"prompt": "a  <MY cat> on grass"}]}


def test_words_beside_a_lora_and_no_words_at_all_are_fine():
    assert found() == []
    assert found(embeddings=words("<my cat>", "<my cat 2>", bundle=True), sampling=PROMPT) == []
    assert found(method={"kind": "embedding"}, embeddings=words("<my cat>"), sampling=PROMPT) == []


@each("entries", [[], [{"token": "cat", "initial_text": "dog", "train": False}]])
def test_a_method_of_words_needs_one_that_trains(entries):
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
def test_words_that_cannot_be_told_apart_or_found_are_named(names, place, severity):
    assert found(embeddings=words(*names)) == [(f"embeddings.tokens.{place}.token", severity)]


@each("kind", SCHEDULE_FREE)
def test_lengths_cannot_be_kept_of_what_the_optimizer_averages_itself(kind):
    document = {"optimizer": {"kind": kind}, "embeddings": words("cat")}
    (problem,) = problems(TrainConfig.model_validate(document))
    assert (problem.path, problem.severity) == ("embeddings.preserve_norm", "error")
    assert [fix.path for fix in problem.choices] == [problem.path, "optimizer.kind"]
    for fix in problem.choices:
        section, name = fix.path.split(".")
        mended = {**document, section: {**document[section], name: fix.value}}
        assert found(**mended) == []
    idle = {"tokens": [{"token": "cat", "initial_text": "cat", "train": False}]}
    assert found(optimizer={"kind": kind}, embeddings=idle) == []


def test_a_word_that_does_not_train_needs_something_to_begin_as():
    place = ("embeddings.tokens.1.start_from", "error")
    still = {"token": "cat", "train": False}
    assert found(embeddings={"tokens": [{"token": "dog"}, still]}) == [place]
    assert found(embeddings={"tokens": [{"token": "dog"}, still | {"initial_text": " "}]}) == [
        place
    ]
    for beginning in ({"initial_text": "a cat"}, {"start_from": "cat.pt"}):
        assert found(embeddings={"tokens": [{"token": "dog"}, still | beginning]}) == []


def test_samples_without_a_word_are_a_warning():
    assert found(embeddings=words("dog"), sampling=PROMPT) == [("sampling.prompts", "warning")]
    assert found(embeddings=words("dog", "<my cat>"), sampling=PROMPT) == []
    negative = {"prompts": [{"prompt": "a cat", "negative": "dog"}]}
    assert found(embeddings=words("dog"), sampling=negative) == []


def test_bundling_needs_an_adapter_and_is_cured_by_a_click():
    config = TrainConfig.model_validate(
        {"method": {"kind": "embedding"}, "embeddings": words("cat", bundle=True)}
    )
    (problem,) = problems(config)
    assert (problem.path, problem.severity) == ("embeddings.bundle", "warning")
    assert problem.fix == Fix("embeddings.bundle", value=False)


def test_a_file_to_go_on_from_is_found_beside_the_config(tmp_path):
    entry = {"token": "cat", "start_from": "old/cat.pt"}
    (tmp_path / "c.json").write_text(json.dumps({"embeddings": {"tokens": [entry]}}))
    config = resolve(load_document(tmp_path / "c.json"), source="")
    assert config.embeddings.tokens[0].start_from == str(tmp_path / "old" / "cat.pt")
