"""Styles of ttk with rounded corners: buttons, entries of the navigation, cards and bars."""

from functools import partial
from itertools import product
from typing import Literal

from ui.theme.faces import Face, Faces, Looks
from ui.theme.palette import Role

ButtonKind = Literal["primary", "plain", "danger", "quiet"]

# Face at rest, below the pointer and pressed, and the text. That of a quiet one is the ground.
_BUTTONS: dict[ButtonKind, tuple[Role, Role, Role, Role]] = {
    "primary": ("fill", "fill_hover", "fill_pressed", "on_fill"),
    "plain": ("raised", "hover", "pressed", "text"),
    "danger": ("danger_fill", "danger_hover", "danger_pressed", "on_fill"),
    "quiet": ("card", "raised", "hover", "text"),
}
SCROLLBAR, PROGRESS = 14, (8, 10)
"""Usual width of a scrollbar, and heights of a progress bar, in pixels at 96 dpi."""
_ENTRY_RADIUS = 7
_CARD_RADIUS, _CARD_SIDE = 10, 96
_THUMB_GAP, _THUMB = 3, 28
_LABEL = "Button.padding -sticky nswe -children {Button.label -sticky nswe}"


def button_style(faces: Faces, kind: ButtonKind, ground: Role) -> str:
    """Return the style of a button on a ground."""
    rest, hover, pressed, text = _BUTTONS[kind]
    face = Face(ground if kind == "quiet" else rest, ground)
    ring: Role = "text" if text == "on_fill" else "accent"
    off, over = face._replace(fill="raised"), face._replace(fill=hover)
    looks: Looks = [
        ("disabled focus", off._replace(ring=ring)),
        ("disabled", off),
        ("pressed", face._replace(fill=pressed)),
        ("focus active", over._replace(ring=ring)),
        ("focus", face._replace(ring=ring)),
        ("active", over),
        ("", face),
    ]
    name = f"{kind.capitalize()}{ground.capitalize()}"
    return _labeled(faces, f"{name}.Round", looks, text, font="OneTrainerBody")


def entry_style(faces: Faces, font: str) -> str:
    """Return the style of an entry of the navigation; that of the current page is "selected"."""
    face = Face("side", "side", radius=_ENTRY_RADIUS)
    over, current = face._replace(fill="raised"), face._replace(fill="selected")
    looks: Looks = [
        ("selected focus", current._replace(ring="accent")),
        ("selected", current),
        ("pressed", face._replace(fill="hover")),
        ("focus active", over._replace(ring="accent")),
        ("focus", face._replace(ring="accent")),
        ("active", over),
        ("", face),
    ]
    return _labeled(faces, f"{font}.Entry", looks, "text", font=font, anchor="w")


def _labeled(
    faces: Faces,
    name: str,
    looks: Looks,
    text: Role,
    *,
    font: str,
    anchor: str = "center",
) -> str:
    def layout() -> str:
        return f"{faces.element(f'{name}.face', looks)} -sticky nswe -children {{{_LABEL}}}"

    def color(made: str) -> None:
        options: dict[str, object] = {"font": font, "anchor": anchor, "padding": 0, "width": 0}
        options["shiftrelief"] = 0
        faces.configure(made, options, foreground=text, background=looks[-1][1].ground)
        # The theme colors a button by its state, which shows behind the corners.
        faces.map(made, background=[], foreground=[("disabled", "dim")])

    return faces.style(f"{name}.TButton", layout, color)


def card_style(faces: Faces, ground: Role) -> str:
    """Return the style of the frame of a card."""
    face = Face("card", ground, size=(_CARD_SIDE, _CARD_SIDE), radius=_CARD_RADIUS)
    name = f"On{ground.capitalize()}.Card"
    return faces.style(
        f"{name}.TFrame",
        lambda: faces.element(f"{name}.border", [("", face)]),
        partial(_lay, faces, ground),
    )


def scrollbar_style(faces: Faces, ground: Role, width: int, *, is_across: bool = False) -> str:
    """Return the style of a scrollbar, of which nothing is seen where nothing is hidden.

    width: in pixels at 96 dpi; of one that lies it is the height.
    """
    gap, size = _THUMB_GAP, (_THUMB, width) if is_across else (width, _THUMB)
    trough = Face(ground, ground, size=(width, width), radius=0)
    thumb = Face("hover", ground, size=size, radius=width / 2 - gap, inset=(gap, gap))
    looks: Looks = [
        ("disabled", thumb._replace(fill=ground)),
        ("active", thumb._replace(fill="border")),
        ("", thumb),
    ]
    way, sticky = ("Horizontal", "we") if is_across else ("Vertical", "ns")
    name = f"On{ground.capitalize()}.Wide{width}.{way}"

    def layout() -> str:
        below = faces.element(f"{name}.trough", [("", trough)])
        return f"{below} -sticky {sticky} -children {{{faces.element(f'{name}.thumb', looks)}}}"

    return faces.style(f"{name}.TScrollbar", layout, partial(_lay, faces, ground))


def progress_style(faces: Faces, ground: Role, height: int) -> str:
    """Return the style of a progress bar. height: in pixels at 96 dpi."""
    trough = Face("raised", ground, size=(8 * height, height), radius=height / 2)
    bar = trough._replace(fill="fill", ground="raised", is_clear=True)
    name = f"On{ground.capitalize()}.High{height}"

    def layout() -> str:
        below = faces.element(f"{name}.trough", [("", trough)])
        above = faces.element(f"{name}.pbar", [("", bar)])
        return f"{below} -sticky we -children {{{above} -side left -sticky {{}}}}"

    return faces.style(f"{name}.Horizontal.TProgressbar", layout, partial(_lay, faces, ground))


def slider_style(faces: Faces) -> str:
    """Return the style of a slider on a card."""
    trough = Face("raised", "card", size=(64, 16), radius=3, inset=(0, 5))
    knob = Face("text", "card", size=(16, 16), radius=8, is_clear=True)
    over = knob._replace(fill="accent")
    looks: Looks = [("pressed", over), ("focus", over), ("active", over), ("", knob)]

    def layout() -> str:
        below = faces.element("Round.Horizontal.Scale.trough", [("", trough)])
        above = faces.element("Round.Horizontal.Scale.slider", looks)
        return f"{below} -sticky nswe -children {{{above} -side left -sticky {{}}}}"

    return faces.style("Round.Horizontal.TScale", layout, partial(_lay, faces, "card"))


def set_up_all(faces: Faces) -> None:
    """Set up the styles of all pages at once: ttk draws the whole window anew for each, later."""
    grounds: tuple[Role, ...] = ("card", "window")
    for ground, kind in product(grounds, _BUTTONS):
        button_style(faces, kind, ground)
    for is_across in (False, True):
        scrollbar_style(faces, "card", SCROLLBAR, is_across=is_across)
    for height in PROGRESS:
        progress_style(faces, "card", height)
    slider_style(faces)


def _lay(faces: Faces, ground: Role, made: str) -> None:
    faces.configure(made, {"borderwidth": 0}, background=ground)
