import json

from onetrainer.messages.formatting import format_moment
from onetrainer.presets.presets import load_document, resolve
from onetrainer.run.events import Sample, Started
from onetrainer.run.own_notes import change_notes
from onetrainer.run.run_folder import create_run
from tests.ui.project import write_project
from ui.messages.run_rows import EVERYTHING, STARRED, filtered, filters, list_runs, setting_table
from ui.pages.runs.comparison import samples_by_prompt


def make_runs(folder, *changes):
    """Runs one after the other, each with some settings changed."""
    path = write_project(folder / "project")
    config = resolve(load_document(path), source="").model_dump(mode="json")
    runs = []
    for number, sections in enumerate(changes):
        for section, values in sections.items():
            config[section] = {**config[section], **values}
        runs.append(create_run(folder / "runs", name=config["output"]["name"], config=config))
        event = {"type": "Started", "time": 1000.0 + number, **vars(Started(1, 0, 60))}
        runs[-1].events.write_text(json.dumps(event) + "\n")
    return runs


def test_each_run_names_the_settings_that_differ_from_the_one_of_its_name_before(tmp_path):
    make_runs(
        tmp_path,
        {},
        {"optimizer": {"lr": 3e-4}, "output": {"name": "other"}},
        {"optimizer": {"lr": 5e-4}, "output": {"name": "paper"}, "ema": {"use": True}},
        {"data": {"folder": "/elsewhere"}},
        {},
    )
    rows = list_runs([tmp_path / "runs"], {})
    assert [(row.path.name, row.before, row.difference) for row in rows] == [
        ("paper-004", "paper-003", "same settings"),
        ("paper-003", "paper-002", "Images changed"),
        ("paper-002", "paper-001", "Learning rate 5e-4 (was 1e-4); Use EMA on (was off)"),
        ("other-001", None, ""),
        ("paper-001", None, ""),
    ]
    assert rows[0].kind == "SD 1.5 · LoRA"


def test_the_search_looks_at_all_that_is_known_of_a_run(tmp_path):
    first, second = make_runs(tmp_path, {}, {"optimizer": {"lr": 3e-4}})
    change_notes(first, notes="Folds are sharp", tags=("best",), is_starred=True)
    change_notes(second, label="Warm colors")
    rows = list_runs([tmp_path / "runs"], {})

    def found(text, choice=EVERYTHING):
        return [row.path.name for row in filtered(rows, text, choice)]

    for text in ("warm", "paper-002", "learning 3e-4 lora"):
        assert found(text) == ["paper-002"]
    assert found("folds SHARP best") == ["paper-001"]
    assert found("paper stopped") == ["paper-002", "paper-001"]
    assert filters(rows) == [EVERYTHING, STARRED, "Tag: best"]
    assert found("", STARRED) == found("", "Tag: best") == ["paper-001"]


def test_each_setting_of_several_runs_stands_in_a_row_and_each_further_line_in_its_own(tmp_path):
    runs = make_runs(
        tmp_path,
        {},
        {"optimizer": {"lr": 3e-4}},
        {"training": {"steps": 80}, "metadata": {"description": "Warm.\nSharp folds."}},
    )
    table = setting_table([load_document(run.config) for run in runs])
    assert table == [
        ("Training", "Learning rate", ["1e-4", "3e-4", "3e-4"]),
        ("Training", "Length", ["60", "60", "80"]),
        ("Output", "Description", ["empty", "empty", "Warm."]),
        ("Output", "", ["", "", "Sharp folds."]),
    ]


def test_a_run_with_a_time_that_no_calendar_has_is_listed_by_that_of_its_folder(tmp_path):
    runs = make_runs(tmp_path, {}, {}, {})
    for run, when in zip(runs, ("9e17", "90000000000000", "-1e300"), strict=True):
        run.events.write_text(f'{{"type": "Started", "time": {when}, "pid": 1, "step": 0}}\n')
    shown = [row.values["when"] for row in list_runs([tmp_path / "runs"], {})]
    changed = [format_moment(run.config.stat().st_mtime) for run in reversed(runs)]
    assert sorted(shown) == sorted(changed)


def test_samples_are_compared_by_their_prompts_wherever_they_stand(tmp_path):
    def sample(step, index, prompt):
        return Sample(step, index, f"{step}-{index}", prompt, 7)

    one = [sample(s, i, p) for s in (0, 10) for i, p in enumerate(("cat", "dog", "cat"))]
    other = [sample(s, i, p) for s in (0, 20) for i, p in enumerate(("dog", "cat"))]
    newest = samples_by_prompt(one, None), samples_by_prompt(other, None)
    assert [newest[0]["dog", 0].path, newest[1]["dog", 0].path] == ["10-1", "20-0"]
    assert list(newest[0]) == [("cat", 0), ("dog", 0), ("cat", 1)]
    assert samples_by_prompt(other, 10) == {}
