"""Widgets alone, in this process: what they show, and what they hand to the draft."""

import threading
import time
from itertools import product

import pytest
from PIL import Image

from onetrainer.config.data.concept import Concept
from onetrainer.errors import Fix, Offer, Problem, warning
from onetrainer.images import decoding
from tests.ui.project import SDXL_PARTS, errors_of, write_model
from tests.ui.pumping import resize
from tests.ui.theme.contrast import contrast
from tests.ui.xscreen import DEADLINE
from ui.background.image_cache import load_fitting
from ui.background.threads import Jobs
from ui.charts.run_charts import LossChart
from ui.forms.form import Form
from ui.forms.row import FormContext
from ui.model.draft import Draft
from ui.model.form_fields import pages
from ui.pages.registry import PAGES
from ui.progress.curve import Curve
from ui.progress.validation import Validation
from ui.shell.nav import Nav
from ui.theme.palette import PALETTES
from ui.widgets.switch import paint
from ui.widgets.widgets import CARD_PAD


class Forms(dict):
    """The forms of all pages by name, each made when a test asks for it first."""

    def __init__(self, root, widgets, draft):
        super().__init__()
        self.root, self.widgets = root, widgets
        self.context = FormContext(widgets, draft, lambda setting, path: None)

    def __missing__(self, name):
        frame = self.widgets.frame(self.root, ground="window")
        frame.pack()
        plan = next(plan for plan in pages() if plan.name == name)
        self[name] = Form(self.context, frame, plan, line=0)
        self[name].refresh()
        self.root.update()
        return self[name]


@pytest.fixture
def forms(root, widgets, draft):
    return Forms(root, widgets, draft)


def type_into(root, row, text):
    row.editor.focus.delete(0, "end")
    row.editor.focus.insert(0, text)
    row.commit()
    root.update()


def test_advanced_settings_are_hidden_until_asked_for(forms, root):
    form = forms["training"]
    row = form.row("optimizer.beta1")
    assert not row.editor.widget.winfo_manager()
    assert form.hidden > 0
    form.with_advanced = True
    form.refresh()
    assert row.editor.widget.winfo_manager() == "grid"
    assert form.hidden == 0


def test_what_was_typed_stays_as_it_was_typed_while_it_means_the_same(forms, draft, root):
    row = forms["training"].row("optimizer.lr")
    row.editor.focus.focus_force()
    root.update()
    type_into(root, row, "0.00030")
    forms["training"].refresh()
    assert row.editor.focus.get() == "0.00030"


def test_choices_are_shown_by_label_and_stored_by_value(forms, draft, root):
    row = forms["model"].row("model.family")
    box = row.editor.focus
    assert (box.get(), draft.value("model.family")) == ("SD 1.5", "sd15")
    box.set("SDXL inpainting")
    box.event_generate("<<ComboboxSelected>>")
    row.commit()
    assert draft.value("model.family") == "sdxl-inpainting"
    draft.undo()
    forms["model"].refresh()
    assert box.get() == "SD 1.5"


def test_a_new_prompt_has_the_size_of_training(forms, draft):
    draft.set("data.resolution", 1024)
    draft.listen(forms["sampling"].refresh)
    card = forms["sampling"]._cards[0].lists[0]
    card.add()
    sizes = [(item["width"], item["height"]) for item in draft.value("sampling.prompts")]
    assert sizes == [(128, 128)] * 3 + [(1024, 1024)]
    card.duplicate(0)
    assert draft.value("sampling.prompts.1.width") == 128


def test_a_new_prompt_is_not_reported_as_empty_until_it_loses_the_focus(forms, draft, root):
    form = forms["sampling"]
    draft.listen(form.refresh)
    form._cards[0].lists[0].add()
    row = form.row("sampling.prompts.3.prompt")
    row.editor.focus.focus_force()
    root.update()
    assert (row.error, len(errors_of(draft))) == ("", 1)
    form.row("sampling.prompts.3.seed").editor.focus.focus_force()
    root.update()
    assert "The prompt is empty" in row.error


