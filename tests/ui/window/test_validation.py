"""Validation in the window: its settings, and what a run says of held-out pictures."""

import pytest

from tests.ui.project import write_project


@pytest.fixture
def validating(tmp_path):
    """A project that measures held-out pictures every ten steps."""
    return write_project(
        tmp_path / "project", validation={"use": True, "every": 10}, ema={"use": True}
    )


def test_a_run_says_what_validation_images_show(open_desk, validating):
    desk = open_desk(validating)
    desk.click("start")
    desk.wait_state(status="finished")
    desk.rest()
    verdict, words, *facts = desk.state["validation"].splitlines()
    assert verdict == "overfitting"
    # The fake worker's loss is lowest after 0.598 of the run.
    assert words == "It begins to memorize: the loss was lowest at step 40."
    assert facts == []  # below a banner there is little room
    desk.resize(1280, 980)
    desk.wait(lambda: len(desk.state["validation"].splitlines()) > 2, "details where there is room")
    desk.resize(1280, 800)
    desk.wait(lambda: len(desk.state["validation"].splitlines()) == 2, "room for the chart")
    desk.click("validation details")
    facts = desk.state["validation"].splitlines()[2:]
    assert facts[0].startswith("Loss now: 0.14")
    assert facts[2].startswith("Lowest: step 40 · 0.14")
    desk.click("validation details")
    assert len(desk.state["validation"].splitlines()) == 2


def test_a_run_that_ended_early_can_be_resumed_and_says_what_decides(open_desk, tmp_path):
    patient = {"use": True, "every": 10, "patience": 1}
    desk = open_desk(write_project(tmp_path / "project", validation=patient))
    desk.resize(1280, 800)
    desk.click("start")
    # The loss is lowest at step 40 of 60.
    desk.wait_state(status="finished", step=50)
    desk.wait(lambda: desk.widget("resume")["enabled"], "the offer to resume")
    title, *lines = desk.state["banner"].splitlines()
    assert title == "Training ended early"
    assert any("validation.patience" in line and "config.json" in line for line in lines)
    desk.wait(lambda: desk.widget("loss chart")["height"] >= 172, "a chart of two panels")
    desk.click("validation details")
    desk.rest()
    assert len(desk.state["validation"].splitlines()) > 2
    assert desk.widget("loss chart")["height"] >= 172  # below a banner too
    desk.click("resume")
    desk.wait_state(status="finished", step=60)
    desk.wait(
        lambda: desk.widget("resume")["reason"] == "This run has finished all its steps.", "why"
    )


def test_validation_is_found_and_how_often_is_counted_in_what_is_chosen(open_desk, validating):
    desk = open_desk(validating)
    desk.key("ctrl+f")
    desk.type("overfitting")  # what people fear
    desk.wait(lambda: desk.widget("search hits")["shown"], "hits")
    desk.key("Return")
    desk.wait_state(page="validation", focus="validation.use")
    desk.click("advanced validation")
    assert desk.ask("unit", path="validation.every")["unit"] == "steps"
    desk.click("validation.unit")
    desk.key("Down", "Return")
    desk.wait(lambda: desk.value("validation.unit") == "epochs", "the choice")
    assert desk.ask("unit", path="validation.every")["unit"] == "epochs"
    desk.replace("validation.every", "0")
    desk.wait(lambda: desk.value("validation.every") == 0, "the number")
    assert desk.ask("unit", path="validation.every")["unit"] == "never in between"
