"""Where things are: next to the settings, on the screen, and below the pointer."""

from PIL import Image


def wheel(desk, x, steps, way="5"):
    """Turn the wheel at a fraction of the width, halfway down the window."""
    left, top, width, height = desk.state["place"]
    desk.wheel(left + round(width * x), top + height // 2, way, steps)


def test_the_column_next_to_the_settings_fits_after_the_window_was_narrow(desk):
    desk.page("training")
    desk.click("optimizer.lr")
    desk.resize(1300, 800)
    desk.rest(4)
    before = desk.widget("sticky column training")
    desk.resize(970, 800)
    desk.rest(4)
    # The room of the explanation above the other cards, which is not there, is given back.
    below, explanation = desk.widget("sticky column training"), desk.widget("help training")
    assert below["height"] <= before["height"] - explanation["height"]
    desk.resize(1300, 800)
    desk.wait(lambda: desk.widget("sticky column training") == before, "the place of before")
    left, _, width, _ = desk.state["place"]
    assert before["x"] + before["width"] <= left + width


def test_the_explanation_of_a_setting_stays_in_sight(desk, tmp_path):
    def capture_help(path):
        desk.image(path)
        left, top, _, __ = desk.state["place"]
        place = desk.widget("help hardware")
        x, y = place["x"] - left, place["y"] - top
        with Image.open(path) as image:
            return image.crop((x, y, x + place["width"], y + place["height"])).tobytes()

    desk.resize(1300, 700)
    desk.page("hardware")
    desk.click("advanced hardware")
    desk.click("hardware.device")
    desk.wait_state(help="hardware.device")
    desk.key("Escape")  # closes the list, which would take the wheel
    wheel(desk, 0.5, 2)
    column, place = desk.widget("sticky column hardware"), desk.widget("help hardware")
    before = capture_help(tmp_path / "before.png")
    wheel(desk, 0.8, 5)  # also with the pointer over the cards next to the settings
    assert desk.widget("sticky column hardware")["y"] < column["y"]
    assert desk.widget("help hardware") == place
    # The cards that pass below it are not seen through it.
    assert capture_help(tmp_path / "after.png") == before
    wheel(desk, 0.5, 20, "4")
    assert desk.widget("help hardware")["y"] == desk.widget("sticky column hardware")["y"]


def test_all_cards_next_to_the_settings_stay_in_sight_where_there_is_room(desk):
    desk.page("training")
    desk.click("advanced training")
    wheel(desk, 0.5, 3)
    names = ("help training", "sticky column training", "will it fit training")

    def places():
        help_card, column, button = (desk.widget(name) for name in names)
        # The button is at the lower end of a card that may get another line meanwhile: its numbers
        # come from a thread.
        corners = [(each["x"], each["y"], each["shown"]) for each in (help_card, column)]
        return *corners, (button["x"], button["shown"])

    before = places()
    wheel(desk, 0.5, 6)
    assert desk.widget("training.steps")["y"] < desk.state["place"][1]
    assert places() == before


def test_a_narrow_window_explains_a_setting_below_its_field(desk):
    desk.resize(970, 800)
    desk.key("ctrl+f")
    desk.type("warmup")
    desk.wait(lambda: desk.widget("search hits")["shown"], "hits")
    desk.key("Return")
    desk.wait_state(page="training", focus="schedule.warmup_steps", help="schedule.warmup_steps")
    for path in ("schedule.warmup_steps", "training.batch_size"):
        desk.click(path)
        desk.wait(lambda: desk.widget("help below training").get("shown"), "the help")
        desk.wait(lambda path=path: is_below(desk, "help below training", path), "its place")
    assert not desk.widget("help training").get("shown")
    desk.resize(1300, 800)
    desk.wait(lambda: not desk.widget("help below training")["shown"], "the help elsewhere")
    assert desk.widget("help training")["shown"]


def is_below(desk, name, other):
    upper, lower = desk.widget(other), desk.widget(name)
    return 0 <= lower["y"] - upper["y"] - upper["height"] < 20


def test_a_message_moves_nothing_and_every_page_can_be_gone_to_in_a_low_window(desk):
    desk.page("training")
    desk.click("training.steps")
    before = desk.widget("training.steps")
    desk.key("F1")
    desk.wait(lambda: desk.state["message"].startswith("Length"), "the message")
    assert desk.widget("training.steps") == before
    desk.resize(960, 700)
    _, top, _, height = desk.state["place"]
    for name in ("page model", "page preview", "page runs", "keys"):
        place = desk.widget(name)
        assert place["shown"]
        assert top < place["y"] < place["y"] + place["height"] < top + height
    desk.click("page runs")
    desk.wait_state(page="runs")


def test_text_has_room_in_a_small_window(desk):
    desk.click("home")
    desk.resize(960, 700)
    desk.rest(4)
    for place in range(3):
        words = desk.widget(f"text of way {place}")
        assert words["wanted_width"] <= words["width"]
    for width in (960, 1024, 1100):
        desk.resize(width, 700)
        desk.page("images")
        desk.rest(4)
        heading = desk.widget("images heading")
        assert heading["wanted_width"] <= heading["width"], width
    desk.page("preview")
    desk.click("preview check")
    message = desk.widget("check message")
    assert message["wanted_width"] <= message["width"]
    head = desk.widget("preview check")
    assert message["x"] + message["width"] <= head["x"] + head["width"]


def test_buttons_of_a_run_stand_below_its_name_where_it_has_no_room_beside_them(desk):
    desk.click("start")
    desk.wait_state(status="finished", is_running=False)
    for width, is_below in ((1300, False), (960, True), (1300, False)):
        desk.resize(width, 800)
        desk.rest(4)
        left, path = desk.state["place"][0], desk.widget("run path")
        buttons = [desk.widget(name) for name in ("sample now", "resume", "discard", "open folder")]
        end = path["y"] + path["height"]
        for button in buttons:
            assert (button["y"] > end) == is_below
            assert is_below or path["x"] + path["wanted_width"] < button["x"]
            assert button["x"] + button["width"] <= left + width
