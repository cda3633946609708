"""Reward training in the window: what is made of its events, and what the run page shows."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from onetrainer.run.events import Evaluated, Finished, Phase, Progress, Rewarded, Started
from onetrainer.run.run_folder import create_run
from tests.ui.pumping import resize
from ui.background.image_cache import ImageCache
from ui.background.session import Session
from ui.charts.run_charts import RewardChart
from ui.charts.trend_plots import TrendPlots
from ui.pages.run.page import RunPage
from ui.pages.run.remedies import past_the_guard
from ui.progress.rewards import (
    Rewards,
    format_percent,
    format_score,
    grid_columns,
    grid_rows,
    image_scores_text,
    reward_trends,
)
from ui.progress.run_state import RunState


def known(mean, since=None, band=None, **more):
    return {
        "mean": mean,
        "error": 0.02,
        "since_base": since,
        "since_base_error": band,
        "trained": 0,
        **more,
    }


def evaluated(step, reward=0.0, verdict="improving", **details):
    scores = {"": reward, "sharpness": 0.25, "color": 0.5}
    usual = {
        "message": "text",
        "best_step": step,
        "is_best": True,
        "rewards": {"sharpness": known(0.2), "color": known(0.5, trained=1)},
        "drift": {"diversity": 1.0},
        "images": [
            {
                "path": f"rewards/{step}-{seed}.jpg",
                "prompt": "a cat",
                "seed": seed,
                "rewards": scores,
            }
            for seed in (3, 4)
        ],
    }
    return Evaluated(step, reward, 0.1, verdict=verdict, **{**usual, **details})


def rewards_of(*events):
    state = RunState()
    for event in events:
        state.apply(event)
    return state.rewards


def trend(name, *events, min_diversity=0.6):
    found = reward_trends(rewards_of(*events), min_diversity=min_diversity)
    return next(one for one in found if one.name == name)


def test_rewards_are_stored_next_to_the_loss():
    state = RunState()
    for event in (
        Started(1, 0, 9),
        Phase("evaluating", 2, 6),
        Rewarded(1, 0.5, 0.2, 4),
        Progress(1, 9, 1, -0.5, 1e-4),
        evaluated(1),
    ):
        state.apply(event)
    assert (len(state.rewards.scores), len(state.curve), len(state.rewards.evaluations)) == (
        1,
        1,
        1,
    )
    assert state.status_text() == "Evaluating prompts · 2 of 6"


def test_a_step_of_long_training_keeps_its_spread_in_bounded_memory():
    rewards = Rewards()
    for step in range(1, 10_001):
        rewards.add_step(Rewarded(step, 2.0 * step, float(step), 4))
    scores, spreads = rewards.scores.points(), rewards.spreads.points()
    assert len(scores) <= 2048
    assert [point.mean for point in scores] == pytest.approx([2 * one.mean for one in spreads])


def test_a_reward_that_is_no_number_leaves_a_gap_in_both_curves():
    rewards = rewards_of(Rewarded(1, math.nan, 0.1, 4), Rewarded(2, 1.0, math.nan, 4))
    assert [point.step for point in rewards.scores.points()] == [2]
    assert [point.mean for point in rewards.spreads.points()] == [0.0]


def test_an_evaluation_replaces_one_of_the_same_step_and_a_first_one_starts_over():
    rewards = rewards_of(
        evaluated(0, verdict="first"), evaluated(10, 1.0), evaluated(5), evaluated(10, 2.0)
    )
    assert [(one.step, one.reward) for one in rewards.evaluations] == [
        (0, 0.0),
        (5, 0.0),
        (10, 2.0),
    ]
    rewards.add_evaluation(evaluated(10, 3.0, verdict="first"))
    assert [one.reward for one in rewards.evaluations] == [3.0]


def test_the_grid_has_base_best_and_now_or_any_other_evaluation_in_place_of_now():
    rewards = rewards_of(
        evaluated(0, verdict="first"), evaluated(5), evaluated(10), evaluated(15, best_step=5)
    )
    titles = [column.title for column in grid_columns(rewards)]
    assert titles == ["base", "best · step 5", "now · step 15"]
    assert [column.title for column in grid_columns(rewards, 10)][2] == "step 10"
    assert [column.cells[1][0] for column in grid_columns(rewards, 10)] == [
        f"rewards/{step}-4.jpg" for step in (0, 5, 10)
    ]
    assert grid_rows(rewards) == [("a cat", 3), ("a cat", 4)]


def test_an_image_lists_trained_rewards_first_and_their_sum_only_if_there_are_several():
    _, lines = grid_columns(rewards_of(evaluated(0, 0.7)))[0].cells[0]
    assert lines == (("color", "0.500"), ("sharpness", "0.250"))
    both = {"sharpness": known(0.2, trained=1), "color": known(0.5, trained=1)}
    rewards = rewards_of(evaluated(0, 0.7, rewards=both))
    assert grid_columns(rewards)[0].cells[0][1][0] == ("together", "0.700")
    assert image_scores_text(rewards, 1, 0) == "together 0.700   sharpness 0.250   color 0.500"


def test_trained_rewards_come_before_monitored_ones_and_these_before_drift():
    drift = {"saturation": 1.2, "diversity": 0.9, "distance": 0.02}
    found = reward_trends(rewards_of(evaluated(0, drift=drift)), min_diversity=0.6)
    assert [(one.name, one.kind) for one in found] == [
        ("color", "trained"),
        ("sharpness", "monitored"),
        ("diversity", "drift"),
        ("saturation", "drift"),
        ("distance", "drift"),
    ]
    assert [one.base for one in found] == [0.5, 0.2, 1.0, 1.0, None]


def test_a_change_of_a_reward_is_colored_only_beyond_its_band():
    for since, weight, tone in (
        (-0.05, 1, "warning"),
        (-0.01, 1, "text"),
        (0.05, 1, "good"),
        (-0.05, -1, "good"),
    ):
        rewards = {"sharpness": known(0.2 + since, since, 0.02, weight=weight)}
        assert trend("sharpness", evaluated(0), evaluated(5, rewards=rewards)).tone == tone, since


def test_drift_is_a_warning_where_the_guard_sees_one():
    for name, value, tone in (
        ("diversity", 0.69, "warning"),
        ("diversity", 0.71, "text"),
        ("contrast", 1.41, "warning"),
        ("saturation", 0.59, "warning"),
        ("saturation", 1.39, "text"),
        ("distance", 0.9, "text"),
    ):
        assert trend(name, evaluated(0, drift={name: value}), min_diversity=0.7).tone == tone, (
            name,
            value,
        )


def test_what_is_no_number_or_not_known_is_no_trend():
    bad = {"sharpness": known(math.nan), "color": known(0.5, trained=1, error=None)}
    rewards = rewards_of(evaluated(0, rewards=bad, drift={"contrast": math.nan}))
    found = reward_trends(rewards, min_diversity=0.6)
    assert [(one.name, one.points[0].error) for one in found] == [("color", 0.0)]


def test_values_have_the_digits_that_distinguish_them():
    values = [0.41234, -5.5, 21.534, 12345.6, 0.00042, 0.0]
    assert [format_score(one) for one in values] == [
        *("0.412", "-5.500", "21.53", "12,346", "0.0004", "0.000")
    ]
    assert [format_percent(one) for one in (1.0, 0.624, 0.0042, 0.0)] == [
        *("100 %", "62 %", "0.4 %", "0 %")
    ]
    rewards = {"sharpness": known(0.25, 0.05, 0.02)}
    assert trend("sharpness", evaluated(0), evaluated(5, rewards=rewards)).figure == "0.250  +0.05"
    assert trend("sharpness", evaluated(5)).text_at(0) == "step 5: 0.200 ± 0.02"


def test_only_an_end_that_the_guard_wanted_is_one():
    state = RunState()
    for event in (Started(1, 0, 60), evaluated(20, verdict="hacking", stops=True)):
        state.apply(event)
    assert not state.is_guarded_end  # it goes on saving
    state.apply(Finished(20, []))
    assert state.is_guarded_end
    assert state.status_text() == "Stopped by the guard"
    state.apply(Finished(60, []))
    assert not state.is_guarded_end
    state.apply(evaluated(30))
    state.apply(Finished(30, []))
    assert (state.is_early_end, state.is_guarded_end) == (True, False)


def placed(root, canvas, width=600, height=300):
    canvas.pack_propagate(False)
    canvas.place(x=0, y=0, width=width, height=height)
    resize(root, width, height)


def height_of(canvas, item):
    ends = canvas.coords(item)[1::2]
    return max(ends) - min(ends)


def filled(canvas, kind, color):
    return [
        item
        for item in canvas.find_all()
        if canvas.type(item) == kind and canvas.itemcget(item, "fill") == color
    ]


def test_the_bands_of_the_chart_are_as_high_as_spread_and_error(widgets, root):
    chart = RewardChart(widgets, root)
    placed(root, chart.canvas)
    steps = [Rewarded(step, 0.5, 0.4, 4) for step in range(1, 41)]
    chart.show(rewards_of(evaluated(0, 0.5, verdict="first"), *steps, evaluated(40, 0.5)))
    palette = widgets.theme.palette
    (spread,) = filled(chart.canvas, "polygon", palette["selected"])
    (band,) = filled(chart.canvas, "polygon", palette["validation_band"])
    # Both are constant: ±0.4 over images, and ±0.1 of the validation mean.
    value = height_of(chart.canvas, spread) / height_of(chart.canvas, band)
    assert value == pytest.approx(0.4 / 0.1, rel=0.02)


def test_what_the_guard_saw_is_marked_in_its_color(widgets, root):
    chart = RewardChart(widgets, root)
    placed(root, chart.canvas)
    chart.show(
        rewards_of(
            evaluated(0, verdict="first"), evaluated(5, 1.0), evaluated(10, 2.0, verdict="hacking")
        )
    )
    assert len(filled(chart.canvas, "polygon", widgets.theme.palette["warning"])) == 1


def test_rewards_that_are_not_trained_differ_by_more_than_color(widgets, root):
    plots = TrendPlots(widgets, root)
    placed(root, plots.canvas)
    found = reward_trends(rewards_of(evaluated(0), evaluated(5), evaluated(10)), min_diversity=0.6)
    plots.show(found)
    canvas = plots.canvas
    assert len(canvas.find_withtag("figure")) == len(found) == 3
    colors = {"accent": False, "validation": True, "dim": False}
    for role, is_dashed in colors.items():
        (line,) = (
            item
            for item in filled(canvas, "line", widgets.theme.palette[role])
            if len(canvas.coords(item)) == 6
        )
        assert bool(canvas.itemcget(line, "dash")) == is_dashed


def test_a_reward_run_shows_its_curves_and_its_grid_and_what_the_guard_did(begin, project):
    desk = begin(project, "hacking")
    desk.click("start")
    desk.wait_state(status="finished", step=40)
    desk.wait(lambda: "now · step 40" in desk.state["rewards"], "the last look")
    assert desk.state["rewards"].splitlines() == [
        "reward",
        "possible reward hacking",
        *("base", "best · step 20", "now · step 40"),
    ]
    title, words, stopped, best, *places = desk.state["banner"].splitlines()
    assert (title, words[:27]) == ("Training stopped by the guard", "The color rose by 0.12, but")
    assert (stopped, best) == (
        "The guard stopped it after step 40.",
        "paper-best.safetensors holds the weights of step 20.",
    )
    assert [Path(place).name for place in places] == [
        *("paper.safetensors", "paper-best.safetensors")
    ]
    desk.click("chart loss")
    desk.wait(lambda: desk.widget("loss chart")["shown"], "the loss")
    assert not desk.widget("reward chart")["shown"]
    desk.wait(lambda: "would stop it again" in desk.widget("resume").get("reason", ""), "why")
    assert desk.widget("remedy")["text"] == "Go on, and only warn"


def test_a_run_that_the_guard_stopped_goes_on_with_warnings_only(tmp_path):
    asked = []
    context = SimpleNamespace(act=SimpleNamespace(resume=asked.append))
    for guard, changes in (("stop", [{"objective.evaluation.guard": "warn"}]), ("warn", [])):
        asked.clear()
        config = {"objective": {"evaluation": {"guard": guard}}}
        remedy = past_the_guard(context, create_run(tmp_path, name="paper", config=config))
        if remedy is not None:
            remedy.do()
        assert asked == changes


def test_images_are_opened_and_followed_by_pointer_and_keys(begin, project):
    desk = begin(project, "rewards")
    desk.click("start")
    desk.wait_state(status="finished")
    desk.wait(lambda: "now · step 60" in desk.state["rewards"], "the last look")
    assert desk.state["banner"].startswith("Training finished")
    desk.click("reward grid")  # the second image of the base
    desk.wait_state(focus="reward timeline")
    desk.wait(lambda: "color 0.510   sharpness 0.310" in desk.state["rewards"], "its rewards")
    desk.key("Right", "Down")
    desk.wait(lambda: "color 0.521   sharpness 0.306" in desk.state["rewards"], "another picture")
    desk.key("Escape")
    desk.wait_state(focus="reward grid")
    assert desk.widget("reward chart")["shown"]
    desk.key("Down", "Right", "Right", "Return")
    desk.wait(lambda: "color 0.626   sharpness 0.100" in desk.state["rewards"], "the one of now")
    desk.click("reward curves")
    desk.click("evaluation timeline")
    desk.key("Home", "Right")
    desk.wait(lambda: desk.state["rewards"].endswith("step 10"), "an earlier look")


def run_page(root, widgets, tmp_path, *events):
    """The page of a run that has sent these events, on the screen."""
    session = Session()
    session.run = SimpleNamespace(folder=create_run(tmp_path, name="paper", config={}))
    for event in events:
        session.state.apply(event)
    act = SimpleNamespace(
        kill=None, resume=None, fork=None, start=None, show_log=None, start_blocked_reason=str
    )
    context = SimpleNamespace(
        widgets=widgets, session=session, images=ImageCache(widgets.jobs), act=act
    )
    resize(root, 1280, 800)
    page = RunPage(context, root)
    page.outer.pack(fill="both", expand=True)
    page.refresh()
    root.update()
    return page


def test_the_guard_warns_while_the_run_goes_on(root, widgets, tmp_path):
    warning = evaluated(10, 2.0, verdict="hacking", message="The color rose, but")
    page = run_page(
        root, widgets, tmp_path, Started(1, 0, 60), evaluated(0, verdict="first"), warning
    )
    assert page.banner.text.splitlines() == ["Warning from the guard", "The color rose, but"]
