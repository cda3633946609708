"""What the window needs before its first page is on the screen, which is most of its start."""

import json
import os
import subprocess
import sys

from onetrainer import ROOT
from onetrainer.run.run_folder import create_run
from tests.each import each
from tests.ui.project import write_project
from ui.model.draft import Draft
from ui.model.window_state import WindowState

_LONGEST_S = 120

CODE = """
import gc, json, sys
from dataclasses import is_dataclass
from tests.benchmarks.opened_window import open_painted
app = open_painted(sys.argv[1:])
from onetrainer.config.base.section import Section
from onetrainer.config.fields import _settings as settings_of
def below(section):
    for each in section.__subclasses__():
        yield from (each, *below(each))
def state():
    draft = app.draft
    return {
        "name": draft.origin.name,
        "document": draft.document,
        "base": draft.base,
        "is_valid": draft.valid_config() is not None,
        "problems": [problem.severity for problem in draft.problems],
        "page": app.page,
    }
def classes():
    for name, module in [*sys.modules.items()]:
        for one in vars(module).values() if name.startswith(("onetrainer.", "ui.")) else ():
            if isinstance(one, type) and one.__module__ == name:
                yield one
found = {
    "painted": state(),
    "dataclasses": [each.__name__ for each in classes() if is_dataclass(each)],
    "collected": settings_of.cache_info().currsize,
    "modules": sorted(sys.modules),
    "built": [each.__name__ for each in below(Section) if each.__pydantic_complete__],
    "frozen": gc.get_freeze_count(),
    "collects": gc.isenabled(),
}
def wait():
    if app.draft.is_held or app.draft.needs_file_check:
        app.root.after(1, wait)
    else:
        print(json.dumps(found | {"checked": state()}))  # its answer to the test
        app.root.destroy()
wait()
app.run()
"""
REFUSED = """
import json, sys, tkinter as tk
from pathlib import Path
from ui.__main__ import make_parser, open_window
wrong = sys.argv[1]
app = open_window(make_parser().parse_args([wrong]))
app.preparations.begin = lambda: None  # `keys` does, when the dialog is due
root, act, runs, presets = app.root, app.context.act, app.runs, app.presets
if not app.shell.stage.outer.winfo_viewable():
    root.wait_visibility(app.shell.stage.outer)
field = app.widgets.named["model.path"]
told = []
def texts(widget):
    own = [str(widget.cget("text"))] if "text" in widget.keys() else []
    return own + [text for child in widget.winfo_children() for text in texts(child)]
def keys():
    field.focus_force()
    for key in ("<Key-x>", "<F5>", "<Control-s>", "<Control-S>", "<Control-z>"):
        field.event_generate(key)
    app.save_state()
    root.tk.call("after", 2)  # the dialog is due before the window draws itself
    app.preparations._see()
def again(action):
    app.draft.is_held = True
    app.draft.preview(Path(wrong))
    app.save_state()
    action()
actions = iter([
    keys,
    *(lambda action=action: again(action) for action in (
        act.start, act.enqueue, act.fork, act.save_preset, act.save_preset_as, act.show_changes,
        lambda: runs._apply("training.steps"), presets.reset,
    )),
])
def dialogs():
    tops = [each for each in root.winfo_children() if isinstance(each, tk.Toplevel)]
    return [each for each in tops if each.winfo_viewable()]
def look():
    shown = dialogs()
    if not shown or app.jobs._is_held:
        root.after(1, look)
        return
    stored = json.loads(Path("window.json").read_text())
    told.append({
        "dialogs": [" ".join(texts(each)) for each in shown],
        "document": app.draft.document,
        "stored": stored["draft"],
        "field": field.get(),
        "is_checking": runs.is_checking,
        "page": app.page,
    })
    for each in shown:
        root.tk.call(each.protocol("WM_DELETE_WINDOW"))
    root.after(1, act_next)
def act_next():
    action = next(actions, None)
    if action is None:
        app.draft.is_held = True
        app.draft.preview(Path(wrong).with_name("paper.json"))
        app.draft.set("training.batch_size", 3)
        root.after(2, conclude)
        return
    root.after(1, look)
    action()
def conclude():
    report = app.shell._message.cget("text")
    app.jobs._is_held = app.draft.is_held = True
    app.draft.listen(lambda: 1 / 0)
    try:
        for _ in app._drawn():
            pass
    except ZeroDivisionError:
        print(json.dumps({  # its answer to the test
            "told": told,
            "report": str(report),
            "typed": app.draft.value("training.batch_size"),
            "is_held_after_error": app.jobs._is_held,
        }))
    root.destroy()
act_next()
app.run()
"""
ROOMS = {
    "onetrainer": {
        *("config", "demo", "errors", "families", "files", "json_file", "messages"),
        *("model_files", "presets", "redaction", "run", "schedules"),
    },
    "onetrainer.model_files": {"hub"},
    "onetrainer.presets": {"find", "own_presets", "presets"},
    "onetrainer.run": {"commands", "known_folders", "run_folder", "user_folder"},
    "ui.charts": set(),
    "ui.dialogs": {"dialogs"},
    "ui.pages": {"preparations", "registry", "settings"},
    "ui.pages.settings": {
        *("amounts", "help_below", "help_card", "model_card", "next_button", "noise_plot", "page"),
        *("prompt_proposal", "sticky_column", "summary_card"),
    },
    "ui.progress": {"units"},
}
"""What a folder may have imported by then: all of it is read and run before anything is seen."""
DATACLASSES = {
    *("Fix", "Offer", "Problem", "Amount", "FamilyTexts", "WindowState"),
    *("FindingGroup", "FormContext", "Room", "Slot"),
}
"""Those that may have been defined by then. Each takes a millisecond, a `NamedTuple` a tenth."""
OF_TRAINING = {
    "dataclasses": {"BarRow", "FixSummary", "PlotCurve", "Verdict"},
    "ui.charts": {"bar_table", "stacked_bar"},
    "ui.pages.settings": {"memory_card", "rate_plot", "small_plot"},
}
"""What the page with a plot and the forecast needs as well."""


