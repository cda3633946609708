"""Rows of the preset picker: a newcomer finds the family, everybody their own first."""

import json

import pytest

from onetrainer.demo.write import write_demo
from onetrainer.presets.find import find_presets, own_folder
from onetrainer.presets.forecasts import PresetForecast, known_forecasts
from onetrainer.run.run_folder import RunFolder
from ui.model.preset_rows import _summary, arranged, list_rows


@pytest.fixture
def rows(home, tmp_path):
    return list_rows(tmp_path / "demo", [tmp_path / "runs"], [])


def of_group(rows, title):
    return [row for row in rows if row.group == title]


def test_the_recommended_preset_of_each_family_is_first_and_numbers_follow_as_numbers(rows):
    assert list(dict.fromkeys(row.group for row in rows)) == ["SD 1.5", "SD 2", "SDXL", "Demos"]
    for title in ("SD 1.5", "SD 2", "SDXL"):
        names = [row.name for row in of_group(rows, title)]
        assert names[0] == "lora"
        sizes = [name for name in names if name.startswith("fine-tune-")]
        assert sizes == sorted(sizes, key=lambda name: int(name[10:-2]))


def test_a_row_says_what_it_is_for_without_the_family(rows):
    for title in ("SD 1.5", "SD 2", "SDXL"):
        purposes = [row.purpose for row in of_group(rows, title)]
        assert len(set(purposes)) == len(purposes)
        assert not [text for text in purposes if "Stable Diffusion" in text or "SDXL" in text]
    by_name = {row.name: row for row in of_group(rows, "SDXL")}
    assert by_name["lora"].purpose == "LoRA at 1024 px"
    assert (by_name["inpainting"].family, by_name["reward"].method) == ("SDXL", "LoRA · reward")


def test_the_first_part_of_a_description_stands_for_it():
    for description, words in [
        ("LoRA at 2.1 px. For large cards.", "LoRA at 2.1 px"),
        ("LoRA of one thing; also more.", "LoRA of one thing"),
        ("Only this.", "Only this"),
        ("", ""),
    ]:
        assert _summary(description) == words, (description, words)


def test_every_word_of_a_search_must_be_there_also_in_notes(home, tmp_path):
    own_folder().mkdir(parents=True)
    (own_folder() / "mine.json").write_text('{"version": 9, "notes": "for Bella the dog"}')
    rows = list_rows(tmp_path / "demo", [tmp_path / "runs"], [])
    assert [row.name for row in rows if row.matches(["bella", "sd"])] == ["mine"]
    found = {row.preset.name for row in rows if row.matches(["sdxl", "12gb"])}
    assert found == {"sdxl/fine-tune-12gb"}


def test_presets_are_ordered_by_what_they_need_and_unknown_ones_are_last(rows):
    known = known_forecasts()
    ordered = arranged(rows, "Least memory first", known)
    peaks = [known[row.digest].peak_bytes for row in ordered if row.digest in known]
    assert len(peaks) == len(find_presets()) and peaks == sorted(peaks)
    assert ordered[-1].kind == "demo"
    two = {rows[5].digest: PresetForecast(9, 2.0), rows[3].digest: PresetForecast(9, 3.0)}
    assert arranged(rows, "Fastest first", two)[:2] == [rows[5], rows[3]]


def test_demos_runs_and_files_are_listed_and_each_file_once(home, tmp_path):
    write_demo(tmp_path / "demo")
    run = RunFolder(tmp_path / "runs" / "dog-001")
    run.checkpoints.mkdir(parents=True)
    run.config.write_text(json.dumps({"version": 9, "model": {"family": "sdxl"}}))
    run.events.write_text("")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    rows = list_rows(tmp_path / "demo", [tmp_path / "runs"], [broken, run.config])
    assert (rows[0].group, rows[0].name) == ("Opened files", "broken")
    assert "line 1" in rows[0].problem and not rows[0].digest
    (last,) = of_group(rows, "Latest runs")
    assert (last.path, last.name, last.family) == (run.config, "dog-001", "SDXL")
    demos = {row.name: row for row in of_group(rows, "Demos")}
    assert set(demos) == {path.stem for path in (tmp_path / "demo").glob("demo*.json")}
    assert demos["demo-dora"].purpose == "Teaches the tiny model smileys by DoRA"
