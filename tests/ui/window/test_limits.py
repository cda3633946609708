"""That the window stays fluid and does not grow; `tests.benchmarks.start_up` times its start."""

import os
import time
from pathlib import Path

from tests.ui.fake_worker import FLOOD_EVENTS
from tests.ui.screenshots import SETTINGS_PAGES

MOST_TURN_FRACTION = 0.02
"""Of the time that a flood of events takes: the longest turn of the window's heartbeat."""
MADE_AHEAD = {"ui.pages.preparations.AFTER_MS": 1}
"""Pages that have not been visited are made as soon as the window is open."""
PAGES = (*SETTINGS_PAGES, "run", "samples", "runs")
WITH_FIELDS = ("data", "training", "sampling", "images", "monitor", "runs", "trial", "tools")
"""Pages of every kind of field, list and drawing."""


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_flood_of_events_leaves_the_window_fluid(begin, project):
    desk = begin(project, "flood")
    desk.click("start")
    desk.wait_state(page="run", is_running=True)
    desk.ask("forget gaps")
    begin = time.monotonic()
    desk.wait_state(status="finished")
    state, whole_ms = desk.state, 1000 * (time.monotonic() - begin)
    assert state["step"] == FLOOD_EVENTS
    assert state["turn_ms"] < MOST_TURN_FRACTION * whole_ms


def test_a_window_at_rest_computes_next_to_nothing(open_desk, project):
    constants = {"ui.background.pump.TICK_MS": 50, **MADE_AHEAD}
    desk = open_desk(project, constants=constants)
    desk.wait_state(is_prepared=True)
    desk.rest()

    def seconds_at_rest():
        before = cpu_seconds(desk.process.pid)
        time.sleep(1)  # the time that is measured; a question would be computed for
        return cpu_seconds(desk.process.pid) - before

    # A second has 20 turns of the heartbeat: none of them may refresh the window.
    most = 2 * desk.ask("seconds of a refresh")["seconds"]
    # A busy machine only adds to what is measured: one second at rest is proof enough.
    assert any(seconds_at_rest() < most for _ in range(20))


def test_loading_presets_makes_no_widget_and_dialogs_leave_none(desk, project):
    for page in PAGES:
        desk.page(page)
    desk.ask("load", path=str(project))
    before = desk.ask("counts")
    for _ in range(10):
        desk.ask("load", path=str(project))
    after = desk.ask("counts")
    assert after["widgets"] == before["widgets"]
    assert after["commands"] <= before["commands"] + 5
    desk.page("model")
    desk.replace("model.path", " ")

    def open_and_close():
        desk.key("F5")
        desk.wait_question("answer problem 0")
        desk.key("Escape")
        desk.wait_end_of_question("answer problem 0")

    open_and_close()
    before = desk.ask("counts")
    for _ in range(5):
        open_and_close()
    after = desk.ask("counts")
    assert after["widgets"] == before["widgets"]
    assert after["commands"] <= before["commands"] + 5


def test_another_size_or_theme_leaves_nothing_of_the_window_before(desk):
    """Neither objects, which Tcl or Python may keep, nor commands of Tcl, images among them."""

    def switch(key, **wanted):
        desk.key(key)
        desk.wait_state(resizing=False, **wanted)
        for page in WITH_FIELDS:
            desk.page(page)
        desk.rest()

    switch("ctrl+plus", scale=1.1)
    before = desk.ask("counts")
    for key, wanted in (
        ("ctrl+d", {"mode": "light"}),
        ("ctrl+minus", {"scale": 1.0}),
        ("ctrl+d", {"mode": "dark"}),
        ("ctrl+plus", {"scale": 1.1}),
    ):
        switch(key, **wanted)
    after = desk.ask("counts")
    assert 500 < after["objects"] <= before["objects"]
    # Images of switches in the other colors stay, and a timer may be under way.
    assert after["commands"] <= before["commands"] + 30
    switch("ctrl+0", scale=1.0)
