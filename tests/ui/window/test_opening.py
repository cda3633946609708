"""What the window needs before its first page is on the screen, which is most of its start."""

import json
import os
import subprocess
import sys

from onetrainer import ROOT
from tests.each import each
from tests.ui.project import write_project

CODE = """
import gc, json, sys
from tests.benchmarks.opened_window import open_painted
app = open_painted(sys.argv[1:])
from onetrainer.config.base.section import Section
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
found = {
    "painted": state(),
    "modules": sorted(sys.modules),
    "built": [each.__name__ for each in below(Section) if each.__pydantic_complete__],
    "frozen": gc.get_freeze_count(),
    "collects": gc.isenabled(),
}
def wait():
    if app.draft.is_held or app.draft.needs_file_check:
        app.root.after(1, wait)
    else:
        print(json.dumps(found | {"checked": state()}))
        app.root.destroy()
wait()
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
OF_TRAINING = {
    "ui.charts": {"bar_table", "stacked_bar"},
    "ui.pages.settings": {"memory_card", "rate_plot", "small_plot"},
}
"""What the page with a plot and the forecast needs as well."""


def opened(display, folder, config, page):
    """What is there once the first page is on the screen, and after the draft was checked."""
    (folder / "onetrainer").mkdir(exist_ok=True)
    (folder / "onetrainer" / "window.json").write_text(json.dumps({"page": page}))
    places = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME")}
    answer = subprocess.run(
        [sys.executable, "-c", CODE, str(config)],
        env={**os.environ, **places, "DISPLAY": display, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(answer.stdout)


def test_a_page_whose_cards_depend_on_the_check_is_painted_after_it(display, tmp_path):
    found = opened(display, tmp_path, write_project(tmp_path), "hardware")
    assert (found["painted"]["page"], found["painted"]["is_valid"]) == ("hardware", True)


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
    assert found["built"] == []
    assert found["frozen"] > 10_000
    assert not found["collects"]  # the window does, in its own thread
