"""Which settings are shown: what counts for some of the pictures only, and depends on which."""

import pytest

from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.base.variants import KIND
from onetrainer.config.data.concept import Concept
from onetrainer.config.fields import setting_at
from ui.model.draft import Draft
from ui.model.form_fields import find_setting
from ui.model.variants import all_settings
from ui.model.visible_settings import Visibility, has_effect, is_visible
from ui.pages.settings.help_card import or_with_text

MASK = [s for s in all_settings() if s.path.startswith("objective.mask.")]
CAT, OFF = {"folder": "/cats"}, {"folder": "/cats", "use": False}


def draft_with(*concepts, **data):
    draft = Draft()
    draft.set("data.concepts", [Concept(**each).model_dump(mode="json") for each in concepts])
    for key, value in data.items():
        draft.set(f"data.{key}", value)
    return draft


@pytest.mark.parametrize("of_all", ["off", "files", "alpha"])
@pytest.mark.parametrize(
    "concepts",
    [
        [],
        [CAT],
        [CAT | {"masks": "off"}],
        [CAT | {"masks": "files"}],
        [CAT, CAT | {"masks": "alpha"}],
        [OFF | {"masks": "files"}],
        [OFF | {"masks": "files"}, CAT | {"masks": "alpha"}],
    ],
)
def test_settings_of_masks_are_shown_where_a_folder_in_use_has_masks(home, of_all, concepts):
    draft = draft_with(*concepts, masks=of_all)
    expected = has_masks(draft.config())
    assert len(MASK) > 3
    for setting in MASK:
        assert is_visible(draft, setting, setting.path, Visibility(True, set())) == expected, (
            setting.path
        )


@pytest.mark.parametrize("folder", ["", "/class"])
@pytest.mark.parametrize("role", ["train", "validation", "prior", "own_prediction"])
def test_what_keeps_the_model_is_weighed_where_there_are_such_images(home, folder, role):
    draft = draft_with(CAT | {"role": role}, class_folder=folder)
    found = concepts_of(draft.config())
    weight, kind = (find_setting(f"objective.prior.{key}") for key in ("weight", KIND))
    assert has_effect(draft, weight, weight.path) == any(each.is_prior for each in found)
    trained = any(each.role == "prior" for each in found)
    assert has_effect(draft, kind, kind.path) == trained


def test_what_one_folder_is_enough_for_says_so():
    words = or_with_text("data.concepts.*.masks", ("files", "alpha"))
    assert words == "Or with Masks image files and transparency in one of “More folders”"


def test_what_one_entry_is_enough_for_names_choices_of_entries_that_there_are():
    found = [pair for setting in all_settings() for pair in setting.ui.or_with.items()]
    assert found
    for name, values in found:
        assert set(values) < set(setting_at(name.replace("*", "0")).choices)
