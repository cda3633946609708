"""The log of a run in this process: what a person does while a thread still searches it."""

from types import SimpleNamespace

from tests.ui.pumping import pump_until
from ui.pages.monitor.log_view import LogView


def test_enter_goes_to_the_line_that_is_only_found_later(root, widgets, jobs, tmp_path):
    """As often as it was pressed for the same text; not for one that was typed since."""
    log = tmp_path / "worker.log"
    log.write_text("".join(f"line {number}\n" for number in range(200)))
    session = SimpleNamespace(folder=SimpleNamespace(path=tmp_path, log=log))
    view = LogView(SimpleNamespace(root=root, widgets=widgets, session=session), root)
    view.outer.pack(fill="both", expand=True)

    def deliver_until(condition):
        pump_until(root, lambda: jobs.deliver() >= 0 and condition())

    deliver_until(lambda: view.refresh() is None and len(view.rows) == 200)
    search = widgets.named["log search"]
    search.focus_force()
    pump_until(root, lambda: search.focus_get() is search)
    for text, said in (("line 77", "1 of 1 line"), ("line 5", "1 of 11 lines")):
        search.delete(0, "end")
        search.insert(0, text)
        search.event_generate("<Return>")
        assert view.count_text != said
        deliver_until(lambda said=said: view.count_text == said)
    assert view.list.cursor == 5