def test_where_a_person_has_to_decide_there_is_a_button_for_each_choice(
    forms, draft, widgets, root
):
    form, path = forms["model"], "model.prediction"
    choices = (Fix(path, "v_prediction"), Fix(path, "epsilon"))
    draft.set_file_problems([Problem(path, "no marker", choices=choices)])
    form.refresh()
    root.update()
    first, second = widgets.buttons[f"fix {path}"].widget, widgets.buttons[f"fix {path} 1"].widget
    assert [first.cget("text"), second.cget("text")] == ["Use v-prediction", "Use epsilon"]
    assert first.winfo_rootx() + first.winfo_width() < second.winfo_rootx()
    second.invoke()
    assert draft.value(path) == "epsilon"
    draft.set_file_problems([Problem(path, "wrong", fix=Fix(path, "auto"))])
    form.refresh()
    root.update()
    assert (first.cget("text"), second.winfo_ismapped()) == ("Use automatic", 0)


def test_a_fix_of_several_settings_is_one_change(forms, draft, root, widgets):
    form = forms["data"]
    draft.set("data.folder", "/data")
    draft.set("data.concepts", [])
    made = [Concept(folder="/data/10_sks dog", repeats=10).model_dump(mode="json")]
    fix = Offer("data.concepts", made, "Make a concept", also=(Fix("data.folder", ""),))
    draft.set_file_problems([warning("data.folder", "names hold repeats", fix=fix)])
    form.refresh()
    root.update()
    button = widgets.buttons["fix data.folder"].widget
    assert button.cget("text") == "Make a concept"
    button.invoke()
    assert (draft.value("data.folder"), draft.value("data.concepts")) == ("", made)
    draft.undo()
    assert (draft.value("data.folder"), draft.value("data.concepts")) == ("/data", [])


def test_choosing_a_model_changes_nothing_but_its_path(root, widgets, tmp_path):
    chosen = str(write_model(tmp_path / "xl.safetensors", SDXL_PARTS))
    draft = Draft()
    plan = next(plan for plan in pages() if plan.name == "model")
    asked = {"model": chosen}
    context = FormContext(
        widgets, draft, lambda *_: None, choose_path=lambda kind, current: asked[kind]
    )
    form = Form(context, root, plan, line=0)
    form.refresh()
    widgets.named["choose file model.path"].invoke()
    form.commit()
    assert draft.changed() == ["model.path"]
    assert draft.value("model.path") == chosen


def test_a_disabled_button_says_why_and_does_nothing(widgets, root):
    pressed = []
    button = widgets.button(root, "Go", lambda: pressed.append(1))
    button.widget.pack()
    button.enable("Nothing to go to.")
    button.widget.invoke()
    assert pressed == []
    assert button.reason == "Nothing to go to."
    button.enable()
    button.widget.invoke()
    assert pressed == [1]


def test_the_knob_of_a_switch_is_round_and_light():
    for palette, is_on in product(PALETTES.values(), (True, False)):
        rows = paint(palette, palette["window"], 1.0, is_on=is_on, has_focus=False)
        widths = [row.count(palette["on_fill"]) for row in rows]
        assert widths == widths[::-1]
        assert max(widths) == sum(bool(width) for width in widths) >= 12
        assert rows[0] == rows[-1] == [palette["window"]] * len(rows[0])
        assert contrast(palette["on_fill"], palette["fill"] if is_on else palette["border"]) >= 3


def test_the_list_of_a_combo_box_has_margins_and_follows_the_theme(forms, widgets, root):
    box = forms["model"].row("model.family").editor.focus
    for mode in ("dark", "light"):
        widgets.theme.apply(mode)
        root.tk.call("ttk::combobox::Post", box)
        root.update()
        listed = f"{box}.popdown.f.l"
        assert root.tk.call(listed, "get", 0) == "  SD 1.5"
        assert root.tk.call(listed, "cget", "-background") == widgets.theme.palette["field"]
        assert int(root.tk.call(listed, "cget", "-borderwidth")) >= 4
        root.tk.call("ttk::combobox::Unpost", box)
        root.update()
    assert box.get() == "SD 1.5"


