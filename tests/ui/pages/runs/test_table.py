"""The table of runs shows their newest samples at every size of the window's contents."""

import pytest
from PIL import Image

from onetrainer.run.run_folder import create_run
from tests.ui.pumping import pump_until, resize
from ui.background.image_cache import ImageCache
from ui.messages.run_rows import list_runs
from ui.pages.runs.table import RunTable
from ui.theme.theme import Theme
from ui.widgets.widgets import Widgets


def make_table(root, jobs, theme):
    nothing = {"chosen": lambda: None, "opened": lambda: None, "order_by": lambda _: None}
    table = RunTable(Widgets(theme, jobs), root, ImageCache(jobs), **nothing)
    table.outer.pack(fill="both", expand=True)
    root.update()
    return table


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_the_newest_sample_of_a_run_is_in_its_row(root, jobs, tmp_path, scale, monkeypatch):
    """Also while rows below it, which are made one after the other, are still to come."""
    monkeypatch.setattr("ui.pages.runs.table._ROWS_AT_ONCE", 1)
    create_run(tmp_path, name="other", config={})
    run = create_run(tmp_path, name="paper", config={})
    Image.new("RGB", (64, 64), "red").save(run.samples / "step-000010-0.png")
    theme = Theme(root)
    theme.rescale(scale)
    theme.apply("dark")
    table = make_table(root, jobs, theme)
    rows = list_runs([tmp_path], {})
    table.show(rows, rows)

    def has_image():
        jobs.deliver()
        return table.tree.item(str(run.path), "image")

    pump_until(root, has_image)


def test_a_text_that_is_too_wide_for_its_column_ends_in_three_dots(root, jobs, tmp_path):
    create_run(tmp_path, name="a-name-much-longer-than-its-column", config={})
    theme = Theme(root)
    theme.apply("dark")
    resize(root, 1100, 300)
    table = make_table(root, jobs, theme)
    [row] = rows = list_runs([tmp_path], {})
    table.show(rows, rows)
    root.update()
    name = table.tree.set(str(row.path), "name")
    assert name.endswith("…") and row.record.name.startswith(name[:-1])
    assert theme.measure(name) < table.tree.column("name", "width") < theme.measure(row.record.name)
    assert table.tree.set(str(row.path), "state") == row.state
