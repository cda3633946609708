"""Who has the keyboard: dialogs, file dialogs, menus and the page of samples."""


def begin_dialog(desk):
    """Opens the list of problems, which a config without a model has."""
    desk.key("F5")
    desk.wait_question("answer problem 0")
    left, top, _, height = desk.state["place"]
    desk.click_at(left + 40, top + height - 60)  # behind it
    desk.wait_question("answer problem 0")


def test_shortcuts_rest_while_a_file_dialog_is_open(desk):
    desk.page("data")
    mode = desk.state["mode"]
    desk.click("choose folder data.folder")
    desk.wait_question("answer entries")
    desk.key("ctrl+d", "alt+1")
    assert (desk.state["mode"], desk.state["page"]) == (mode, "data")
    desk.key("Escape")
    desk.wait_end_of_question("answer entries")
    desk.key("alt+1")
    desk.wait_state(page="model")


def test_a_dialog_keeps_the_keyboard_after_a_click_behind_it_until_it_ends(desk):
    desk.replace("model.path", " ")
    for key in ("Escape", "Return"):
        begin_dialog(desk)
        desk.key(key)
        desk.wait_end_of_question("answer problem 0")
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.wait(lambda: desk.value("training.steps") == 77, "the value")


def test_space_compares_wherever_the_keyboard_was_before(desk):
    def compare():
        desk.hold("space")
        desk.wait_state(sample_shown=0)
        desk.release("space")
        desk.wait(lambda: desk.state["sample_shown"] > 0, "the sample of before")

    desk.click("start")
    desk.wait_state(status="finished", step=60)
    desk.page("samples")
    desk.wait_state(sample_shown=60)
    compare()  # as soon as the samples are there
    desk.page("training")
    desk.click("training.steps")
    desk.key("F3")
    desk.wait_state(page="samples")
    compare()
    assert desk.value("training.steps") == 60
    desk.key("ctrl+f", "Escape")
    desk.click("search")
    place = desk.place("gallery")
    desk.click_at(place["x"] + place["width"] - 60, place["y"] + 70)
    desk.wait_state(focus="timeline")
    compare()


def test_keys_never_reach_a_field_of_another_page(desk):
    """Whatever kind of field had the keyboard, and whichever key opened the other page.

    Each kind meets three of the ways, and each way one or two kinds.
    """
    fields = (
        ("training", "training.steps"),  # an amount with a unit
        ("training", "optimizer.lr"),  # a number
        ("method", "method.unet.train"),  # a switch
        ("data", "data.masks"),  # a choice
        ("model", "model.path"),  # a path
        ("sampling", "sampling.prompts.0.prompt"),  # a text
    )
    ways = (
        ("F2",),
        ("F3", "F4"),
        ("F6",),
        ("shift+F6",),
        ("shift+F7",),
        ("F7",),
        ("F9",),
        ("F11",),
        ("alt+0",),
        ("ctrl+o",),
        ("F1", "Escape", "F2"),
    )
    for number, (page, field) in enumerate(fields):
        for place in (0, 3, 6):
            keys = ways[(2 * number + place) % len(ways)]
            desk.page(page)
            value = desk.value(field)
            desk.click(field)
            desk.key("Escape")  # the list of a choice
            desk.wait_state(focus=field)
            if isinstance(value, bool):
                value = not value
                desk.wait(lambda: desk.value(field) == value, "the switch")  # noqa: B023
            desk.key(*keys)
            desk.type("99")
            desk.key("F2")
            desk.type("7")
            assert desk.value(field) == value, (field, keys)
    desk.page("training")
    desk.key("F1")
    desk.wait_state(page="keys")
    desk.key("Escape")
    desk.wait_state(page="training")
