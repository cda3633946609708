"""Where the fields of a form end, and its cards stand."""

from tests.each import each
from ui.forms.amount import AmountEditor
from ui.forms.editors import ChoiceEditor, EntryEditor

PAGES = ("model", "data", "method", "training", "loss", "sampling", "output", "hardware")


def right_edge(editor):
    last = editor.unit if isinstance(editor, AmountEditor) else editor.focus
    return last.winfo_rootx() + last.winfo_width()


@each("page", PAGES)
def test_fields_end_at_one_edge_and_paths_take_the_width_there_is(make_form, root, page):
    form = make_form(page)
    # As a page does: without, the window is as narrow as the widest row of buttons.
    form._cards[0].outer.master.grid_columnconfigure(0, minsize=684)
    root.update()
    rows = [row for card in form._cards for row in card._rows if row.is_shown]
    narrow, wide = set(), set()
    for row in rows:
        editor = row.editor
        if isinstance(editor, ChoiceEditor | AmountEditor | EntryEditor) and not editor.is_wide:
            narrow.add(right_edge(editor))
        elif isinstance(editor, EntryEditor):
            end = editor.widget.winfo_rootx() + editor.widget.winfo_width()
            wide.add(end)
    assert narrow, page
    assert len(narrow) == 1, page
    assert len(wide) <= 1, page
    assert min(wide, default=10_000) > max(narrow), page


def test_a_path_with_several_buttons_has_them_below_it_and_the_width_for_itself(make_form, root):
    row = make_form("model").row("model.path")
    root.update()
    entry, whole = row.editor.focus, row.editor.widget
    assert entry.winfo_width() == whole.winfo_width()
    assert entry.winfo_height() < whole.winfo_height() / 2 + 10


def test_cards_stand_in_columns_that_are_read_one_after_the_other(make_form, root):
    form = make_form("training")
    cards = [card.outer for card in form._cards]
    form.set_columns(2)
    root.update()
    places = [(card.winfo_rootx(), card.winfo_rooty()) for card in cards]
    assert places == sorted(places)
    assert len({x for x, _ in places}) == 2
    form.set_columns(1)
    root.update()
    assert len({card.winfo_rootx() for card in cards}) == 1
    tops = [card.winfo_rooty() for card in cards]
    assert tops == sorted(tops)
