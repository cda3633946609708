"""Keys zoom charts and images; with Ctrl they reach the window, for its own size."""

import pytest

from ui.background.image_cache import ImageCache
from ui.charts.figure_charts import FigureCharts
from ui.widgets.image_stage import ImageStage


@pytest.mark.parametrize("kind", ["charts", "images"])
def test_with_ctrl_the_keys_that_zoom_are_the_windows(root, widgets, monkeypatch, kind):
    zoomed, reached = [], []
    owner = FigureCharts if kind == "charts" else ImageStage
    monkeypatch.setattr(owner, "zoom", lambda _, factor: zoomed.append(factor > 1))
    if kind == "charts":
        canvas = FigureCharts(widgets, root, name="charts").canvas
    else:
        images = ImageCache(widgets.jobs)
        canvas = ImageStage(
            widgets,
            root,
            images,
            name="stage",
            shown=lambda: None,
            held=lambda _: None,
            takes_keys=True,
        ).canvas
    canvas.pack(fill="both", expand=True)
    root.update()
    canvas.focus_force()
    root.update()
    keys = ("plus", "equal", "KP_Add", "minus", "KP_Subtract", "Key-0")
    for key in keys:
        canvas.event_generate(f"<{key}>")
    assert zoomed == [True, True, True, False, False]
    canvas.bindtags((*canvas.bindtags(), "the window"))
    for key in keys:
        canvas.bind_class("the window", f"<Control-{key}>", lambda _, key=key: reached.append(key))
    for key in keys:
        canvas.event_generate(f"<Control-{key}>")
    assert reached == list(keys)
    assert len(zoomed) == 5
