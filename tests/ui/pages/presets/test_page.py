"""The page of presets in this process: what a person does while a thread still lists them."""

import threading
from types import SimpleNamespace

from onetrainer.presets.find import own_folder
from onetrainer.presets.presets import save_preset
from tests.ui.pumping import pump_until
from tests.ui.xscreen import DEADLINE
from ui.pages.presets import page as page_module
from ui.pages.presets.page import PresetsPage


def test_the_preset_that_is_selected_while_they_are_listed_again_stays_so(
    root, widgets, jobs, draft, project, monkeypatch
):
    """Notes that are saved meanwhile do not change what is to be selected then."""
    save_preset(draft.config(), own_folder() / "mine.json")
    may_list, list_all = threading.Event(), page_module.list_rows

    def list_rows(*arguments):
        assert may_list.wait(DEADLINE)
        return list_all(*arguments)

    monkeypatch.setattr(page_module, "list_rows", list_rows)
    act = SimpleNamespace(save_preset_as=None)
    session = SimpleNamespace(is_running=True)
    context = SimpleNamespace(widgets=widgets, draft=draft, session=session, act=act, demo=project)
    page = PresetsPage(context, root)
    page.outer.pack(fill="both", expand=True)

    may_list.set()
    page.take_focus()
    pump_until(root, lambda: jobs.deliver() >= 0 and page.table.rows)
    assert page.table.chosen.path == project
    may_list.clear()
    page.take_focus()  # a later visit
    page.table.move(1)
    chosen = page.table.chosen.path
    may_list.set()
    pump_until(root, lambda: jobs.deliver() >= 0 and not page._lists.is_busy)
    assert page.table.chosen.path == chosen != project

    may_list.clear()
    page.take_focus()
    mine = next(row for row in page._rows if row.kind == "yours")
    page._write_notes(mine, "for pens")
    may_list.set()
    pump_until(root, lambda: jobs.deliver() >= 0 and not page._lists.is_busy)
    assert page.table.chosen.path == project
    assert "for pens" in [row.preset.notes for row in page._rows if row.preset]
