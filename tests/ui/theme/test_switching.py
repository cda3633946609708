"""Switching between dark and light, and what rounded widgets look like in both."""

import os

import pytest
from PIL import ImageColor, ImageGrab

from tests.ui.pumping import pump_until, resize
from ui.shell.nav import WIDTH
from ui.theme.palette import PALETTES
from ui.theme.rounded import ButtonKind, entry_style
from ui.widgets.slider import Slider


@pytest.fixture
def color_at(root):
    """The color on the screen at a point of a widget: pixels from its left and upper edge."""

    def at(widget, x, y):
        pump_until(root, widget.winfo_viewable)
        root.update()
        left, top = widget.winfo_rootx() + x, widget.winfo_rooty() + y
        box = left, top, left + 1, top + 1
        return ImageGrab.grab(bbox=box, xdisplay=os.environ["DISPLAY"]).getpixel((0, 0))[:3]

    return at


def of(widgets, role):
    return ImageColor.getrgb(widgets.theme.palette[role])


def test_all_is_in_the_colors_of_the_last_switch_also_what_was_hidden(widgets, root, color_at):
    shown, hidden, gone = (widgets.card(root)[0] for _ in range(3))
    for card in (shown, hidden):
        card.configure(width=300, height=200)
        card.pack_propagate(False)
    shown.pack()
    gone.destroy()
    for mode in ("light", "dark", "light"):
        widgets.theme.apply(mode)
        for card, other in ((shown, hidden), (hidden, shown)):
            other.pack_forget()
            card.pack()
            assert color_at(card, 0, 0) == of(widgets, "window"), mode
            assert color_at(card, 299, 199) == of(widgets, "window"), mode
            assert color_at(card, 150, 2) == of(widgets, "card"), mode


def test_a_button_shows_its_state_in_every_kind_at_every_size(widgets, root, color_at):
    faces: dict[ButtonKind, tuple[str, str, str]] = {
        "primary": ("fill", "fill_hover", "fill_pressed"),
        "plain": ("raised", "hover", "pressed"),
        "danger": ("danger_fill", "danger_hover", "danger_pressed"),
        "quiet": ("side", "raised", "hover"),
    }
    for scale in (1.0, 2.0):
        widgets.theme.rescale(scale)
        for mode in PALETTES:
            widgets.theme.apply(mode)
            for kind, (rest, over, down) in faces.items():
                button = widgets.button(root, "Save", print, kind=kind, ground="side")
                button.widget.pack()
                corner, inside = (0, 0), (round(8 * scale), round(5 * scale))
                for state, role in (("", rest), ("active", over), ("pressed", down)):
                    button.widget.state([f"!{old}" for old in ("active", "pressed")])
                    button.widget.state([state] if state else [])
                    assert color_at(button.widget, *inside) == of(widgets, role), (kind, state)
                    assert color_at(button.widget, *corner) == of(widgets, "side"), (kind, state)
                button.enable("not now")
                assert color_at(button.widget, *inside) == of(widgets, "raised"), kind
                button.take_focus()
                edge = of(widgets, "accent" if kind in ("plain", "quiet") else "text")
                pump_until(root, lambda b=button: b.widget.instate(["focus"]))
                assert color_at(button.widget, button.widget.winfo_width() // 2, 0) == edge, kind
                assert button.widget.winfo_height() == round(30 * scale)
                button.widget.destroy()


def test_bars_show_how_far_they_are(widgets, root, color_at):
    widgets.theme.apply("light")
    bar = widgets.progress(root, height=8)
    bar.configure(length=200)
    bar.pack()
    for fraction, roles in (
        (0.0, ("raised",) * 2),
        (0.5, ("fill", "raised")),
        (1.0, ("fill",) * 2),
    ):
        bar.set(fraction)
        assert [color_at(bar, x, 4) for x in (50, 150)] == [of(widgets, role) for role in roles]
    bar.set(0.005)  # a round dot, not a piece of one
    dot = [color_at(bar, x, 4) for x in (4, 12)]
    assert dot == [of(widgets, role) for role in ("fill", "raised")]
    assert color_at(bar, 0, 0) == color_at(bar, 199, 0)
    resize(root, 300, 300)
    scrollbar = widgets.scrollbar(root, print)
    scrollbar.pack(fill="y", expand=True)
    for ends, roles in (((0, 0.5), ("hover", "card")), ((0, 1), ("card", "card"))):
        scrollbar.set(*ends)
        root.update()
        height = scrollbar.winfo_height()
        places = height // 4, 3 * height // 4
        assert [color_at(scrollbar, 7, y) for y in places] == [of(widgets, r) for r in roles]


def test_a_slider_follows_the_pointer_and_the_keys_but_says_nothing_of_what_it_is_set_to(
    widgets, root
):
    said: list[float] = []
    slider = Slider(widgets, root, said.append, name="strength", by=0.25)
    slider.widget.pack()
    pump_until(root, slider.widget.winfo_viewable)
    slider.set(0.5)
    assert (slider.value, said) == (0.5, [])
    slider.widget.event_generate("<Button-1>", x=slider.widget.winfo_width() - 1, y=8)
    slider.widget.event_generate("<ButtonRelease-1>", x=slider.widget.winfo_width() - 1, y=8)
    assert (slider.value, said[-1]) == (1.0, 1.0)
    slider.widget.focus_force()
    root.update()
    slider.widget.event_generate("<Left>")
    assert said[-1] == slider.value == 0.75
    for key, value in (("<Down>", 0.5), ("<Up>", 0.75)):
        slider.widget.event_generate(key)
        assert said[-1] == slider.value == value


def test_an_entry_at_rest_is_drawn_in_one_piece_between_its_edges(widgets, root):
    def images():
        return {*root.tk.splitlist(root.tk.call("image", "names"))}

    before = images()
    entry_style(widgets.theme.faces, "OneTrainerBody")
    widths = sorted(int(root.tk.call("image", "width", each)) for each in images() - before)
    assert widths[-2] < WIDTH / 2 and widths[-1] >= WIDTH - 20  # the others are looks of a moment
