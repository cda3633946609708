"""Who has the keyboard and the pointer: dialogs, file dialogs and the page of samples."""


def begin_dialog(desk):
    """Opens the list of problems, which an empty draft has."""
    desk.key("F5")
    desk.wait_question("answer problem 0")


def click_behind(desk):
    left, top, _, height = desk.state["place"]
    desk.click_at(left + 40, top + height - 60)


def end_with_escape(desk):
    desk.key("Escape")
    desk.wait(lambda: not desk.widget("answer problem 0")["exists"], "the list is gone")


def test_shortcuts_rest_while_a_file_dialog_is_open(open_desk, project):
    desk = open_desk(project)
    desk.page("data")
    mode = desk.state["mode"]
    desk.click("choose folder data.folder")
    # tkinter knows no widget of Tk's own dialogs.
    desk.wait(lambda: desk.state["focus"] == "None", "the dialog")
    desk.rest(4)
    desk.key("ctrl+d", "alt+1")
    assert (desk.state["mode"], desk.state["page"]) == (mode, "data")
    desk.key("Escape")
    desk.wait(lambda: desk.state["focus"] != "None", "the dialog is gone")
    desk.key("alt+1")
    desk.wait_state(page="model")


def test_a_dialog_keeps_the_keyboard_after_a_click_behind_it_until_it_ends(open_desk):
    desk = open_desk()
    begin_dialog(desk)
    click_behind(desk)
    desk.rest(4)
    desk.wait_question("answer problem 0")
    assert desk.state["focus"].startswith("answer")
    end_with_escape(desk)
    begin_dialog(desk)
    click_behind(desk)
    desk.key("Return")
    desk.wait(lambda: not desk.widget("answer problem 0")["exists"], "Return answers")
    begin_dialog(desk)
    click_behind(desk)
    end_with_escape(desk)
    desk.page("training")
    desk.replace("training.steps", "77")
    desk.wait(lambda: desk.value("training.steps") == 77, "the value")
    desk.ask_to_close()
    assert desk.wait_end() == 0


def see_samples(desk):
    desk.click("start")
    desk.wait_state(status="finished", step=60)
    desk.page("samples")
    desk.wait_state(sample_shown=60)


def compare(desk):
    desk.hold("space")
    desk.wait_state(sample_shown=0)
    desk.release("space")
    desk.wait(lambda: desk.state["sample_shown"] > 0, "the sample of before")


def test_space_compares_wherever_the_keyboard_was_before(open_desk, project):
    desk = open_desk(project)
    see_samples(desk)
    compare(desk)  # as soon as the samples are there
    desk.page("training")
    desk.click("training.steps")
    desk.key("F3")
    desk.wait_state(page="samples")
    compare(desk)
    assert desk.value("training.steps") == 60
    desk.click("search")
    desk.click("viewer")
    desk.wait_state(focus="timeline", sample_shown=60)
    compare(desk)
    desk.key("ctrl+f", "Escape")
    desk.click("search")
    place = desk.widget("gallery")
    desk.click_at(place["x"] + place["width"] - 60, place["y"] + 70)
    desk.wait_state(focus="timeline")
    compare(desk)


def test_samples_that_arrive_do_not_take_the_keyboard_from_a_search(open_desk, long_project):
    desk = open_desk(long_project, mode="slow")
    desk.page("samples")
    desk.click("start")
    desk.wait_state(page="run")
    desk.page("samples")
    desk.key("ctrl+f")
    desk.wait(lambda: desk.state["samples"] > 0, "samples")
    desk.rest()
    desk.type("warm")
    desk.wait(lambda: desk.widget("search hits")["shown"], "hits")


def press(desk, name):
    """Presses a button by the keyboard, which it has."""
    desk.wait_state(focus=name)
    desk.key("space")


def test_the_keyboard_goes_on_to_the_next_entry_when_one_is_removed(open_desk, project):
    desk = open_desk(project)
    desk.page("sampling")
    prompts = [each["prompt"] for each in desk.value("sampling.prompts")]
    desk.click("remove sampling.prompts.1")
    desk.wait(lambda: len(desk.value("sampling.prompts")) == 2, "one prompt less")
    press(desk, "remove sampling.prompts.1")  # now that of the prompt that followed
    desk.wait(lambda: len(desk.value("sampling.prompts")) == 1, "two prompts less")
    assert desk.value("sampling.prompts.0.prompt") == prompts[0]
    press(desk, "remove sampling.prompts.0")
    desk.wait(lambda: not desk.value("sampling.prompts"), "no prompt left")
    press(desk, "add sampling.prompts")
    desk.wait_state(focus="sampling.prompts.0.prompt")


def test_what_has_the_keyboard_after_a_removal_is_in_sight(open_desk, project):
    desk = open_desk(project)
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
    assert desk.widget("remove data.concepts.0")["y"] < top
    desk.click(last)
    desk.wait_state(focus="remove data.concepts.0")
    desk.wait(lambda: top < desk.widget("remove data.concepts.0")["y"] < top + height, "it")


def test_the_keyboard_does_not_go_with_an_entry_whose_adding_is_undone(open_desk, project):
    desk = open_desk(project)
    for page, path in (("sampling", "sampling.prompts"), ("method", "method.layers")):
        desk.page(page)
        desk.click(f"advanced {page}")
        desk.click(f"add {path}")
        place = len(desk.value(path)) - 1
        desk.wait(lambda p=path: desk.state["focus"].startswith(f"{p}."), "the new entry")
        desk.key("ctrl+z")
        desk.wait(lambda p=path, n=place: len(desk.value(p)) == n, "the entries of before")
        desk.wait_state(focus=f"add {path}")
