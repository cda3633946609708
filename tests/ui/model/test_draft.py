import json

import pytest

from onetrainer.config.data.concept import Concept
from onetrainer.config.train import TrainConfig
from onetrainer.demo.write import write_demo
from onetrainer.errors import Problem, UserError
from onetrainer.presets.find import BUILT_IN, find_presets
from onetrainer.presets.presets import load_document, resolve
from onetrainer.run.run_folder import create_run
from tests.ui.project import errors_of
from ui.model.draft import PENDING, Draft


def test_a_fresh_draft_holds_the_defaults(home):
    assert resolve(Draft().document, source="") == TrainConfig()


def test_garbage_is_kept_and_reported(draft):
    draft.set("training.steps", "many")
    problem = draft.problem("training.steps")
    assert '"many"' in problem.what
    assert "whole number from 1 to" in problem.expected
    assert draft.value("training.steps") == "many"
    assert [found.path for found in errors_of(draft)] == ["training.steps"]


def test_rules_between_settings_are_checked_too(draft):
    draft.set("schedule.warmup_steps", 1000)
    assert "warm-up" in draft.problem("schedule.warmup_steps").what


def test_undo_and_redo_go_through_the_changes(draft):
    draft.set("training.steps", 10)
    draft.set("optimizer.lr", 0.001)
    draft.undo()
    assert draft.value("optimizer.lr") == 1e-4
    draft.undo()
    assert draft.value("training.steps") == 60
    draft.redo()
    draft.redo()
    assert (draft.value("training.steps"), draft.value("optimizer.lr")) == (10, 0.001)


def test_typing_in_one_field_is_undone_as_one(draft):
    for value in (1, 12, 123):
        draft.set("training.steps", value)
    draft.undo()
    assert draft.value("training.steps") == 60


def test_several_settings_changed_at_once_are_undone_as_one(draft):
    before = draft.document
    draft.set_all({"training.batch_size": 1, "optimizer.kind": "lion", "optimizer.lr": 3e-5})
    assert draft.value("optimizer.kind") == "lion"
    assert (draft.value("training.batch_size"), draft.value("optimizer.lr")) == (1, 3e-5)
    assert draft.config().optimizer.kind == "lion"
    draft.undo()
    assert draft.document == before


def test_changes_are_counted_against_what_was_loaded(draft):
    assert not draft.is_dirty
    draft.set("training.steps", 61)
    assert draft.changed() == ["training.steps"]
    draft.reset("training.steps")
    assert not draft.is_dirty


def test_a_saved_preset_is_found_and_means_the_same(draft, home):
    from onetrainer.run.user_folder import user_folder

    draft.set("training.steps", 77)
    path = user_folder() / "presets" / "mine.json"
    draft.save(path, description="Mine")
    assert not draft.is_dirty
    assert draft.origin.name == "mine"
    assert "mine" in [preset.name for preset in find_presets()]
    assert resolve(load_document(path), source="") == draft.config()


def test_a_draft_with_an_error_is_not_saved(draft, tmp_path):
    draft.set("training.steps", "many")
    with pytest.raises(UserError):
        draft.save(tmp_path / "mine.json")
    assert not (tmp_path / "mine.json").exists()


def test_what_the_check_of_files_found_goes_when_that_setting_changes(draft):
    draft.set_file_problems([Problem("data.folder", "has no images")])
    assert draft.problem("data.folder") is not None
    draft.set("training.steps", 61)
    assert draft.problem("data.folder") is not None
    draft.set("data.folder", "/elsewhere")
    assert draft.problem("data.folder") is None


def test_a_run_s_settings_are_no_preset_to_save_over(draft, tmp_path):
    run = create_run(tmp_path, name="paper", config=draft.document)
    kept = run.config.read_text()
    draft.load(run.config)
    assert (draft.origin.name, draft.origin.can_overwrite) == ("paper-001", False)
    draft.set("training.steps", 77)
    with pytest.raises(UserError, match="paper-001"):
        draft.save(run.config)
    with pytest.raises(UserError, match="paper-001"):
        draft.save(run.samples / "mine.json")
    assert run.config.read_text() == kept


def test_every_problem_of_a_setting_is_reported_errors_first(draft):
    small = Problem("data.folder", "two cannot be used", severity="warning")
    draft.set_file_problems([small, Problem("data.folder", "no caption", severity="warning")])
    assert [found.what for found in draft.problems_at("data.folder")] == [
        "two cannot be used",
        "no caption",
    ]
    draft.set_file_problems([small, Problem("data.folder", "locked")])
    assert draft.problem("data.folder").what == "locked"


