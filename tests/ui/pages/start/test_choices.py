"""The settings made of the answers of the guided start: once, unless they are gone."""

from dataclasses import replace

import pytest

from onetrainer.guide.aims import AIMS
from onetrainer.guide.base_model import BaseModel
from onetrainer.guide.images import look_at_images
from ui.pages.start.choices import LOOKING, Choices


@pytest.fixture
def choices(project):
    images = look_at_images(project.parent / "pictures", lambda _: None, lambda: None)
    model = BaseModel(str(project.parent / "base.safetensors"), "sd15", side=512, size=1)
    return Choices(images=images, model=model, aim=AIMS[0], word="mika-k")


def test_answers_are_filled_in_once_and_again_when_their_settings_are_gone(choices, draft, project):
    draft.load(project)
    assert choices.apply(draft)
    assert (draft.value("data.trigger"), draft.value("metadata.trigger_words")) == ("mika-k", "")
    draft.set("training.steps", 77)
    # What is found in the same folder later is no other answer.
    choices.images = replace(choices.images, images=5, warnings=("One image cannot be used.",))
    assert not choices.apply(draft)
    assert draft.value("training.steps") == 77
    draft.undo()
    draft.undo()
    assert draft.value("data.trigger") == ""
    assert choices.apply(draft)
    draft.load(project)
    assert choices.apply(draft)
    assert draft.value("data.trigger") == "mika-k"


def test_the_settings_of_few_images_wait_until_each_was_decoded(choices):
    assert choices.aim_reason() == ""
    few = choices.images = replace(choices.images, is_checked=False)
    assert choices.aim_reason() == LOOKING
    choices.images = replace(few, images=5000)
    assert choices.aim_reason() == ""
