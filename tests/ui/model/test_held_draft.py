"""A draft that is shown before it is checked is the same draft after that."""

import json

import pytest

from onetrainer.errors import UserError
from onetrainer.presets.find import BUILT_IN
from ui.model.draft import PENDING, Draft
from ui.model.held_draft import HeldDraft
from ui.model.variants import all_settings, is_variant_choice

LORA = BUILT_IN / "sd15" / "lora.json"
WRONG_TYPES = (["x"], {"x": ["x"]}, 7, None, "x")


def held_draft(is_told=None):
    """One that is released by its first change. is_told: takes the place of that."""
    draft = HeldDraft(is_told or (lambda: draft.release() is not None))
    return draft


def written(path, places, value):
    """A config file with one value at many places."""
    document = {}
    for place in places:
        section = document
        *outer, key = place.split(".")
        for name in outer:
            section = section.setdefault(name, {})
        section[key] = value
    path.write_text(json.dumps(document))
    return path


def state_of(draft):
    problems = [str(problem) for problem in draft.problems]
    values = (draft.document, draft.base, draft.origin, draft.variants)
    return (*values, problems, draft.valid_config(), draft.changed(), draft.last_change)


@pytest.fixture
def earlier(home):
    """The draft of an earlier window, with a change to a preset."""
    draft = Draft()
    draft.load(LORA)
    draft.set("training.steps", 7)
    return draft.document, draft.base, draft.origin


def restored(kind, earlier):
    draft = kind()
    draft.restore(*earlier)
    return draft


def test_it_has_no_problems_before_its_release_and_those_of_a_plain_one_then(earlier):
    held = restored(held_draft, earlier)
    assert (held.problems, held.valid_config()) == ([PENDING], None)
    assert not held.is_startable  # no base model is chosen, which needs no check
    assert held.release() == []
    assert state_of(held) == state_of(restored(Draft, earlier))


def test_a_previewed_file_is_loaded_with_the_release_or_the_first_change(earlier, project):
    plain = restored(Draft, earlier)
    replaced = plain.load(project)
    held = restored(held_draft, earlier)
    held.preview(project)
    assert held.document == plain.document
    assert held.release() == replaced and "training.steps" in replaced
    assert state_of(held) == state_of(plain)
    changed = restored(held_draft, earlier)
    changed.preview(project)
    for draft in (plain, changed):
        draft.set("training.batch_size", 3)
    assert state_of(changed) == state_of(plain)
    changed.undo()
    changed.undo()
    assert (changed.document, changed.origin) == (earlier[0], earlier[2])


def test_an_invalid_file_leaves_the_draft_of_before(earlier, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"training": {"steps": "many"}}))
    held = restored(held_draft, earlier)
    held.preview(wrong)
    assert held.value("training.steps") == "many"
    with pytest.raises(UserError, match="many"):
        held.release()
    assert state_of(held) == state_of(restored(Draft, earlier))
    wrong.write_text("{")
    with pytest.raises(UserError, match="wrong"):
        held_draft().preview(wrong)


def test_a_change_meant_for_a_file_that_was_refused_is_not_made_to_another_draft(earlier, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"training": {"steps": "many"}}))

    def refuse():
        if held.is_held:
            with pytest.raises(UserError):
                held.release()
        return False

    plain = restored(Draft, earlier)
    for change in (
        lambda draft: draft.set("training.batch_size", 3),
        lambda draft: draft.set_all({"training.batch_size": 3}),
        lambda draft: draft.set("method.kind", "full"),
        lambda draft: draft.reset("training.steps"),
        lambda draft: draft.reset("method.kind"),
        lambda draft: draft.reset_all(),
        lambda draft: draft.undo(),
        lambda draft: draft.redo(),
    ):
        held = restored(lambda: held_draft(refuse), earlier)
        held.preview(wrong)
        change(held)
        assert not held.is_held
        assert state_of(held) == state_of(plain)
    # What takes the place of the file does so whatever became of it.
    held = restored(lambda: held_draft(refuse), earlier)
    held.preview(wrong)
    held.load(LORA)
    plain.load(LORA)
    assert state_of(held) == state_of(plain)


def test_a_file_with_values_of_any_type_anywhere_can_be_previewed(tmp_path):
    settings = [setting.path for setting in all_settings() if setting.path != "version"]
    within = [path.split(".")[:end] for path in settings for end in range(1, path.count(".") + 1)]
    sections = {".".join(parts) for parts in within}
    alone = sections | {path for path in settings if is_variant_choice(path)} | {"model.family"}
    rest = [path for path in settings if path not in alone]
    assert len(alone) > 40 and len(rest) > 200
    for value in WRONG_TYPES:
        for places in (rest, *([path] for path in sorted(alone))):
            draft = held_draft()
            draft.preview(written(tmp_path / "wrong.json", places, value))
            assert draft.problems == [PENDING]
