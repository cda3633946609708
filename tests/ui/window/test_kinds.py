"""Sections that come in kinds, in the window: real clicks and keys."""

import json

from PIL import Image

from onetrainer.config.fields import setting_at
from onetrainer.presets.presets import BUILT_IN

KINDS = setting_at("optimizer.kind").choices


def choose(desk, path, kind):
    """Chooses a kind by the keyboard: opens the list, goes to the line, and takes it."""
    kinds = setting_at(path).choices
    way = kinds.index(kind) - kinds.index(desk.value(path))
    desk.click(path)
    wait_for_list(desk)
    desk.key(*(["Down"] * way if way > 0 else ["Up"] * -way), "Return")
    desk.wait(lambda: desk.value(path) == kind, f"{path} {kind}")


def wait_for_list(desk):
    """Waits until a list of choices is open, whose widgets tkinter does not know."""
    desk.wait(lambda: desk.state["focus"] == "None", "the list")


def is_shown(desk, name):
    return desk.widget(name).get("shown", False)


def look(desk, folder):
    """The plot of the noise, as bytes."""
    desk.image(folder / "window.png")
    left, top, _, __ = desk.state["place"]
    place = desk.widget("plot of the noise")
    x, y = place["x"] - left, place["y"] - top
    with Image.open(folder / "window.png") as image:
        return image.crop((x, y, x + place["width"], y + place["height"])).tobytes()


