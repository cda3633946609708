"""“Will it fit?” in the window: real clicks, a job that is played by the fake worker."""


def count(desk, page="hardware"):
    desk.page(page)
    desk.click(f"will it fit {page}")
    desk.wait(lambda: desk.widget(f"will it fit {page}")["text"] == "Update", "the forecast")


def test_it_is_counted_told_and_cured_by_a_click(open_desk, project):
    desk = open_desk(project)
    count(desk)
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
    desk.wait(lambda: desk.error("training.batch_size"), "the words beside the field")
    assert desk.widget("will it fit training")["reason"] == "Fix the invalid settings first."


def test_other_pages_say_the_same_in_short_and_lead_to_the_rest(open_desk, project):
    desk = open_desk(project)
    count(desk, "training")
    assert desk.state["memory"][0] == "Too much: 14.6 GB of 12.0 GB"
    desk.page("method")
    assert desk.state["memory"][0] == "Too much: 14.6 GB of 12.0 GB"
    desk.click("memory details method")
    desk.wait_state(page="hardware")
    assert any("instead of 14.6 GB" in line for line in desk.state["memory"])
    desk.click("apply fix 2")  # of several settings, which are undone as one
    assert desk.value("training.batch_size") == 1
    assert desk.value("training.accumulation") == 4
    desk.click("undo fix")
    assert desk.value("training.batch_size") == 4
    assert desk.value("training.accumulation") == 1
    assert not any("out of date" in line for line in desk.state["memory"])


def test_a_count_can_be_given_up_and_shows_what_is_known_so_far(open_desk, project):
    desk = open_desk(project, mode="slow")
    desk.page("hardware")
    desk.click("will it fit hardware")
    desk.wait(lambda: "Looking for settings that lower it …" in desk.state["memory"], "a forecast")
    assert desk.widget("will it fit hardware")["text"] == "Stop"
    desk.click("will it fit hardware")
    assert desk.widget("will it fit hardware")["text"] == "Update"
    assert desk.state["memory"][0] == "Too much: 14.6 GB of 12.0 GB"


def test_why_it_cannot_be_counted_is_said_in_words(open_desk, project):
    desk = open_desk(project, mode="failed")
    desk.page("hardware")
    desk.click("will it fit hardware")
    desk.wait(lambda: any("no published size" in line for line in desk.state["memory"]), "why")
    assert desk.widget("will it fit hardware")["text"] == "Will it fit?"
