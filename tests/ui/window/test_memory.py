"""“Will it fit?” in the window: real clicks, a job that is played by the fake worker."""

from tests.ui.project import write_project


def count(desk, page):
    desk.page(page)
    desk.click(f"will it fit {page}")
    desk.wait(lambda: desk.widget(f"will it fit {page}")["text"] == "Update", "the forecast")


def test_too_much_memory_is_reported_and_fixed_by_a_click(desk):
    count(desk, "hardware")
    assert desk.state["memory"][0] == "Too much: 14.6 GB of 12.0 GB"
    assert "Repeat whole blocks in the backward pass" in desk.state["memory"]
    desk.click("apply fix 1")
    assert desk.value("hardware.gradient_checkpointing") == "block"
    assert "This forecast is out of date: settings have changed." in desk.state["memory"]
    assert desk.widget("apply fix 1")["text"] == "Update"
    desk.click("apply fix 1")
    desk.wait(lambda: desk.state["memory"][0] == "Fits: 7.6 GB of 12.0 GB", "the new count")
    desk.wait(lambda: len(desk.state["memory"]) == 3, "its end, since no fix is needed")
    desk.page("training")
    desk.replace("training.batch_size", "none")
    desk.wait(lambda: desk.error("training.batch_size"), "the message next to the field")
    assert desk.widget("will it fit training")["reason"] == "Fix the invalid settings first."


def test_other_pages_say_the_same_in_short_and_lead_to_the_rest(desk):
    count(desk, "training")
    assert desk.state["memory"][0] == "Too much: 14.6 GB of 12.0 GB"
    desk.click("memory details training")
    desk.wait_state(page="hardware")
    assert any("instead of 14.6 GB" in line for line in desk.state["memory"])
    desk.click("apply fix 2")  # of several settings, which are undone as one
    assert desk.value("training.batch_size") == 1
    assert desk.value("training.accumulation") == 4
    desk.click("undo fix")
    assert desk.value("training.batch_size") == 4
    assert not any("out of date" in line for line in desk.state["memory"])


def test_a_count_can_be_given_up_and_shows_what_is_known_so_far(begin, project):
    desk = begin(project, "slow")
    desk.page("hardware")
    desk.click("will it fit hardware")
    desk.wait(lambda: "Looking for settings that lower it …" in desk.state["memory"], "a forecast")
    assert desk.widget("will it fit hardware")["text"] == "Stop"
    desk.click("will it fit hardware")
    assert desk.widget("will it fit hardware")["text"] == "Update"
    assert desk.state["memory"][0] == "Too much: 14.6 GB of 12.0 GB"


def test_why_it_cannot_be_counted_is_shown(begin, project):
    desk = begin(project, "failed")
    desk.page("hardware")
    desk.click("will it fit hardware")
    desk.wait(lambda: any("no published size" in line for line in desk.state["memory"]), "why")
    assert desk.widget("will it fit hardware")["text"] == "Will it fit?"


def test_the_work_of_a_reward_step_is_shown_as_it_changes_and_its_time_once_counted(
    begin, tmp_path
):
    objective = {"kind": "alignprop", "rewards": [{"reward": "sharpness"}]}
    project = write_project(tmp_path / "project", objective=objective)
    desk = begin(project)
    desk.page("rewards")
    before = desk.state["cost"]
    assert before[0].startswith("“Will it fit?” also estimates")
    desk.replace("objective.rollout.steps", "40")
    desk.wait(lambda: desk.state["cost"][-1] != before[-1], "more work")
    assert desk.state["cost"][-1].startswith("A step costs ")
    left, top, *_ = desk.state["place"]
    # To the top of the page, where no card covers the button.
    desk.wheel(left + 212, top + 400, "4", 12)
    desk.click("will it fit rewards")
    words = "About 40 s a step, 20 min in all (on this processor)"
    desk.wait(lambda: desk.state["cost"][0] == words, "the time")
    desk.replace("objective.rollout.steps", "30")
    late = "This time is out of date: settings have changed."
    desk.wait(lambda: late in desk.state["cost"], "the note")
    desk.replace("objective.rollout.steps", "many")
    desk.wait(lambda: desk.state["cost"] == [], "no forecast of a wrong number")