def test_another_optimizer_is_chosen_by_mouse_and_brings_its_own_rows(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.click("advanced training")
    desk.wait(lambda: is_shown(desk, "optimizer.eps"), "the advanced rows")
    place = desk.widget("optimizer.kind")
    desk.click("optimizer.kind")
    line = (place["height"] - 8) * 2  # past the box, into the list's second line
    desk.click_at(place["x"] + 40, desk.widget("optimizer.kind")["y"] + place["height"] + line)
    desk.wait(lambda: desk.value("optimizer.kind") != "adamw", "another kind")
    assert desk.value("optimizer.kind") in KINDS[1:4]
    desk.wait_state(focus="optimizer.kind", changed=["optimizer.kind"])


def test_another_optimizer_is_chosen_by_keyboard_alone(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.click("training.batch_size")
    desk.key("Tab")
    assert desk.state["focus"] == "optimizer.kind"
    desk.key("Down")
    wait_for_list(desk)
    desk.key(*["Down"] * KINDS.index("lion"), "Return")
    desk.wait(lambda: desk.value("optimizer.kind") == "lion", "another kind")
    assert desk.state["focus"] == "optimizer.kind"
    desk.key("Tab", "Tab")
    assert desk.state["focus"] == "optimizer.lr"


def test_values_are_kept_and_undo_and_reset_bring_the_old_kind_back(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.replace("optimizer.lr", "3e-4")
    desk.wait(lambda: desk.value("optimizer.lr") == 3e-4, "the value")
    choose(desk, "optimizer.kind", "sgd")
    assert desk.value("optimizer.lr") == 3e-4
    desk.key("ctrl+z")
    desk.wait(lambda: desk.value("optimizer.kind") == "adamw", "the kind before")
    assert desk.value("optimizer.lr") == 3e-4
    desk.key("ctrl+shift+z")
    desk.wait(lambda: desk.value("optimizer.kind") == "sgd", "the new kind again")
    desk.click("reset optimizer.kind")
    desk.wait(lambda: desk.value("optimizer.lr") == 1e-4, "the preset's value")
    assert desk.state["changed"] == []


def test_words_beside_a_wrong_value_go_with_its_row_but_the_keyboard_stays(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.click("advanced training")
    choose(desk, "optimizer.kind", "sgd")
    desk.click("optimizer.momentum")
    desk.key("ctrl+z")
    desk.wait_state(focus="optimizer.kind")
    assert desk.value("optimizer.kind") == "adamw"
    choose(desk, "optimizer.kind", "sgd")
    desk.replace("optimizer.momentum", "much")
    desk.wait(lambda: desk.error("optimizer.momentum"), "words beside the field")
    assert '"much" is not allowed here' in desk.error("optimizer.momentum")
    desk.wait_state(marks={"training": "Danger ⚠ 1"})
    choose(desk, "optimizer.kind", "adamw")
    desk.wait(lambda: not is_shown(desk, "optimizer.momentum"), "the row is gone")
    assert desk.state["problems"] == []


def test_a_preset_of_another_kind_shows_that_kind_s_rows(open_desk, project):
    other = project.parent / "other.json"
    other.write_text(json.dumps({"version": 2, "method": {"kind": "full", "weights": "fp32"}}))
    desk = open_desk(project)
    desk.page("method")
    assert is_shown(desk, "method.rank")
    desk.ask("load", path=str(other))
    desk.wait(lambda: is_shown(desk, "method.weights"), "the rows of the other kind")
    assert not is_shown(desk, "method.rank")
    assert desk.value("method.weights") == "fp32"
    desk.key("ctrl+z")
    desk.wait(lambda: is_shown(desk, "method.rank"), "the rows of before")


SEARCHES = {
    "prodigy": ("training", "optimizer.kind"),
    "min snr": ("loss", "objective.weighting.kind"),
    "nesterov": ("training", "optimizer.kind"),  # a setting that another kind has
}


def test_search_for_a_kind_or_its_setting_leads_to_where_it_is_chosen(open_desk, project):
    desk = open_desk(project)
    for words, (page, path) in SEARCHES.items():
        desk.key("ctrl+f")
        desk.type(words)
        desk.wait(lambda: desk.widget("search hits")["shown"], "hits")
        desk.key("Return")
        desk.wait_state(page=page, focus=path)


def test_the_rows_of_a_new_schedule_are_visited_in_order_and_its_points_edited(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    choose(desk, "schedule.kind", "cosine_restarts")
    visited = []
    for _ in range(3):
        desk.key("Tab")
        visited.append(desk.state["focus"])
    assert visited == ["reset schedule.kind", "schedule.warmup_steps", "schedule.cycles"]
    choose(desk, "schedule.kind", "points")
    count = len(desk.value("schedule.points"))
    desk.click("add schedule.points")
    desk.wait(lambda: len(desk.value("schedule.points")) == count + 1, "a point more")
    desk.replace(f"schedule.points.{count}.factor", "0.5")
    desk.wait(lambda: desk.value(f"schedule.points.{count}.factor") == 0.5, "its value")
    choose(desk, "schedule.kind", "linear")
    desk.wait(lambda: not is_shown(desk, "add schedule.points"), "the list is gone")
    assert desk.state["problems"] == []


def test_rows_made_later_are_visited_in_order_and_layers_take_optional_numbers(open_desk, project):
    desk = open_desk(project)
    desk.page("method")
    desk.click("advanced method")
    desk.wait(lambda: is_shown(desk, "method.targets"), "the advanced rows")
    desk.click("method.alpha")
    visited = []
    for _ in range(2):
        desk.key("Tab")
        visited.append(desk.state["focus"])
    assert visited == ["method.targets", "method.dropout"]
    desk.click("method.text_encoder.alpha")
    desk.key("Tab")
    assert desk.state["focus"] == "add method.layers"
    desk.click("add method.layers")
    desk.wait(lambda: is_shown(desk, "method.layers.0.rank"), "the entry")
    desk.replace("method.layers.0.rank", "4")
    desk.wait(lambda: desk.value("method.layers.0.rank") == 4, "the number")
    desk.click("method.layers.0.rank")
    desk.key("ctrl+a", "Delete")
    desk.wait(lambda: desk.value("method.layers.0.rank") is None, "nothing again")


def test_what_has_no_effect_with_the_method_is_not_shown(open_desk, project):
    desk = open_desk(project)
    desk.page("output")
    desk.click("advanced output")
    desk.wait(lambda: is_shown(desk, "output.lora_naming"), "the naming of a LoRA")
    assert not is_shown(desk, "output.model_format")
    desk.page("method")
    assert not is_shown(desk, "method.text_encoder_2.train")
    choose(desk, "method.kind", "full")
    desk.page("output")
    desk.wait(lambda: is_shown(desk, "output.model_format"), "the form of a model")
    assert not is_shown(desk, "output.lora_naming")


def test_the_plot_of_the_noise_follows_what_is_typed(open_desk, project, tmp_path):
    desk = open_desk(project)
    desk.page("loss")
    desk.wait(lambda: is_shown(desk, "plot of the noise"), "the plot")
    even = look(desk, tmp_path)
    choose(desk, "objective.timesteps.kind", "logit_normal")
    desk.rest()
    hill = look(desk, tmp_path)
    assert hill != even
    desk.click("advanced loss")
    desk.replace("objective.timesteps.lowest", "0.9x")
    desk.wait(lambda: not is_shown(desk, "plot of the noise"), "words in the plot's place")
    desk.replace("objective.timesteps.lowest", "0")
    desk.wait(lambda: is_shown(desk, "plot of the noise"), "the plot again")


def wheel_to_the_end(desk):
    left, top, width, height = desk.state["place"]
    desk.wheel(left + width // 2, top + height // 2, "5", 60)


def is_in_sight(desk, name):
    _, top, __, height = desk.state["place"]
    widget = desk.widget(name)
    return widget.get("shown", False) and top < widget["y"] < top + height


def test_another_preset_begins_at_the_top_of_its_pages_and_short_ones_are_there(open_desk, project):
    desk = open_desk(project)
    desk.page("loss")
    desk.click("advanced loss")
    desk.wait(lambda: is_shown(desk, "objective.kind"), "the long page")
    wheel_to_the_end(desk)
    assert not is_in_sight(desk, "advanced loss")
    desk.ask("load", path=str(BUILT_IN / "sd15" / "lora-style.json"))
    desk.wait(lambda: is_in_sight(desk, "advanced loss"), "the page from its top")
    wheel_to_the_end(desk)
    assert not is_in_sight(desk, "advanced loss")
    desk.page("data")
    desk.ask("load", path=str(BUILT_IN / "sd15" / "vae-decoder.json"))
    desk.page("loss")
    desk.wait(lambda: is_in_sight(desk, "advanced loss"), "the page that became short while away")
    assert is_in_sight(desk, "objective.l1")


def test_another_objective_brings_other_cards_and_a_page_that_gets_short_is_not_blank(
    open_desk, project
):
    desk = open_desk(project)
    desk.page("loss")
    desk.click("advanced loss")
    desk.wait(lambda: is_shown(desk, "objective.kind"), "the choice")
    choose(desk, "objective.kind", "reconstruction")
    desk.wait(lambda: is_shown(desk, "objective.l1"), "the other objective")
    assert not is_shown(desk, "objective.timesteps.kind")
    assert not is_shown(desk, "plot of the noise")
    desk.key("ctrl+z")
    desk.wait(lambda: is_shown(desk, "objective.timesteps.kind"), "the long page again")
    wheel_to_the_end(desk)
    desk.key("ctrl+shift+z")
    desk.wait(lambda: desk.value("objective.kind") == "reconstruction", "the short page")
    desk.wait(lambda: is_in_sight(desk, "objective.l1"), "its rows")


def test_a_row_stays_under_the_pointer_when_others_come_above_it(open_desk, project):
    desk = open_desk(project)
    # Low enough that the page can be scrolled by as much as comes above.
    desk.resize(1000, 640)
    desk.page("training")
    desk.click("optimizer.kind")
    desk.key("Escape")
    before = desk.widget("optimizer.kind")["y"]
    choose(desk, "optimizer.kind", "adafactor")
    desk.wait(lambda: is_shown(desk, "training.gradient_clipping"), "the warning above")
    assert desk.widget("optimizer.kind")["y"] == before


def test_the_objective_goes_along_with_the_method_which_comes_back_as_it_was(open_desk, project):
    desk = open_desk(project)
    desk.page("method")
    desk.replace("method.rank", "24")
    choose(desk, "method.kind", "vae")
    assert desk.value("objective.kind") == "reconstruction"
    assert "Objective" in desk.state["message"]
    assert "VAE decoder" in desk.state["message"]
    desk.wait_state(problems=[])
    choose(desk, "method.kind", "oft")
    assert desk.value("objective.kind") == "denoising"
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.page("method")
    choose(desk, "method.kind", "lora")
    assert desk.value("method.rank") == 24


def test_a_second_word_has_a_name_of_its_own(open_desk, project):
    desk = open_desk(project)
    desk.page("method")
    for count in (1, 2):
        desk.click("add embeddings.tokens")
        desk.wait(lambda: len(desk.value("embeddings.tokens")) == count, "a word")  # noqa: B023 - ends before the next
    assert desk.value("embeddings.tokens.1.token") == "<my-word-2>"
    assert desk.state["focus"] == "embeddings.tokens.1.token"


def test_a_preset_is_opened_from_a_list_beside_the_menu_by_keys_alone(open_desk, project):
    desk = open_desk(project)
    desk.park()
    desk.key("ctrl+o")
    desk.wait(lambda: "menu" in desk.state["focus"], "the menu")
    desk.key("Down", "Up", "Right", "Return")
    desk.wait_state(preset="sdxl/lora")