def opened(display, folder, config, page):
    """What is there once the first page is on the screen, and after the draft was checked.

    config: None for the last draft.
    """
    return answer_of(CODE, display, folder, config, {"page": page})


def answer_of(code, display, folder, config, state):
    """What a window prints that opens with a config, after an earlier one's state."""
    own = folder / "onetrainer"
    own.mkdir(exist_ok=True)
    (own / "window.json").write_text(json.dumps(state))
    places = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME")}
    answer = subprocess.run(
        [sys.executable, "-c", code, *([str(config)] if config else [])],
        cwd=own,
        env={**os.environ, **places, "DISPLAY": display, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=_LONGEST_S,
    )
    return json.loads(answer.stdout)


def test_nothing_that_is_meant_for_a_file_happens_to_the_draft_of_before_when_it_is_refused(
    display, tmp_path
):
    draft, state = Draft(), WindowState(page="model")
    draft.load(write_project(tmp_path))
    draft.set("training.steps", 7)
    state.store_draft(draft)
    run = create_run(tmp_path / "runs", name="paper", config=draft.document)
    state.show_run(run.path)
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"model": {"path": "other"}, "training": {"steps": "many"}}))
    answer = answer_of(REFUSED, display, tmp_path, wrong, vars(state))
    assert len(answer["told"]) == 9
    for one in answer["told"]:
        assert len(one["dialogs"]) == 1 and "wrong.json" in one["dialogs"][0], one["dialogs"]
        assert one["document"] == one["stored"] == draft.document
        assert (one["field"], one["is_checking"]) == (draft.value("model.path"), False)
        assert one["page"] == "model"
    assert [one.name for one in (tmp_path / "runs").iterdir()] == [run.path.name]
    assert json.loads((tmp_path / "paper.json").read_text())["training"]["steps"] == 60
    # A file that is valid is loaded before what is typed, and says what it replaced.
    assert answer["report"] == "Opened paper; your change was replaced."
    assert answer["typed"] == 3
    assert not answer["is_held_after_error"]


def test_a_page_whose_cards_depend_on_the_check_is_painted_after_it(display, tmp_path):
    found = opened(display, tmp_path, write_project(tmp_path), "hardware")
    assert (found["painted"]["page"], found["painted"]["is_valid"]) == ("hardware", True)


def test_settings_are_collected_for_a_page_that_shows_some_only(display, tmp_path):
    found = opened(display, tmp_path, None, "welcome")
    assert (found["painted"]["page"], found["collected"]) == ("welcome", 0)


@each("page, more", [("model", {}), ("training", OF_TRAINING)])
def test_only_what_the_first_page_shows_is_made_before_it_is_painted_and_the_rest_then(
    display, tmp_path, page, more
):
    found = opened(display, tmp_path, write_project(tmp_path), page)
    painted, checked = found["painted"], found["checked"]
    assert (painted["page"], painted["is_valid"], painted["problems"]) == (
        *(page, False),
        ["pending"],
    )
    # Nothing that is on the screen changes when it is checked; only marks come.
    for key in ("page", "name", "document", "base"):
        assert painted[key] == checked[key], key
    assert checked["is_valid"] and "pending" not in checked["problems"]
    for folder, allowed in ROOMS.items():
        inside = {
            name.removeprefix(f"{folder}.").partition(".")[0]
            for name in found["modules"]
            if name.startswith(f"{folder}.")
        }
        assert inside <= allowed | more.get(folder, set()), folder
    assert {*found["dataclasses"]} <= DATACLASSES | more.get("dataclasses", set())
    assert found["built"] == []
    assert found["frozen"] > 10_000
    assert not found["collects"]  # the window does, in its own thread
