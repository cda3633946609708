"""Saving a preset by key: what is written, and when nothing is."""

import json
from types import SimpleNamespace

from ui.actions.preset_actions import PresetActions
from ui.model.draft import Draft


def test_a_file_is_written_only_where_something_was_changed_or_it_is_gone(home, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"data": {"folder": "pictures"}, "training": {"batch_size": 1}}))
    written, told = path.read_bytes(), []
    draft = Draft()
    draft.load(path)
    act = SimpleNamespace(commit=lambda: True, show_message=told.append)
    presets = PresetActions(SimpleNamespace(draft=draft, act=act))
    assert presets.save()
    assert path.read_bytes() == written
    assert told == ["There are no changes to save."]
    draft.set("training.steps", 77)
    assert presets.save()
    assert json.loads(path.read_text())["training"]["steps"] == 77
    path.unlink()
    assert presets.save()
    assert path.is_file()
    assert told[1:] == [f"Saved: {path}"] * 2
