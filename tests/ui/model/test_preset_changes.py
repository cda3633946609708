"""What a preset would change: settings by their labels, and no noise."""

from pathlib import Path

from onetrainer.presets.find import locate
from ui.model.draft import Draft
from ui.model.preset_changes import changes_between
from ui.model.preset_fields import open_config


def document(name, draft):
    return open_config(locate(name), None, draft.value)[0]


def lines(changes):
    return {change.label: (change.old, change.new) for change in changes}


def test_changes_have_the_labels_of_settings_and_mark_the_users_own(home, draft):
    draft.set("training.steps", 777)
    changes = changes_between(draft.document, document("sdxl/lora", draft), draft.changed())
    shown = lines(changes)
    assert shown["Model family"] == ("SD 1.5", "SDXL")
    assert shown["Length"] == ("777", "1500")
    assert [change.path for change in changes if change.is_own] == ["training.steps"]
    assert "Base model" not in shown  # which a built-in preset leaves to the user
    pages = [change.page for change in changes]
    assert pages == sorted(pages, key=pages.index)


def test_listed_changes_are_what_opening_changes(home, draft):
    for name in ("sdxl/fine-tune-12gb", "sd15/embedding", "sd15/reward", "sd2/lora-prodigy"):
        before, target = draft.document, document(name, draft)
        listed = {change.path for change in changes_between(before, target)}
        draft.load(locate(name))
        assert draft.document == target
        assert listed and all(draft.value(path) != _at(before, path) for path in listed), name
        assert changes_between(draft.document, target) == []


def _at(values, path):
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def test_what_another_variant_brings_with_its_defaults_is_left_out(home):
    draft = Draft()
    to_prodigy = document("sd15/lora-prodigy", draft)
    changes = changes_between(draft.document, to_prodigy)
    optimizer = [change.path for change in changes if change.path.startswith("optimizer.")]
    assert "optimizer.kind" in optimizer
    back = changes_between(to_prodigy, draft.document)
    assert {change.path for change in back} == {change.path for change in changes}
    assert lines(back)["Optimizer"] == tuple(reversed(lines(changes)["Optimizer"]))


def test_paths_and_lists_are_short(home, draft):
    old = draft.document
    draft.set("data.folder", str(Path("/a/very/long/path/to/many/other/folders/of/pictures")))
    draft.set("sampling.prompts.0.prompt", "another")
    shown = lines(changes_between(old, draft.document))
    assert shown["Images"][1].startswith("…") and shown["Images"][1].endswith("of/pictures")
    assert shown["Sample prompts"][1].endswith("entries, changed")
