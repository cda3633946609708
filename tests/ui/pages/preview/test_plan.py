"""The halves of the page Preview in this process: what fails in them, and what they paint."""

from types import SimpleNamespace

import pytest

from onetrainer.checks.image_check import CheckResult
from onetrainer.images.findings import Finding
from tests.ui.fake_paint import paint
from tests.ui.pumping import pump_until, resize
from ui.background.current_preview import CurrentPreview
from ui.background.dataset_preview import compute_preview
from ui.background.image_cache import ImageCache
from ui.background.image_check import make_check
from ui.pages.preview.check import CheckTab
from ui.pages.preview.plan import PlanTab


def nothing(*_, **__):
    return ""


@pytest.fixture
def context(root, widgets, draft):
    resize(root, 1000, 700)
    forecasts = SimpleNamespace(
        listen=nothing,
        answer=None,
        failed=None,
        is_outdated=False,
        is_working=False,
        blocked_reason=nothing,
    )
    return SimpleNamespace(
        root=root,
        widgets=widgets,
        draft=draft,
        images=ImageCache(widgets.jobs),
        forecasts=forecasts,
        preview=CurrentPreview(draft, widgets.jobs, root.after),
        check=make_check(draft, widgets.jobs),
        act=SimpleNamespace(commit=nothing, jump=nothing, open_path=nothing),
    )


def shown(context, kind):
    """A half of the page, on the screen."""
    frame = context.widgets.frame(context.root, ground="window")
    frame.pack(fill="both", expand=True)
    part = kind(context, frame)
    part.outer.pack(fill="both", expand=True)
    context.root.update()
    part.refresh()
    return part


def wait_until(context, condition):
    def is_so():
        context.widgets.jobs.deliver()
        return condition()

    pump_until(context.root, is_so)


def fail(*_):
    raise IndexError("a defect")


def test_an_unexpected_error_is_shown_and_can_be_retried(context, monkeypatch):
    monkeypatch.setattr(context.preview.query, "_ask", fail)
    part = shown(context, PlanTab)
    assert "Reading" in part._message.text
    with pytest.raises(IndexError):
        wait_until(context, lambda: part.query.failed)
    assert "Unexpected error: IndexError, a defect" in part._message.text
    context.root.update()
    assert not part.query.is_working  # it is not tried for ever
    again = context.widgets.named["preview again"]
    assert again.winfo_viewable()
    monkeypatch.setattr(part.query, "_ask", compute_preview)
    context.widgets.buttons["preview again"].widget.invoke()
    wait_until(context, lambda: part._buckets)
    assert part._message.text == ""


def texts(cells):
    return [cells.canvas.itemcget(item, "text") for item in items_of_text(cells)]


def boxes_of(cells):
    return [cells.canvas.bbox(item) for item in items_of_text(cells)]


def items_of_text(cells):
    return [item for item in cells.canvas.find_all() if cells.canvas.type(item) == "text"]


def check_with(context, findings):
    part = shown(context, CheckTab)
    part.check.answer = CheckResult(findings, len(findings))
    part.check.inputs_of_answer = part.check._current_inputs()
    part.refresh()
    context.root.update()
    return part


def test_only_a_file_without_thumbnail_shows_its_file_type(context, tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.jpg"
    paint(0, 1.0, size=64).save(good)
    bad.write_bytes(b"none")
    findings = [Finding("unreadable", path, "x", "y") for path in (good, bad)]
    part = check_with(context, findings)
    kept = context.images._cache
    wait_until(context, lambda: {key[0] for key in kept} >= {good, bad})
    wait_until(context, lambda: ".png" not in texts(part._list))  # it is drawn again soon after
    assert ".jpg" in texts(part._list)


def test_a_finding_shows_its_file_name_and_the_tooltip_the_full_path(context, tmp_path):
    folder = "houses & barns from the summer " * 4 + "holidays"
    path = tmp_path / folder / "IMG_1000.JPG"
    part = check_with(context, [Finding("unreadable", path, "x", "y")])
    (name,) = (text for text in texts(part._list) if "IMG" in text)
    assert name.startswith("…")
    assert name.endswith(" holidays/IMG_1000.JPG")
    part._list.canvas.event_generate("<Motion>", warp=True, x=60, y=40)
    context.root.update()
    assert part._path_below_pointer() == str(path)
