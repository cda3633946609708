"""Settings in the window: real clicks and keys in rows, lists and choices of variants."""

import json

from PIL import Image

from onetrainer.config.fields import setting_at
from onetrainer.presets.find import BUILT_IN
from tests.ui.project import SDXL_PARTS, write_model, write_project


def choose(desk, path, variant):
    """Chooses a variant by the keyboard: opens the list, goes to the line, and takes it."""
    choices = setting_at(path).choices
    way = choices.index(variant) - choices.index(desk.value(path))
    desk.click(path)
    # tkinter knows no widget of a combo box's list.
    desk.wait(lambda: desk.state["focus"] == "None", "the list")
    desk.key(*(["Down"] * way if way > 0 else ["Up"] * -way), "Return")
    desk.wait(lambda: desk.value(path) == variant, f"{path} {variant}")


def is_shown(desk, name):
    return desk.widget(name).get("shown", False)


def visited(desk, count):
    """What has the keyboard after each of so many Tabs."""
    found = []
    for _ in range(count):
        desk.key("Tab")
        found.append(desk.state["focus"])
    return found


def jump(desk, text):
    desk.key("ctrl+f")
    desk.type(text)
    desk.wait(lambda: desk.widget("search hits")["shown"], "hits")
    desk.key("Return")


def wheel_to_the_end(desk):
    left, top, width, height = desk.state["place"]
    desk.wheel(left + width // 2, top + height // 2, "5", 60)


def is_in_sight(desk, name):
    _, top, __, height = desk.state["place"]
    widget = desk.widget(name)
    return widget.get("shown", False) and top < widget["y"] < top + height


def test_an_error_is_shown_at_the_field_while_typing_and_goes_when_corrected(desk):
    desk.page("training")
    desk.replace("training.steps", "many")
    desk.wait(lambda: desk.error("training.steps"), "the message next to the field")
    assert '"many" is not allowed here' in desk.error("training.steps")
    desk.wait_state(marks={"training": "Danger ! 1"})
    desk.replace("training.steps", "1_500")
    desk.wait(lambda: desk.value("training.steps") == 1500, "the value")
    assert desk.error("training.steps") == ""
    desk.replace("optimizer.lr", "0.5")
    desk.wait(lambda: desk.state["marks"].get("training") == "Warning ! 1", "the warning")


def test_a_change_is_taken_back_by_undo_and_by_the_button_of_the_field(desk):
    desk.page("training")
    desk.replace("training.steps", "99")
    desk.key("Tab")
    desk.wait(lambda: desk.value("training.steps") == 99, "the value")
    desk.key("ctrl+z")
    desk.wait(lambda: desk.value("training.steps") == 60, "the value before")
    desk.replace("training.steps", "77")
    desk.wait_state(changed=["training.steps"])
    desk.click("reset training.steps")
    desk.wait_state(changed=[])


def test_a_model_of_another_family_is_put_right_by_its_button_and_the_keyboard(desk, project):
    path = write_model(project.parent / "xl.safetensors", SDXL_PARTS)
    desk.replace("model.path", str(path))
    desk.wait(lambda: "this is an SDXL model" in desk.error("model.family"), "words at the family")
    assert desk.widget("fix model.family")["text"] == "Use SDXL"
    desk.click("fix model.family")
    desk.wait(lambda: desk.value("model.family") == "sdxl", "the family put right")
    desk.wait_state(focus="model.family")
    desk.key("ctrl+z")
    desk.wait(lambda: desk.widget("fix model.family").get("shown"), "the button again")
    desk.click("model.family")
    desk.key("Escape", "Tab")
    assert desk.state["focus"] == "fix model.family"
    desk.key("space")
    desk.wait(lambda: desk.value("model.family") == "sdxl", "the family put right by keyboard")


def test_another_optimizer_is_chosen_by_mouse_and_taken_back(desk):
    desk.page("training")
    place = desk.place("optimizer.kind")
    desk.click("optimizer.kind")
    desk.wait(lambda: desk.state["focus"] == "None", "the list")
    line = (place["height"] - 8) * 2  # past the box, into the list's second line
    desk.click_at(place["x"] + 40, place["y"] + place["height"] + line)
    desk.wait_state(focus="optimizer.kind", changed=["optimizer.kind"])
    variant = desk.value("optimizer.kind")
    assert variant in setting_at("optimizer.kind").choices[1:4]
    desk.key("ctrl+z")
    desk.wait(lambda: desk.value("optimizer.kind") == "adamw", "the one before")
    desk.key("ctrl+shift+z")
    desk.wait(lambda: desk.value("optimizer.kind") == variant, "the new one again")
    desk.click("reset optimizer.kind")
    desk.wait_state(changed=[])


def test_rows_are_visited_in_reading_order_also_those_that_came_later(desk):
    desk.click("model.family")
    desk.key("Escape")
    buttons = [f"choose {kind} model.path" for kind in ("known", "file", "folder")]
    assert visited(desk, 4) == ["model.path", *buttons]
    desk.page("training")
    choose(desk, "schedule.kind", "cosine_restarts")
    warmup = "schedule.warmup_steps"
    paths = ["reset schedule.kind", warmup, f"unit {warmup}", "schedule.cycles"]
    assert visited(desk, 4) == paths
    desk.page("method")
    desk.click("advanced method")
    desk.click("method.alpha")
    assert visited(desk, 2) == ["method.targets", "method.dropout"]
    desk.click("method.text_encoders.te1.alpha")
    assert visited(desk, 1) == ["add method.layers"]


def test_the_message_at_a_wrong_value_goes_with_its_row_but_the_keyboard_stays(desk):
    desk.page("training")
    desk.click("advanced training")
    choose(desk, "optimizer.kind", "sgd")
    desk.click("optimizer.momentum")
    desk.key("ctrl+z")
    desk.wait_state(focus="optimizer.kind")
    choose(desk, "optimizer.kind", "sgd")
    desk.replace("optimizer.momentum", "much")
    desk.wait(lambda: desk.error("optimizer.momentum"), "the message next to the field")
    choose(desk, "optimizer.kind", "adamw")
    desk.wait(lambda: not is_shown(desk, "optimizer.momentum"), "the row is gone")
    desk.wait_state(problems=[])


def test_search_leads_to_advanced_settings_and_to_where_another_variant_is_chosen(desk):
    desk.page("output")
    for text, page, path in (
        ("weight dec", "training", "optimizer.weight_decay"),
        ("min snr", "loss", "objective.weighting.kind"),
        ("nesterov", "training", "optimizer.kind"),  # a setting that another optimizer has
    ):
        jump(desk, text)
        desk.wait_state(page=page, focus=path)


def test_how_often_is_counted_in_the_unit_that_is_chosen(desk):
    desk.page("validation")
    desk.click("validation.use")
    assert desk.ask("unit", path="validation.every")["unit"] == "steps"
    desk.click("unit validation.every")
    desk.wait(lambda: desk.state["focus"] == "None", "the list")
    desk.key("Down", "Return")
    desk.wait(lambda: desk.value("validation.every") == "100 epochs", "the unit")
    desk.replace("validation.every", "5 images")
    desk.wait(lambda: desk.value("validation.every") == "5 images", "a typed unit")
    desk.replace("validation.every", "0")
    desk.wait(lambda: desk.value("validation.every") == 0, "the number")
    assert desk.ask("unit", path="validation.every")["unit"] == "never in between"


def test_prompts_are_added_moved_and_removed_and_the_keyboard_goes_on_to_the_next(desk):
    desk.page("sampling")
    prompts = [each["prompt"] for each in desk.value("sampling.prompts")]
    desk.click("add sampling.prompts")
    desk.wait_state(focus="sampling.prompts.3.prompt")
    desk.type("a fourth thing")
    desk.wait(lambda: desk.value("sampling.prompts.3.prompt") == "a fourth thing", "the new prompt")
    desk.click("up sampling.prompts.3")
    desk.wait(lambda: desk.value("sampling.prompts.2.prompt") == "a fourth thing", "it moved")
    desk.click("remove sampling.prompts.1")
    for count in (2, 1):  # by the button of the prompt that followed
        desk.wait_state(focus="remove sampling.prompts.1")
        desk.key("space")
        desk.wait(lambda n=count: len(desk.value("sampling.prompts")) == n, "one prompt less")
    assert desk.value("sampling.prompts.0.prompt") == prompts[0]
    desk.wait_state(focus="remove sampling.prompts.0")
    desk.key("space")
    desk.wait_state(focus="add sampling.prompts")
    desk.key("space")
    desk.wait_state(focus="sampling.prompts.0.prompt")


def test_sample_prompts_are_proposed_from_the_first_captions(begin, tmp_path):
    project = write_project(tmp_path / "project", sampling={"prompts": []})
    document = json.loads(project.read_text())
    captions = sorted((project.parent / document["data"]["folder"]).glob("*.txt"))
    desk = begin(project)
    desk.page("sampling")
    desk.click("propose sampling.prompts")
    desk.wait(lambda: desk.value("sampling.prompts"), "the prompts")
    prompts = desk.value("sampling.prompts")
    expected = list(dict.fromkeys(path.read_text().strip() for path in captions))[:3]
    assert [prompt["prompt"] for prompt in prompts] == expected
    assert {prompt["width"] for prompt in prompts} == {document["data"]["resolution"]}
    assert not desk.widget("propose sampling.prompts")["shown"]


def test_the_keyboard_does_not_go_with_an_entry_whose_adding_is_undone(desk):
    desk.page("method")
    desk.click("advanced method")
    desk.click("add method.layers")
    desk.wait(lambda: desk.state["focus"].startswith("method.layers."), "the new entry")
    desk.key("ctrl+z")
    desk.wait_state(focus="add method.layers")
    assert desk.value("method.layers") == []


def test_what_has_the_keyboard_after_a_removal_is_in_sight(desk):
    desk.resize(1300, 640)
    desk.page("data")
    desk.click("advanced data")
    for place in range(2):
        desk.click("add data.concepts")
        desk.wait_state(focus=f"data.concepts.{place}.folder")
    left, top, width, height = desk.state["place"]
    last = "remove data.concepts.1"
    while desk.widget(last)["y"] > top + 140:
        desk.wheel(left + width // 2, top + height // 2, "5")
    desk.click(last)
    desk.wait_state(focus="remove data.concepts.0", help="")  # the help has gone with the folder
    desk.wait(lambda: is_in_sight(desk, "remove data.concepts.0"), "it")


def test_the_plot_of_the_noise_follows_what_is_typed(desk, tmp_path):
    def capture():
        desk.rest(4)
        desk.image(tmp_path / "window.png")
        left, top, _, __ = desk.state["place"]
        place = desk.widget("plot of the noise")
        x, y = place["x"] - left, place["y"] - top
        with Image.open(tmp_path / "window.png") as image:
            return image.crop((x, y, x + place["width"], y + place["height"])).tobytes()

    desk.page("loss")
    even = capture()
    choose(desk, "objective.timesteps.kind", "logit_normal")
    assert capture() != even
    desk.click("advanced loss")
    desk.replace("objective.timesteps.lowest", "0.9x")
    desk.wait(lambda: not is_shown(desk, "plot of the noise"), "words in the plot's place")


def test_another_preset_begins_at_the_top_and_a_page_that_gets_short_is_not_blank(desk):
    desk.page("loss")
    desk.click("advanced loss")
    wheel_to_the_end(desk)
    assert not is_in_sight(desk, "advanced loss")
    desk.ask("load", path=str(BUILT_IN / "sd15" / "lora-style.json"))
    desk.wait(lambda: is_in_sight(desk, "advanced loss"), "the page from its top")
    choose(desk, "objective.kind", "reconstruction")
    desk.key("ctrl+z")
    desk.wait(lambda: is_shown(desk, "objective.timesteps.kind"), "the long page again")
    wheel_to_the_end(desk)
    desk.key("ctrl+shift+z")
    desk.wait(lambda: is_in_sight(desk, "objective.l1"), "the rows of the short page")
    assert not is_shown(desk, "plot of the noise")


def test_a_row_stays_under_the_pointer_when_others_come_above_it(desk):
    # Low enough that the page can be scrolled by as much as comes above.
    desk.resize(1000, 640)
    desk.page("training")
    desk.click("optimizer.kind")
    desk.key("Escape")
    desk.wait(lambda: is_in_sight(desk, "help below training"), "the help below the row")
    before = desk.widget("optimizer.kind")["y"]
    choose(desk, "optimizer.kind", "adafactor")
    desk.wait(lambda: is_shown(desk, "training.gradient_clipping"), "the warning above")
    assert desk.widget("optimizer.kind")["y"] == before


def test_the_objective_goes_along_with_the_method_and_a_message_says_so(desk):
    desk.page("method")
    choose(desk, "method.kind", "vae")
    assert desk.value("objective.kind") == "reconstruction"
    assert "Objective" in desk.state["message"]
    assert "VAE decoder" in desk.state["message"]
    desk.page("output")
    desk.click("advanced output")
    assert not is_shown(desk, "output.lora_naming")


def test_the_wheel_changes_no_value(desk):
    desk.page("training")
    place = desk.place("schedule.kind")
    for button in ("4", "5", "5"):
        desk.wheel(place["x"] + 20, place["y"] + 10, button)
    assert desk.value("schedule.kind") == "constant"


def test_many_folders_are_folded_and_one_can_be_opened(begin, project):
    document = json.loads(project.read_text())
    document["data"]["concepts"] = [{"folder": "pictures", "name": name} for name in "abc"]
    project.write_text(json.dumps(document))
    desk = begin(project)
    desk.page("data")
    assert not is_shown(desk, "data.concepts.1.folder")
    desk.click("fold data.concepts.1")
    desk.replace("data.concepts.1.repeats", "3")
    desk.wait(lambda: desk.value("data.concepts.1.repeats") == 3, "the value")
    desk.click("fold data.concepts.1")
    assert not is_shown(desk, "data.concepts.1.folder")


def test_rewards_are_chosen_and_left_by_clicks_and_visited_in_reading_order(desk):
    desk.page("rewards")
    assert not desk.widget("advanced rewards")["shown"]
    desk.click("objective rewards")
    desk.wait(lambda: desk.value("objective.kind") == "alignprop", "the objective")
    desk.click("add objective.rewards")
    desk.wait_state(focus="objective.rewards.0.reward")
    choose(desk, "objective.rewards.0.reward", "clip")
    entry = "objective.rewards.0."
    buttons = [f"choose {what} {entry}model" for what in ("file", "folder")]
    paths = [f"{entry}model", *buttons, f"{entry}train", f"{entry}weight"]
    assert visited(desk, 5) == paths
    desk.page("loss")
    desk.click("objective loss")
    desk.wait_state(page="rewards")
    desk.click("objective rewards")
    desk.wait(lambda: desk.value("objective.kind") == "denoising", "the other objective")
    assert not is_shown(desk, "add objective.rewards")
