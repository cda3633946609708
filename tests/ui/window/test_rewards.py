"""Reward training set up in the window: real clicks and keys, a run that is played."""

import json

import pytest

from tests.ui.project import write_project

CODE = "def mine(pictures, prompts):\n    return pictures.mean((1, 2, 3))\n"


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def rewarded(tmp_path, own):
    """The config of a project that trains toward a function of one's own."""
    rewards = [
        {"reward": "function", "function": f"{own}:mine", "has_gradient": True},
        {"reward": "jpeg_size", "train": False},
    ]
    prompts = {"text": "\n".join(f"a photo of animal {number}" for number in range(20))}
    objective = {"kind": "alignprop", "rewards": rewards, "prompts": prompts}
    return write_project(tmp_path / "project", objective=objective, training={"steps": 20_000})


def is_requested(desk):
    return desk.widget("answer run").get("shown", False)


def test_rewards_are_chosen_added_and_left_by_clicks(open_desk, project):
    desk = open_desk(project)
    desk.page("rewards")
    assert not desk.widget("advanced rewards")["shown"]
    desk.click("objective rewards")
    desk.wait(lambda: desk.value("objective.kind") == "alignprop", "the objective")
    desk.click("add objective.rewards")
    desk.wait_state(focus="objective.rewards.0.reward")
    assert desk.value("objective.rewards.0.reward") == "sharpness"
    assert not desk.widget("objective.rewards.0.model").get("shown")
    desk.key("Up", "Return")  # opens the list and takes what is chosen in it
    desk.key("Escape")
    desk.page("loss")
    desk.click("objective loss")
    desk.wait_state(page="rewards")
    desk.click("objective rewards")
    desk.wait(lambda: desk.value("objective.kind") == "denoising", "the other objective")
    assert not desk.widget("add objective.rewards").get("shown")


def test_the_tab_key_visits_an_entry_s_rows_in_reading_order(open_desk, project):
    document = json.loads(project.read_text())
    rewards = [{"reward": "clip", "model": "org/clip"}]
    document["objective"] = {"kind": "alignprop", "rewards": rewards}
    project.write_text(json.dumps(document))
    desk = open_desk(project)
    desk.page("rewards")
    desk.click("objective.rewards.0.reward")
    desk.key("Escape")
    visited = []
    for _ in range(5):
        desk.key("Tab")
        visited.append(desk.state["focus"].removeprefix("objective.rewards.0."))
    model = "objective.rewards.0.model"
    assert visited[0] == "model"
    buttons = ["choose file model", "choose folder model"]
    assert [words.replace(model, "model") for words in visited[1:3]] == buttons
    assert visited[3:] == ["train", "weight"]


def test_the_work_of_a_step_is_shown_as_it_changes_and_its_time_once_counted(open_desk, rewarded):
    desk = open_desk(rewarded)
    desk.page("rewards")
    before = desk.state["cost"]
    assert before[0].startswith("“Will it fit?” also estimates")
    assert before[-1].startswith("A step costs ")
    desk.replace("objective.rollout.steps", "40")
    desk.wait(lambda: desk.state["cost"][-1] != before[-1], "more work")
    left, top, *_ = desk.state["place"]
    # To the top of the page, where no card covers the button.
    desk.wheel(left + 212, top + 400, "4", 12)
    desk.click("will it fit rewards")
    words = "About 40 s a step, 20 min in all (on this processor)"
    desk.wait(lambda: desk.state["cost"][0] == words, "the time")
    desk.replace("objective.rollout.steps", "30")
    desk.wait(
        lambda: "This time is out of date: settings have changed." in desk.state["cost"], "the note"
    )
    desk.page("hardware")
    assert desk.state["cost"][0] == words
    desk.page("rewards")
    desk.replace("objective.rollout.steps", "many")
    desk.wait(lambda: desk.state["cost"] == [], "nothing to be told of a wrong number")


def test_one_s_own_code_is_run_and_resumed_when_changed_only_after_a_yes(open_desk, rewarded, own):
    desk = open_desk(rewarded, mode="slow")
    desk.key("F5")
    desk.wait(lambda: is_requested(desk), "the question")
    desk.key("Return")  # the first answer is no
    desk.wait_state(message="Training was not started, and none of your code was run.")
    assert not desk.state["is_running"]
    desk.key("F5")
    desk.wait(lambda: is_requested(desk), "the question again")
    desk.click("answer run")
    desk.wait(lambda: desk.state["step"] > 0, "a step")
    assert desk.state["problems"] == []
    desk.click("pause")
    desk.wait_state(status="paused")
    own.write_text(CODE + "# another\n")
    desk.click("resume")
    desk.wait(lambda: is_requested(desk), "the question about what has changed")
    desk.key("Escape")
    assert desk.state["status"] == "paused"
    desk.click("resume")
    desk.wait(lambda: is_requested(desk), "the question again")
    desk.click("answer run")
    desk.wait_state(is_running=True)
