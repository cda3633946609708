"""Which settings are shown: what counts for some of the images only, and depends on which."""

from itertools import product

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


def set_data(draft, concepts, **data):
    entries = [Concept(**each).model_dump(mode="json") for each in concepts]
    draft.set_all({"data.concepts": entries, **{f"data.{key}": v for key, v in data.items()}})


def test_settings_of_masks_are_shown_where_a_folder_in_use_has_masks(home):
    assert len(MASK) > 3
    draft = Draft()
    for concepts, of_all in [
        ([], "off"),
        ([], "alpha"),
        ([CAT], "off"),
        ([CAT], "files"),
        ([CAT | {"masks": "off"}], "alpha"),
        ([CAT | {"masks": "files"}], "off"),
        ([CAT, CAT | {"masks": "alpha"}], "off"),
        ([OFF | {"masks": "files"}], "off"),
        ([OFF | {"masks": "files"}], "files"),
        ([OFF | {"masks": "files"}, CAT | {"masks": "alpha"}], "off"),
    ]:
        set_data(draft, concepts, masks=of_all)
        expected = has_masks(draft.config())
        for setting in MASK:
            visible = is_visible(draft, setting, setting.path, Visibility(True, set()))
            assert visible == expected, (concepts, of_all, setting.path)


def test_what_keeps_the_model_is_weighed_where_there_are_such_images(home):
    draft = Draft()
    weight, kind = (find_setting(f"objective.prior.{key}") for key in ("weight", KIND))
    for role, folder in product(["train", "validation", "prior", "own_prediction"], ["", "/class"]):
        set_data(draft, [CAT | {"role": role}], class_folder=folder)
        found = concepts_of(draft.config())
        is_weighed = any(each.is_prior for each in found)
        assert has_effect(draft, weight, weight.path) == is_weighed, (role, folder)
        is_trained = any(each.role == "prior" for each in found)
        assert has_effect(draft, kind, kind.path) == is_trained, (role, folder)


def test_what_one_folder_is_enough_for_says_so():
    words = or_with_text("data.concepts.*.masks", ("files", "alpha"))
    assert words == "Or with Masks image files and transparency in one of “More folders”"


def test_what_one_entry_is_enough_for_names_choices_of_entries_that_there_are():
    found = [pair for setting in all_settings() for pair in setting.ui.or_with.items()]
    assert found
    for name, values in found:
        assert set(values) < set(setting_at(name.replace("*", "0")).choices)
