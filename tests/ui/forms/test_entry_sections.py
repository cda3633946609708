"""Entries of a list that have sections of their own: folders of images on the page of data."""

import tkinter as tk
from types import SimpleNamespace

import pytest

from onetrainer.config.data.concept import Concept
from tests.ui.pumping import pump_until
from ui.background.threads import Jobs
from ui.forms.form import Form
from ui.forms.row import FormContext
from ui.model.draft import Draft
from ui.model.form_fields import find_setting, pages
from ui.model.new_entries import entry_noun, entry_summary, entry_title
from ui.model.visible_settings import has_effect, sibling_path, switch_path
from ui.theme.theme import Theme
from ui.widgets.widgets import Widgets, focused

LIST = "data.concepts"
FIRST = f"{LIST}.0"
SHUFFLE = f"{FIRST}.captions.shuffle"
PLAN = next(plan for plan in pages() if plan.name == "data")


def concept(**changes):
    return Concept(**changes).model_dump(mode="json")


def concepts(*folders):
    return [concept(folder=folder) for folder in folders]


def open_with(draft, values):
    """As if a config with these folders had been opened."""
    draft.set(LIST, values)
    draft.restore(draft.document, draft.document, draft.origin)


@pytest.fixture(scope="module")
def window(display, project, tmp_path_factory):
    """A form in a window for all tests of this file, which begin with the project opened again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", display)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        root = tk.Tk()
        pump_until(root, lambda: root.winfo_viewable() and root.focus_get() is not None)
        widgets, draft = Widgets(Theme(root), Jobs()), Draft()
        widgets.theme.apply("dark")
        frame = widgets.frame(root, ground="window")
        frame.pack()
        form = Form(FormContext(widgets, draft, lambda *_: None), frame, PLAN, line=0)
        draft.listen(form.refresh)
        yield SimpleNamespace(root=root, widgets=widgets, draft=draft, form=form)
        root.destroy()


@pytest.fixture
def root(window):
    """The window of this file; a callback that raises fails the test."""
    caught = []
    window.root.report_callback_exception = lambda kind, error, trace: caught.append(error)
    yield window.root
    assert caught == []


@pytest.fixture
def widgets(window):
    return window.widgets


@pytest.fixture
def draft(window, home, project):
    window.draft.load(project)
    return window.draft


@pytest.fixture
def form(window, draft, root):
    window.form.with_advanced = True
    window.form._revealed.clear()
    window.form.refresh()
    root.update()
    return window.form


def shown(form, prefix=f"{FIRST}."):
    rows = form.list_card(LIST).rows()
    paths = {row.path for row in rows if row.is_shown and row.path.startswith(prefix)}
    return {path.removeprefix(prefix) for path in paths}


def test_settings_of_an_entry_s_section_are_shown_while_its_switch_is_on(form, draft):
    open_with(draft, concepts("/a"))
    assert not [path for path in shown(form) if "." in path]
    draft.set(f"{FIRST}.own_captions", True)
    with_captions = {path for path in shown(form) if "." in path}
    assert "captions.shuffle" in with_captions
    assert not [path for path in with_captions if path.startswith("augmentation.")]
    draft.set(f"{FIRST}.own_captions", False)
    assert not [path for path in shown(form) if "." in path]


def test_a_setting_deep_in_an_entry_is_set_and_undone(form, draft, root):
    open_with(draft, [concept(folder="/a", own_captions=True), concept(folder="/b")])
    row = form.row(SHUFFLE)
    row.editor.focus.focus_force()
    root.update()
    row.editor.focus.event_generate("<space>")
    root.update()
    row.commit()
    assert draft.value(SHUFFLE) is True
    assert draft.value(f"{LIST}.1.captions.shuffle") is False
    draft.undo()
    assert draft.value(SHUFFLE) is False
    assert form.row(SHUFFLE).editor.read() is False


def test_a_name_without_a_dot_is_of_the_same_section_wherever_it_lies():
    assert sibling_path("data.concepts.1.captions.drop_chance", "drop_tags") == (
        "data.concepts.1.captions.drop_tags"
    )
    assert sibling_path("data.captions.drop_chance", "drop_tags") == "data.captions.drop_tags"
    assert sibling_path("data.caption_text", "caption_source") == "data.caption_source"
    assert sibling_path("data.concepts.1.repeats", "model.family") == "model.family"


def test_only_sections_of_entries_have_switches():
    inner = find_setting(SHUFFLE)
    assert switch_path(inner, SHUFFLE) == f"{FIRST}.own_captions"
    assert switch_path(find_setting(f"{FIRST}.repeats"), f"{FIRST}.repeats") == ""
    assert switch_path(find_setting("data.captions.shuffle"), "data.captions.shuffle") == ""


def test_numbers_are_compared_with_what_they_are_written_as(draft):
    open_with(draft, concepts("/a"))
    repeats = find_setting(f"{FIRST}.repeats")
    assert has_effect(draft, repeats, f"{FIRST}.repeats")
    draft.set(f"{FIRST}.images", 20)
    assert not has_effect(draft, repeats, f"{FIRST}.repeats")


def test_a_problem_in_a_nested_section_is_shown_at_its_setting(form, draft, root):
    open_with(draft, [concept(folder="/a", own_captions=True)])
    path = f"{FIRST}.captions.dropout"
    form.row(path)
    draft.set(path, 3)
    root.update()
    assert draft.problem(path) is not None
    assert "at most 1" in form.row(path).error or "0 to 1" in form.row(path).error


def test_a_folded_entry_says_what_is_wrong_in_it(form, draft, root):
    open_with(draft, concepts("/a", "/b", "/c"))
    card = form.list_card(LIST)
    draft.set(f"{FIRST}.repeats", "often")
    root.update()
    assert not card.is_open(0)
    assert "1 to fix" in card._entries[0]._summary.cget("text")
    form.reveal(f"{FIRST}.repeats")
    assert card.is_open(0)
    assert form.row(f"{FIRST}.repeats").is_shown


def test_a_hidden_setting_deep_in_an_entry_can_be_gone_to(form, draft):
    open_with(draft, concepts("/a", "/b", "/c"))
    form.with_advanced = False
    assert form.reveal(f"{LIST}.2.captions.shuffle").is_shown
    assert shown(form, f"{LIST}.1.") == set()


def test_entries_stay_open_when_they_move(form, draft):
    open_with(draft, concepts("/a", "/b", "/c"))
    card = form.list_card(LIST)
    card.fold(1)

    def opened():
        values = [value["folder"] for value in draft.value(LIST)]
        return {folder for place, folder in enumerate(values) if card.is_open(place)}

    card.move(1, -1)
    assert opened() == {"/b"}
    card.remove(1)
    assert opened() == {"/b"}
    card.duplicate(0)
    assert [card.is_open(place) for place in range(3)] == [True, True, False]
    card.remove(0)
    assert [card.is_open(place) for place in range(2)] == [True, False]


def test_a_new_folder_is_open_plain_and_has_the_keyboard(form, draft, root):
    first = concept(folder="/a", name="Cats", trigger="a cat", repeats=3, caption_source="names")
    open_with(draft, [first])
    root.update()
    form.list_card(LIST).add()
    root.update()
    new = draft.value(f"{LIST}.1")
    assert new == concept()
    assert form.list_card(LIST).is_open(1)
    assert focused(root) is form.row(f"{LIST}.1.folder").editor.focus


def test_entries_have_titles_and_summaries_that_distinguish_them():
    setting = find_setting(LIST)
    assert entry_noun(setting) == "Folder"
    assert entry_title(setting, concept(folder="/pictures/cats")) == "cats"
    assert entry_title(setting, concept(folder="/pictures/cats", name="Our cats")) == "Our cats"
    assert entry_title(setting, concept()) == ""
    changed = concept(folder="/a/b", repeats=2.5, role="validation", use=False)
    words = ["/a/b", "Role: validation", "Use: off", "Repeats: 2.5"]
    assert entry_summary(setting, changed) == words


def test_a_beginner_sees_the_folder_its_resolution_masks_and_captions_and_the_trigger_words(form):
    form.with_advanced = False
    form.refresh()
    paths = {row.path for card in form._cards for row in card.all_rows() if row.is_shown}
    # The project's resolution is its own, which would be shown in any case.
    basic = {"data.folder", "data.resolution", "data.masks", "data.caption_source"}
    assert paths == {*basic, "data.trigger"}
