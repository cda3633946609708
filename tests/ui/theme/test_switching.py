"""Switching between dark and light."""

from tests.ui.desk import pump_until
from ui.theme.palette import DARK, LIGHT


def ground_of(card):
    return str(card._canvas.cget("bg"))


def test_what_is_visible_is_colored_at_once_and_the_rest_soon_after(widgets, root):
    shown, hidden = (widgets.card(root)[0] for _ in range(2))
    shown.pack()
    pump_until(root, shown.winfo_viewable)
    widgets.theme.apply("light")
    assert (ground_of(shown), ground_of(hidden)) == (LIGHT["window"], DARK["window"])
    pump_until(root, lambda: ground_of(hidden) == LIGHT["window"])


def test_a_second_switch_leaves_nothing_in_the_colors_of_the_first(widgets, root):
    hidden = widgets.card(root)[0]
    gone = widgets.card(root)[0]
    widgets.theme.apply("light")
    gone.destroy()
    widgets.theme.apply("dark")
    pump_until(root, lambda: not root.tk.call("after", "info"))
    assert ground_of(hidden) == DARK["window"]