def test_files_count_as_unknown_until_they_are_checked(draft):
    assert draft.problems == [PENDING]
    draft.set_file_problems([])
    assert draft.problems == []
    draft.set("training.steps", 61)
    assert not draft.needs_file_check
    for path, value in (("data.resolution", 128), ("model.path", "/elsewhere")):
        draft.set(path, value)
        assert draft.problems == [PENDING]
        draft.undo()
        assert draft.problems == []


def test_an_answer_to_an_older_question_does_not_count(draft):
    file_settings = draft.file_settings
    draft.set("model.path", "/elsewhere")
    draft.set_file_problems([Problem("model.path", "there is no such file")], file_settings)
    assert draft.problems == [PENDING]


def test_files_can_be_checked_while_other_values_are_wrong(draft):
    draft.set("training.steps", "many")
    draft.set("data.resolution", "large")
    config = draft.files_config()
    assert config.model.path == draft.value("model.path")
    assert config.data.resolution == TrainConfig().data.resolution


def test_what_files_lack_keeps_no_preset_from_being_saved(draft, tmp_path):
    draft.set_file_problems([Problem("model.path", "there is no such file")])
    assert errors_of(draft)
    assert draft.value_errors == []
    draft.save(tmp_path / "mine.json")


def test_the_demo_s_own_things_do_not_go_into_another_preset(home, tmp_path):
    draft = Draft()
    draft.load(write_demo(tmp_path / "demo"))
    draft.load(BUILT_IN / "sd15" / "lora.json")
    assert draft.value("model.path") == draft.value("data.folder") == ""
    assert draft.value("sampling.prompts") == []
    assert draft.value("output.folder") == TrainConfig().output.folder
    assert "demo" not in json.dumps(draft.document)


def test_undo_goes_back_over_another_preset_and_redo_forth(draft):
    draft.set("training.steps", 61)
    before = (draft.document, draft.base, draft.origin)
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    after = (draft.document, draft.base, draft.origin)
    draft.undo()
    assert (draft.document, draft.base, draft.origin) == before
    assert draft.changed() == ["training.steps"]
    draft.redo()
    assert (draft.document, draft.base, draft.origin) == after
    draft.undo()
    draft.undo()
    assert not draft.is_dirty
    assert draft.value("training.steps") == 60


def test_undoing_a_change_does_not_undo_that_the_preset_was_saved(draft, tmp_path):
    draft.set("training.steps", 61)
    draft.save(tmp_path / "mine.json")
    draft.undo()
    assert (draft.origin.name, draft.changed()) == ("mine", ["training.steps"])


def test_loading_names_the_settings_that_it_replaces(draft, tmp_path):
    draft.set("training.steps", 61)
    draft.set("optimizer.lr", 0.001)
    draft.set("metadata.author", "A. Person")
    assert draft.load(BUILT_IN / "sdxl" / "lora.json") == ["training.steps", "optimizer.lr"]
    assert draft.load(BUILT_IN / "sd15" / "lora.json") == []
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps({"metadata": {"author": "B. Person"}}))
    aside = draft.load(theirs)
    assert {"metadata.author", "model.path", "data.folder"} <= set(aside)
    assert "training.steps" not in aside
    draft.undo()
    assert draft.value("metadata.author") == "A. Person"


def test_the_model_is_no_change_to_a_preset_that_leaves_it_open(home, tmp_path):
    draft = Draft()
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    draft.set("model.path", "/my/model.safetensors")
    draft.set("training.steps", 61)
    assert draft.changed() == ["training.steps"]
    draft.reset_all()
    assert draft.value("model.path") == "/my/model.safetensors"
    assert draft.changed() == []
    assert draft.is_dirty  # a preset with this model can still be saved


def test_the_model_is_a_change_to_a_preset_that_names_one(draft, tmp_path):
    draft.set("model.path", "/my/model.safetensors")
    assert draft.changed() == ["model.path"]
    draft.save(tmp_path / "mine.json")
    draft.set("model.path", "/another.safetensors")
    assert draft.changed() == ["model.path"]


def test_a_preset_leaves_what_belongs_to_my_images_but_brings_its_sizes(draft):
    folders = [Concept(folder="/cats").model_dump(mode="json")]
    mine = {"data.caption_source": "names", "data.trigger": "a cat", "data.concepts": folders}
    draft.set_all({**mine, "data.buckets.sizes": [{"width": 512, "height": 512}]})
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    assert {path: draft.value(path) for path in mine} == mine
    assert (draft.value("data.buckets.sizes"), draft.value("data.resolution")) == ([], 1024)
