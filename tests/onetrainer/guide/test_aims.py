"""That every aim has a preset in every family, and what the answers fill in."""

import json
from dataclasses import replace

import pytest
from PIL import Image

from onetrainer.families.registry import FAMILIES
from onetrainer.guide.aims import (
    AIMS,
    Answers,
    asked,
    preset_of,
    settings_of,
    word_problem,
)
from onetrainer.guide.base_model import BaseModel
from onetrainer.guide.images import look_at_images
from onetrainer.guide.prompts import prompts_of
from onetrainer.presets.presets import load_document, resolve, with_value
from onetrainer.rules.rules import check_rules

BY_NAME = {aim.name: aim for aim in AIMS}


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "My Cat!"
    folder.mkdir()
    for index in range(6):
        Image.new("RGB", (64, 48)).save(folder / f"{index}.png")
        (folder / f"{index}.txt").write_text(f"a cat, number {index}")
    return look_at_images(folder, lambda _: None, lambda: None)


def config_of(answers, **how):
    preset = preset_of(answers.aim, answers.model.family, **how)
    document = load_document(preset)
    # Without a GPU as well, since then there is one setting more.
    for path, value in settings_of(answers, preset, has_gpu=False).items():
        document = with_value(document, path, value)
    return resolve(document, source="")


def test_every_aim_gives_a_valid_config_in_every_family_with_and_without_captions(images):
    bare = replace(images, captions=0, captioned=())
    for spec in FAMILIES:
        model = BaseModel("base.safetensors", spec.name, side=spec.side, size=1)
        for aim in AIMS:
            # Whether there are captions has nothing to do with the family.
            for found in (images, bare) if spec is FAMILIES[0] else (images,):
                answers = Answers(found, model, aim, word="mika-k")
                config = config_of(answers)
                wrong = [str(each) for each in check_rules(config) if each.severity == "error"]
                assert wrong == [], (spec.name, aim.name)
                assert config.hardware.precision == "fp32"
                assert (config.model.family, config.data.resolution) == (spec.name, spec.side)


def test_the_captions_become_sample_prompts_as_they_are_trained(images):
    proposed = prompts_of(images.captioned, images.concept, 512)
    assert [entry["prompt"] for entry in proposed] == [f"a cat, number {i}" for i in range(3)]
    model = BaseModel("base.safetensors", "sdxl", side=1024, size=1)
    config = config_of(Answers(images, model, BY_NAME["person"], word=" mika-k "))
    first = config.sampling.prompts[0]
    assert (first.prompt, first.width, first.height) == ("mika-k, a cat, number 0", 1024, 1024)
    assert (config.data.trigger, config.output.name) == ("mika-k", "mika-k")
    style = config_of(Answers(images, model, BY_NAME["style"]))
    assert (style.data.trigger, style.output.name) == ("", "my-cat")


def test_images_without_captions_are_trained_on_the_word_alone(images):
    bare = replace(images, captions=0, captioned=())
    assert asked(BY_NAME["style"], bare) == "trigger"
    assert asked(BY_NAME["style"], images) == ""
    model = BaseModel("base.safetensors", "sd15", side=512, size=1)
    answers = Answers(bare, model, BY_NAME["style"])
    assert "trigger word" in word_problem(answers)
    config = config_of(replace(answers, word="inkwash"))
    assert (config.data.caption_source, config.data.caption_text) == ("text", "")
    assert [prompt.prompt for prompt in config.sampling.prompts] == ["inkwash"]


def test_an_embedding_gets_its_token_in_every_caption_and_begins_with_what_it_shows(images):
    model = BaseModel("base.safetensors", "sd15", side=512, size=1)
    answers = Answers(images, model, BY_NAME["embedding"], word="<my-cat>", shows="a red cat")
    (token,) = config_of(answers).embeddings.tokens
    assert (token.token, token.initial_text, token.vectors) == ("<my-cat>", "a red cat", 4)
    assert config_of(answers).data.trigger == "<my-cat>"
    assert "comma" in word_problem(replace(answers, word="my,cat"))
    assert "token" in word_problem(replace(answers, word="<>"))


def test_the_length_follows_from_the_images_and_samples_have_the_training_resolution(images):
    unknown = BaseModel("someone/model", "sdxl")  # a name on the Hub says no size
    for count, aim, expected in (
        (10, "style", (500, 50, 50)),
        (300, "style", (4000, 400, 500)),
        (10, "embedding", (1500, 150, 250)),
    ):
        answers = Answers(replace(images, images=count), unknown, BY_NAME[aim], word="inkwash")
        config = config_of(answers)
        found = (config.training.steps, config.sampling.every, config.output.save_every)
        assert found == expected, (count, aim)
        sizes = {(prompt.width, prompt.height) for prompt in config.sampling.prompts}
        assert sizes == {(config.data.resolution,) * 2} == {(1024, 1024)}


def test_lengths_and_intervals_in_other_units_than_steps_stay_as_the_preset_has_them(
    images, tmp_path
):
    answers = Answers(images, BaseModel("base.safetensors", "sd15", side=512, size=1), AIMS[0])
    preset = preset_of(answers.aim, "sd15")
    paths = ("training.steps", "sampling.every", "output.save_every")
    for changes, expected in (
        ({"sampling.every": "1 epoch"}, (400, None, 75)),
        ({"output.save_every": "30 minutes", "sampling.every": "300 steps"}, (400, 100, None)),
        ({"training.steps": "10 epochs"}, (None, None, None)),
    ):
        document = load_document(preset)
        for path, value in changes.items():
            document = with_value(document, path, value)
        (tmp_path / "preset.json").write_text(json.dumps(document))
        values = settings_of(answers, tmp_path / "preset.json")
        assert tuple(map(values.get, paths)) == expected


def test_an_object_has_a_preset_of_its_own_where_the_family_has_one():
    stems = {
        family: preset_of(BY_NAME["object"], family).stem for family in ("sdxl", "sd15", "sd2")
    }
    assert stems == {"sdxl": "lora-object", "sd15": "lora-character", "sd2": "lora"}


def test_a_full_fine_tune_takes_the_most_that_the_gpu_has_and_the_least_without_one():
    full = BY_NAME["full"]
    stems = {gib: preset_of(full, "sd15", gpu_gib=gib).stem for gib in (0.0, 7.7, 15.6, 80.0)}
    assert stems == {
        0.0: "fine-tune-8gb",
        7.7: "fine-tune-8gb",
        15.6: "fine-tune-16gb",
        80.0: "fine-tune-24gb",
    }
