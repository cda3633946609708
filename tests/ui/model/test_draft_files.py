"""What a file says is what the window shows: opened, saved and opened again."""

import json

from onetrainer.config.data.concept import Concept
from onetrainer.config.train import TrainConfig
from onetrainer.demo.write import write_demo
from onetrainer.presets.find import BUILT_IN
from onetrainer.presets.presets import load_document, resolve
from onetrainer.run.run_folder import create_run
from ui.model.draft import Draft


def images_of_mine(draft):
    draft.set_all(
        {
            "data.concepts": [Concept(folder="/cats").model_dump(mode="json")],
            "data.trigger": "a cat",
            "data.caption_source": "names",
            "data.class_folder": "/any-cat",
        }
    )


def test_a_file_says_all_even_what_it_does_not_mention(draft, tmp_path):
    images_of_mine(draft)
    draft.save(tmp_path / "a.json")
    theirs = tmp_path / "b.json"
    theirs.write_text(json.dumps({"training": {"steps": 5}, "data": {"folder": "pictures"}}))
    for path in (theirs, tmp_path / "a.json", theirs):
        draft.load(path)
        # The command line reads it so.
        assert draft.config() == resolve(load_document(path), source="")
        assert not draft.is_dirty
    assert (draft.value("data.concepts"), draft.value("data.class_folder")) == ([], "")
    assert draft.value("data.folder") == str(tmp_path / "pictures")


def test_the_demo_and_a_run_are_opened_as_they_are_written(draft, tmp_path):
    images_of_mine(draft)
    run = create_run(tmp_path, name="paper", config=TrainConfig().model_dump(mode="json"))
    for path in (write_demo(tmp_path / "demo"), run.config):
        draft.load(path)
        assert draft.config() == resolve(load_document(path), source="")


def test_what_is_saved_is_the_same_when_it_is_opened_again(draft, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images_of_mine(draft)
    draft.set("data.folder", "my pictures")
    draft.set("data.concepts.0.folder", "cats")
    draft.set("sampling.prompts", [])
    draft.set("output.folder", TrainConfig().output.folder)
    draft.save(tmp_path / "presets" / "mine.json")
    saved = draft.document
    assert (draft.value("data.folder"), draft.is_dirty) == (str(tmp_path / "my pictures"), False)
    assert draft.value("output.folder") == TrainConfig().output.folder
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    draft.load(tmp_path / "presets" / "mine.json")
    assert draft.document == saved
    again = Draft()
    again.load(tmp_path / "presets" / "mine.json")
    assert again.document == saved


def test_the_prompts_of_a_person_follow_the_resolution_of_a_preset_if_they_had_the_one_before(
    draft,
):
    wide = {"prompt": "wide", "width": 512, "height": 768}
    own = {"prompt": "own", "width": 512, "height": 512}
    draft.set_all({"data.resolution": 512, "sampling.prompts": [own, wide]})
    draft.load(BUILT_IN / "sdxl" / "lora.json")
    assert draft.value("data.resolution") == 1024
    sizes = [(entry["width"], entry["height"]) for entry in draft.value("sampling.prompts")]
    assert sizes == [(1024, 1024), (512, 768)]