def test_a_hundred_thousand_steps_are_plotted_as_quickly_as_a_few_thousand(widgets, root):
    chart = LossChart(widgets, root)
    chart.canvas.pack(fill="both", expand=True)
    resize(root, 900, 400)

    def seconds(steps):
        curve = Curve()
        for step in range(1, steps + 1):
            curve.append(step, 1 / step**0.1)
        took = []
        for _ in range(3):
            began = time.thread_time()
            chart.show(curve, [0, steps // 2], Validation())
            took.append(time.thread_time() - began)
        return min(took)

    assert seconds(100_000) < 4 * seconds(2_000)
    assert len(chart.canvas.find_all()) < 60


def test_an_unreadable_image_is_none(tmp_path, monkeypatch):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    assert load_fitting(tmp_path / "broken.png", 50, 50) is None
    assert load_fitting(tmp_path / "missing.png", 50, 50) is None
    Image.new("RGB", (200, 200)).save(tmp_path / "huge.png")
    assert load_fitting(tmp_path / "huge.png", 50, 50).size == (50, 50)
    monkeypatch.setattr(decoding, "HUGE", 1000)
    monkeypatch.setattr(decoding, "free_memory", lambda: 0)
    assert load_fitting(tmp_path / "huge.png", 50, 50) is None


def test_small_images_are_enlarged_and_keep_their_shape(tmp_path):
    Image.new("RGB", (128, 64), "red").save(tmp_path / "a.png")
    assert load_fitting(tmp_path / "a.png", 512, 512).size == (512, 256)


def test_results_of_threads_are_delivered_where_they_are_asked_for():
    jobs, results = Jobs(), []
    jobs.run(threading.get_ident, results.append)
    jobs.run(lambda: 1 / 0, results.append, lambda error: results.append(type(error)))
    end = time.monotonic() + DEADLINE
    while len(results) < 2 and time.monotonic() < end:
        jobs.deliver()
    assert ZeroDivisionError in results
    assert threading.get_ident() not in results


def test_wrapped_text_of_a_card_is_nowhere_wider_than_the_card(root, widgets):
    outer, inner = widgets.card(root)
    outer.pack()
    text = 'Saves a checkpoint every so many steps, or every "1 epoch" or "500 images"; 0 is never.'
    label = widgets.label(inner, text, wrap=200)
    label.pack()
    for width in range(230, 330):
        widgets.wrap_in_card(outer, width)
        assert label.winfo_reqwidth() <= width - 2 * CARD_PAD, width


def test_the_navigation_is_made_for_the_window_that_it_is_to_be_in(root, widgets):
    resize(root, 1280, 800)
    nav = Nav(widgets, root, PAGES, print, 800)
    widgets.label(nav.foot, "Help").pack()
    size = nav._size
    nav.outer.pack(side="left", fill="y", expand=True, pady=(48, 37))
    root.update()
    assert nav._size is size


def test_all_pages_can_be_gone_to_in_the_lowest_window_that_has_their_list_beside(root, widgets):
    nav = Nav(widgets, root, PAGES, print, 800)
    widgets.label(nav.foot, "Help").pack()
    nav.outer.pack(fill="y", expand=True)
    root.update()
    for height in (nav.least_height, 700, nav.least_height):
        resize(root, 960, height)
        root.update()
        foot, entries = nav.foot, [item.button for item in nav._items.values()]
        assert entries[-1].winfo_rooty() + entries[-1].winfo_height() <= foot.winfo_rooty()
        last = foot.winfo_rooty() + foot.winfo_height() - nav.outer.winfo_rooty()
        assert last <= height
