"""Where things are: beside the settings, on the screen, and below the pointer."""


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


def test_the_window_comes_back_to_where_it_was(open_desk, project):
    places = []
    for _ in range(3):
        desk = open_desk(*([] if places else [project]))
        desk.rest()
        if not places:
            desk._xdotool("windowmove", "--sync", desk.window, 80, 90)
            desk.rest()
        places.append(desk.state["place"])
        desk.ask_to_close()
        assert desk.wait_end() == 0
    assert places[1] == places[0]
    assert places[2] == places[0]


def test_a_message_moves_nothing(open_desk, project):
    desk = open_desk(project)
    desk.page("training")
    desk.click("training.steps")
    before = desk.widget("training.steps")
    desk.key("F1")
    desk.wait(lambda: desk.state["message"].startswith("Steps"), "the message")
    assert desk.widget("training.steps") == before


def test_a_double_click_on_resume_does_not_pause(open_desk, long_project):
    desk = open_desk(long_project, mode="slow")
    desk.click("start")
    desk.wait_state(page="run", is_running=True)
    desk.wait(lambda: desk.state["step"] >= 2, "some steps")
    desk.click("pause")
    desk.wait_state(status="paused", is_running=False)
    desk.wait(lambda: desk.widget("resume")["enabled"], "the offer to resume")
    place = desk.widget("resume")
    desk.click("resume")
    desk.wait_state(is_running=True)
    desk.click_at(place["x"] + place["width"] - 15, place["y"] + 10)
    desk.rest()
    assert desk.widget("pause")["text"] == "Pause"
    desk.click("pause")
    desk.wait_state(status="paused")


def test_every_page_can_be_gone_to_in_a_low_window(open_desk, project):
    desk = open_desk(project)
    desk.resize(960, 640)
    _, top, _, height = desk.state["place"]
    for name in ("page model", "page preview", "page runs", "keys"):
        place = desk.widget(name)
        assert place["shown"]
        assert top < place["y"] < place["y"] + place["height"] < top + height
    desk.click("page runs")
    desk.wait_state(page="runs")
