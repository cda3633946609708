"""The page of charts and the log of a run as a person uses it: real clicks and keys."""

from pathlib import Path


def monitor(desk):
    return desk.state["monitor"]


def place_of(desk, chart, fraction):
    """A point of a chart on the screen, at a fraction of its width."""
    left, top, right, bottom = monitor(desk)["frames"][chart]
    canvas = desk.place("charts")
    x = canvas["x"] + left + fraction * (right - left)
    return round(x), round(canvas["y"] + (top + bottom) / 2)


def test_a_run_is_watched_in_charts_that_are_zoomed_read_enlarged_and_saved(desk):
    desk.click("start")
    desk.wait_state(status="finished", step=60)
    desk.key("F12")
    desk.wait_state(page="monitor")
    desk.wait(lambda: len(monitor(desk)["titles"]) == 7, "the charts")
    assert monitor(desk)["titles"][-1] == "GPU power in W"
    desk.click_at(*place_of(desk, 0, 0.5))
    assert monitor(desk)["values"][-1] == "250 W"
    start, end = place_of(desk, 0, 0.25), place_of(desk, 0, 0.5)
    desk.drag(start, end, lambda: monitor(desk)["is_dragging"])
    desk.let_go()
    desk.wait(lambda: monitor(desk)["span"], "the zoom")
    first, last = monitor(desk)["span"]
    assert 13 <= first <= 16 and 29 <= last <= 40
    desk.click("charts whole run")
    assert monitor(desk)["span"] is None
    assert desk.widget("charts whole run")["reason"] == "All steps are shown."
    desk.wheel(*place_of(desk, 0, 0.5), "4")
    desk.wait(lambda: monitor(desk)["span"], "the zoom by the wheel")
    desk.click_at(*place_of(desk, 1, 0.5))
    desk.key("Return")
    assert monitor(desk)["titles"] == ["Learning rate"]
    desk.key("Escape", "Escape")
    assert len(monitor(desk)["titles"]) == 7 and monitor(desk)["span"] is None
    for button, name in (("image", "charts-001.png"), ("table", "figures-001.csv")):
        desk.click(f"charts save {button}")
        path = Path(desk.state["folder"]) / "exported" / name
        desk.wait(path.exists, name)


def test_the_log_is_followed_filtered_searched_and_copied_however_long(begin, project):
    desk = begin(project, "segv")
    desk.click("start")
    desk.wait_state(status="died")
    log = Path(desk.state["folder"]) / "worker.log"
    with log.open("a") as handle:
        handle.write("".join(f"line {number}\n" for number in range(40_000)))
        handle.write("ValueError: in the end\n")
    desk.click("show log")
    desk.click("open log")
    desk.wait_state(page="monitor", focus="log")
    desk.wait(lambda: "ValueError: in the end" in monitor(desk)["lines"], "the end")
    assert monitor(desk)["rows"] > 40_000 and monitor(desk)["built"] < 80
    with log.open("a") as handle:
        handle.write("one more\n")
    desk.wait(lambda: monitor(desk)["lines"].endswith("one more"), "what followed")
    desk.key("slash")
    desk.type("NULL pointer")
    desk.wait(lambda: monitor(desk)["count"] == "1 line", "the search")
    desk.key("Return")
    assert "about to touch a null pointer" in monitor(desk)["lines"]
    assert not monitor(desk)["follows"] and monitor(desk)["count"] == "1 of 1 line"
    desk.key("Escape", "End")
    assert monitor(desk)["follows"]
    desk.click("log filter")
    desk.key("Down", "Down", "Down", "Return")
    desk.wait(lambda: monitor(desk)["rows"] == 1, "the errors alone")
    desk.click("log copy")
    desk.wait(lambda: desk.state["message"] == "Copied 1 line of the log.", "the copy")
