"""A user's preset files: notes that change no run, other names, deletion with a way back."""

import json

import pytest

from onetrainer.errors import UserError
from onetrainer.presets import own_presets
from onetrainer.presets.find import find_presets, locate, own_folder
from onetrainer.presets.forecasts import settings_digest
from onetrainer.presets.presets import load_document, resolve

BODY = {"version": 9, "training": {"steps": 7}}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def write(name, **more):
    path = own_folder() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(BODY | more))
    return path


def test_notes_are_read_back_and_change_neither_config_nor_digest(home):
    path = write("dogs")
    before = load_document(path)
    own_presets.describe(path, notes="overtrained\nafter 900")
    after = load_document(path)
    assert own_presets.notes_of(path) == "overtrained\nafter 900"
    assert next(p for p in find_presets() if p.origin == "yours").notes.startswith("overtrained")
    assert resolve(after, source="") == resolve(before, source="")
    assert settings_digest(after) == settings_digest(before)
    own_presets.describe(path, notes="")
    assert json.loads(path.read_text()) == BODY


def test_a_renamed_preset_is_found_by_its_new_name_alone_and_none_is_overwritten(home):
    path, other = write("pets/dogs"), write("pets/cats")
    renamed = own_presets.rename(path, "my dogs")
    assert locate("pets/my dogs") == renamed
    with pytest.raises(UserError, match="no such file"):
        locate("pets/dogs")
    for name, words in (("cats", "already exists"), ("a/b", "'/'"), ("", "empty")):
        with pytest.raises(UserError, match=words):
            own_presets.rename(renamed, name)
    assert (renamed.exists(), json.loads(other.read_text())) == (True, BODY)


def test_deleted_presets_of_one_name_are_all_kept_and_come_back(home):
    first = own_presets.delete(write("dogs", notes="first"))
    path = write("dogs", notes="second")
    second = own_presets.delete(path)
    assert [own_presets.notes_of(kept) for kept in (first, second)] == ["first", "second"]
    assert [preset.name for preset in find_presets() if preset.origin == "yours"] == []
    own_presets.restore(first, path)
    assert own_presets.notes_of(path) == "first"
    with pytest.raises(UserError, match="has this name now"):
        own_presets.restore(second, path)
    assert second.exists()


def test_a_preset_that_another_one_extends_is_neither_renamed_nor_deleted(home):
    path = write("base")
    write("over", extends="base")
    for change in (own_presets.delete, lambda each: own_presets.rename(each, "other")):
        with pytest.raises(UserError, match="extends it"):
            change(path)
    assert path.exists()
