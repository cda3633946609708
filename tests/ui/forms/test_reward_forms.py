"""The page of rewards: entries whose rows depend on each other, long lists, ways to and from it."""

import tkinter as tk

import pytest

from onetrainer.config.rewards.reward import Reward
from ui.model.form_fields import groups_in, page_of, pages
from ui.model.variants import variants_in
from ui.pages.settings.objective_card import objective_message
from ui.pages.settings.summary_card import prompt_lines
from ui.widgets.scroller import bind_wheel

ENTRY = "objective.rewards.0"
REWARDS = variants_in({"objective": {"kind": "alignprop"}})


def reward(**changes):
    return Reward(**changes).model_dump(mode="json")


@pytest.fixture
def draft(draft):
    draft.set("objective.kind", "alignprop")
    return draft


@pytest.fixture
def make_form(make_form):
    return lambda name="rewards": make_form(name, with_advanced=False)


def shown_in_entry(form):
    rows = form.list_card("objective.rewards").rows()
    return {row.setting.path for row in rows if row.is_shown}


def test_a_reward_shows_what_it_takes_and_nothing_else(make_form, draft):
    draft.set("objective.rewards", [reward(model="/m", quality=3, text="a")])
    form = make_form()
    always = {"reward", "train", "weight"}
    for name, basic, advanced in (
        ("sharpness", set(), set()),
        ("aesthetic", {"model", "head"}, set()),
        ("clip", {"model"}, {"text", "unlike"}),
        ("image_reward", {"model"}, {"text"}),
        ("reference", {"model", "folder"}, set()),
        ("color", {"color"}, set()),
        ("jpeg_size", set(), {"quality"}),
        ("function", {"function"}, {"has_gradient"}),
    ):
        form.with_advanced = False
        draft.set(f"{ENTRY}.reward", name)
        changed = {"quality", "text"} & advanced  # shown because they are not the defaults
        assert shown_in_entry(form) == always | basic | changed, name
        form.with_advanced = True
        form.refresh()
        assert shown_in_entry(form) == always | basic | advanced | {"target", "normalize"}, name


def test_problems_of_a_list_are_above_its_entries(make_form, draft, root):
    form = make_form()
    draft.set("objective.rewards", [reward(), reward(train=False)])
    root.update()
    part = form.list_card("objective.rewards")
    assert not part._message.winfo_ismapped()
    draft.set("objective.rewards.1.train", True)
    root.update()
    assert "every reward is trained" in part._message.cget("text").lower()
    assert part._message.winfo_rooty() < part._entries[0].frame.winfo_rooty()


def test_the_page_of_rewards_is_empty_with_another_objective(make_form, draft):
    form, loss = make_form(), make_form("loss")
    assert form.has_cards
    shown = [row.path for card in loss._cards for row in card.all_rows() if row.is_shown]
    assert shown == ["objective.kind"]
    draft.set("objective.kind", "denoising")
    assert not form.has_cards
    assert not any(card.outer.winfo_manager() for card in form._made.values())
    assert loss.row("objective.timesteps.kind").is_shown


def test_rewards_have_a_page_and_the_choice_of_objective_stays_on_its_own():
    assert page_of("objective.kind") == page_of("objective.loss.mse") == "loss"
    assert page_of("objective.rewards.2.model") == page_of("objective.rewards") == "rewards"
    assert page_of("objective.algorithm.kind") == page_of("objective.rollout.steps") == "rewards"
    plan = next(plan for plan in pages() if plan.name == "rewards")
    assert groups_in(plan, variants_in({})) == ()
    titles = [group.title for group in groups_in(plan, REWARDS)]
    assert titles[:3] == ["Rewards", "Algorithm", "Prompts"]


def test_a_list_of_prompts_is_as_high_as_it_needs_up_to_some(make_form, draft, root):
    form = make_form()
    editor = form.row("objective.prompts.text").editor
    for count, height in ((1, 5), (7, 7), (300, 9)):
        lines = "\n".join(f"a cat, {place}" for place in range(count))
        draft.set("objective.prompts.text", lines)
        root.update()
        assert editor.focus.cget("height") == height, count
        assert editor.read() == lines
        bars = [w for w in editor.widget.winfo_children() if not isinstance(w, tk.Text)]
        assert len([bar for bar in bars if bar.winfo_manager()]) == (count > height), count


def test_the_wheel_over_a_long_list_leaves_the_page_alone(make_form, draft, root):
    form = make_form()
    turned = []
    draft.set("objective.prompts.text", "a\n" * 100)
    root.update()
    text = form.row("objective.prompts.text").editor.focus
    widgets = form._context.widgets
    widgets.on_wheel[form._parent] = turned.append
    bind_wheel(root, lambda: widgets)
    text.event_generate("<Button-5>")
    assert turned == []
    text.yview_moveto(0)
    text.event_generate("<Button-4>")
    text.yview_moveto(1)
    text.event_generate("<Button-5>")
    assert turned == [-1, 1]


def test_the_objective_card_leads_to_reward_training_and_back():
    assert objective_message("rewards", "denoising", "lora").button == "Train on rewards"
    assert objective_message("rewards", "denoising", "lora").reason == ""
    assert "VAE" in objective_message("rewards", "reconstruction", "vae").reason
    assert objective_message("rewards", "alignprop", "lora").button == "Train on images instead"
    assert objective_message("loss", "alignprop", "lora").button == "Open Rewards"
    assert objective_message("loss", "denoising", "lora") is None


def test_the_number_of_prompts_is_described(draft):
    for text, lines in (
        ("", []),
        ("a cat", ["1 training prompt, 1 for evaluation, also trained on"]),
        ("\n".join("abcdefghij"), ["8 training prompts, 2 for evaluation"]),
    ):
        draft.set("objective.prompts.text", text)
        assert prompt_lines(draft) == lines
