"""A window of the size that is left at 200 % of a small screen: nothing is cut, all is reached."""

from ui.pages.registry import PAGES

SMALL = (640, 380)
LISTED = [page.name for page in PAGES if page.group]


def beyond_the_edge(desk):
    """The names of controls on the screen that stick out of the window at its side."""
    left, _, width, _ = desk.state["place"]
    return [
        name
        for name, place in desk.ask("widgets").items()
        if place.get("shown") and not left <= place["x"] <= left + width - place["width"]
    ]


def is_in_sight(desk, name):
    _, top, _, height = desk.state["place"]
    place = desk.widget(name)
    return top < place["y"] < place["y"] + place["height"] <= top + height


def test_every_page_of_a_small_window_is_reached_by_its_list_and_has_all_in_its_width(desk):
    desk.resize(*SMALL)
    desk.wait(lambda: desk.widget("pages")["shown"], "the button of the list")
    assert not desk.widget("page data")["shown"]
    for name in LISTED:
        desk.click("pages")
        desk.click(f"page {name}")
        desk.wait_state(page=name)
        desk.wait(lambda: not desk.widget("page data")["shown"], "the page alone")
        desk.rest(4)
        assert beyond_the_edge(desk) == [], name


def test_the_questions_of_the_guided_start_fit_into_a_small_window(desk, project):
    desk.resize(*SMALL)
    desk.wait(lambda: desk.widget("pages")["shown"], "the button of the list")
    desk.click("pages")
    desk.click("guide")
    for step, answer in (("images", "pictures"), ("model", "base.safetensors")):
        desk.wait_state(focus=f"start {step}")
        desk.replace(f"start {step}", str(project.parent / answer))
        desk.wait(lambda: desk.widget("start next")["kind"] == "primary", "the answer")
        # The card of what was found is placed a moment after it came.
        desk.wait(lambda: beyond_the_edge(desk) == [], f"all of {step} in the window's width")
        desk.click("start next")
    desk.wait(lambda: desk.widget("start aim person").get("shown"), "the last question")
    desk.wait(lambda: beyond_the_edge(desk) == [], "all of the last question in the width")
    desk.click("start aim person")
    for keys, name in (((), "start word"), (("Tab", "Tab"), "start next")):
        desk.key(*keys)
        desk.wait_state(focus=name)
        desk.wait(lambda: is_in_sight(desk, name), f"{name} in sight")  # noqa: B023


def test_the_list_of_pages_closes_by_itself_and_keeps_no_keyboard(desk):
    desk.resize(*SMALL)
    desk.wait(lambda: desk.widget("pages")["shown"], "the button of the list")
    left, top, width, height = desk.state["place"]

    def press_outside():
        desk.click_at(left + width - 30, top + height // 2)

    for close in (lambda: desk.key("Escape"), lambda: desk.click("pages"), press_outside):
        desk.click("pages")
        desk.wait_state(focus="page model")
        close()
        desk.wait(lambda: not desk.widget("page data")["shown"], "the page alone")
        assert not desk.state["focus"].startswith("page ")
    desk.resize(1280, 800)
    desk.wait(lambda: desk.widget("page data")["shown"], "the list beside the page")
    assert not desk.widget("pages")["shown"]


def test_controls_below_the_edge_of_a_filled_page_come_into_sight_by_tab(desk):
    desk.resize(*SMALL)
    desk.key("F7")
    desk.wait_state(page="queue")
    _, top, _, height = desk.state["place"]
    assert desk.widget("clear")["y"] > top + height
    for _ in range(20):
        if desk.state["focus"] == "clear":
            break
        desk.key("Tab")
    assert is_in_sight(desk, "clear")


def test_a_mask_has_its_hint_and_button_in_a_small_window(desk):
    desk.resize(*SMALL)
    desk.key("shift+F6")
    desk.wait(lambda: desk.widget("paint mask")["enabled"], "an image")
    desk.click("paint mask")
    desk.wait(lambda: "turned off" in desk.state["images"]["mask"], "the hint")
    desk.rest(4)
    button = desk.widget("mask setting")
    assert button["wanted_width"] <= button["width"] and not desk.widget("reread images")["shown"]
    desk.key("Escape")
    desk.wait(lambda: desk.widget("reread images")["shown"], "the grid with its buttons")
