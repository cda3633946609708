"""Where things are: beside the settings, on the screen, and below the pointer."""

from PIL import Image


def test_the_right_column_fits_after_the_window_was_narrow(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.click("optimizer.lr")
    desk.resize(1300, 800)
    desk.rest()
    before = desk.widget("aside training")
    desk.resize(970, 800)
    desk.rest()
    desk.resize(1300, 800)
    desk.rest()
    assert desk.widget("aside training") == before
    left, _, width, _ = desk.state["place"]
    assert before["x"] + before["width"] <= left + width


def wheel(desk, x, steps, way="5"):
    """Turns the wheel at a share of the width, halfway down the window."""
    left, top, width, height = desk.state["place"]
    desk.wheel(left + round(width * x), top + height // 2, way, steps)


def look_at(desk, name, path):
    """What is on the screen where a control is, as bytes."""
    desk.image(path)
    left, top, _, __ = desk.state["place"]
    place = desk.widget(name)
    x, y = place["x"] - left, place["y"] - top
    with Image.open(path) as image:
        return image.crop((x, y, x + place["width"], y + place["height"])).tobytes()


def test_the_explanation_of_a_setting_stays_in_sight(open_desk, project, tmp_path):
    desk = open_desk(project)
    desk.resize(1300, 640)
    desk.page("hardware")
    desk.click("advanced hardware")
    desk.click("hardware.device")
    desk.wait_state(help="hardware.device")
    wheel(desk, 0.5, 3)
    aside, place = desk.widget("aside hardware"), desk.widget("help hardware")
    before = look_at(desk, "help hardware", tmp_path / "before.png")
    wheel(desk, 0.8, 5)  # also with the pointer over the cards beside the settings
    assert desk.widget("aside hardware")["y"] < aside["y"]
    assert desk.widget("help hardware") == place
    # The cards that pass below it are not seen through it.
    assert look_at(desk, "help hardware", tmp_path / "after.png") == before
    wheel(desk, 0.5, 20, "4")
    assert desk.widget("help hardware")["y"] == desk.widget("aside hardware")["y"]


def test_all_cards_beside_the_settings_stay_in_sight_where_there_is_room(open_desk, project):
    desk = open_desk(project)
    desk.resize(1280, 800)
    desk.page("training")
    desk.click("advanced training")
    wheel(desk, 0.5, 3)
    names = ("help training", "aside training", "will it fit training")
    before = [desk.widget(name) for name in names]
    wheel(desk, 0.5, 6)
    assert desk.widget("training.steps")["y"] < desk.state["place"][1]
    assert [desk.widget(name) for name in names] == before


def test_a_narrow_window_explains_what_was_jumped_to_and_has_the_help_below(open_desk, project):
    desk = open_desk(project)
    for width in (1300, 970):
        desk.resize(width, 800)
        desk.key("ctrl+f")
        desk.type("warmup")
        desk.wait(lambda: desk.widget("search hits")["shown"], "hits")
        assert desk.state["message"] == ""
        desk.key("Return")
        desk.wait_state(page="training", focus="schedule.warmup_steps")
    assert desk.state["message"].startswith("Warm-up: ")
    desk.wait(lambda: desk.widget("help training")["y"] > desk.widget("training.steps")["y"], "it")
    wheel(desk, 0.5, 40)
    aside, place = desk.widget("aside training"), desk.widget("help training")
    assert (place["x"], place["y"], place["width"]) == (aside["x"], aside["y"], aside["width"])


def test_the_window_comes_back_to_where_it_was(open_desk, project):
    places = []
    for _ in range(3):
        desk = open_desk(*([] if places else [project]))
        desk.rest()
        if not places:
            desk.move(80, 90)
        places.append(desk.state["place"])
        desk.ask_to_close()
        assert desk.wait_end() == 0
    assert places[1] == places[0]
    assert places[2] == places[0]


def test_a_message_moves_nothing_and_every_page_can_be_gone_to_in_a_low_window(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.click("training.steps")
    before = desk.widget("training.steps")
    desk.key("F1")
    desk.wait(lambda: desk.state["message"].startswith("Steps"), "the message")
    assert desk.widget("training.steps") == before
    desk.resize(960, 640)
    _, top, _, height = desk.state["place"]
    for name in ("page model", "page preview", "page runs", "keys"):
        place = desk.widget(name)
        assert place["shown"]
        assert top < place["y"] < place["y"] + place["height"] < top + height
    desk.click("page runs")
    desk.wait_state(page="runs")


def test_a_double_click_on_resume_does_not_pause(open_desk, long_project):
    # Longer than a busy machine takes between the two.
    constants = {"ui.widgets.widgets._IGNORE_CLICKS_S": 1.0}
    desk = open_desk(long_project, mode="slow", constants=constants)
    desk.click("start")
    desk.wait_state(page="run", is_running=True)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    desk.click("pause")
    desk.wait_state(status="paused", is_running=False)
    desk.wait(lambda: desk.widget("resume")["enabled"], "the offer to resume")
    place = desk.widget("resume")
    desk.click_twice(place["x"] + place["width"] - 15, place["y"] + 10)
    desk.wait_state(is_running=True)
    desk.rest()
    assert desk.widget("pause")["text"] == "Pause"
    desk.click("pause")
    desk.wait_state(status="paused")
