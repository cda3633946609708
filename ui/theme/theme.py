"""Fonts, sizes and colors of the window, and the switch between dark and light."""

import tkinter as tk
import tkinter.font
from tkinter import ttk
from typing import Literal
from weakref import WeakKeyDictionary

from ui.theme import smooth
from ui.theme.desktop import color_title_bar
from ui.theme.faces import Faces
from ui.theme.fonts import add_own_font
from ui.theme.palette import PALETTES, Mode, Palette, Role
from ui.theme.styles import restyle

_DPI = 96
SCALES = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5)
"""Sizes that can be chosen; 1 is 96 dots per inch."""
# Pixels at 96 dpi that the window needs: nothing is enlarged until this does not fit the screen.
_NEEDED = (620, 370)
_FOR_WINDOWS = ("Inter", "Segoe UI", "SF Pro Text", "Roboto")
_FAMILIES = (*_FOR_WINDOWS, "Noto Sans", "DejaVu Sans")
_MEDIUM = "Roboto"
_MONO_FAMILIES = ("JetBrains Mono", "Cascadia Mono", "Menlo", "DejaVu Sans Mono", "Noto Sans Mono")

BODY = "OneTrainerBody"
SMALL = "OneTrainerSmall"
BOLD = "OneTrainerBold"
HEADING = "OneTrainerHeading"
TITLE = "OneTrainerTitle"
MONO = "OneTrainerMono"
LARGE = "OneTrainerLarge"
_ARROW, _ARROW_ROOM, _ICON = 12, 24, 15
# Colors of an icon, and of what is below it: at rest and below the pointer.
_UNDO_ROLES: tuple[tuple[Role, Role], tuple[Role, Role]] = (("dim", "text"), ("card", "raised"))
_LIST_MARGIN = 5
# Tk keeps the first colors of a combo box's list, and has no margin for its lines.
_DRESS_LIST = """+
    %W.f.l configure {*}$::OneTrainerList
    set [%W.f.l cget -listvariable] [lmap line [%W.f.l get 0 end] {string cat {  } $line}]
"""
_SIZES = {BODY: 13, SMALL: 12, BOLD: 13, HEADING: 15, TITLE: 22, MONO: 12, LARGE: 14}


class Theme:
    """Appearance of one window.

    scale: the size of everything; chosen: by the user, 0 if it follows the desktop. largest: The
    size at which the window still fits the screen.
    """

    def __init__(self, root: tk.Tk, chosen: float = 0.0) -> None:
        self.root = root
        self.mode: Mode = "dark"
        self._painted: WeakKeyDictionary[tk.Misc, dict[str, Role]] = WeakKeyDictionary()
        self.faces = Faces(root, lambda: self.palette)
        self.scale = self.largest = 1.0
        self._icons: dict[float, list[str]] = {}  # by scale, since Tk keeps them
        self.chosen = chosen
        families = set(tkinter.font.families(root))
        if families.isdisjoint(_FOR_WINDOWS):
            add_own_font()
            families = set(tkinter.font.families(root))
        self.family = _first(_FAMILIES, families)
        self.mono = _first(_MONO_FAMILIES, families)
        # Named fonts live as long as a reference to them.
        self._fonts = {name: self._font(name, size) for name, size in _SIZES.items()}
        self.rescale(chosen)
        root.tk.call("bind", "ComboboxPopdown", "<Map>", _DRESS_LIST)

    def rescale(self, chosen: float) -> None:
        """Change the size of what is built from now on; 0 follows the desktop."""
        root = self.root
        self.largest = max([scale for scale in SCALES if scale <= self._fitting] or SCALES[:1])
        self.chosen = chosen
        self.scale = self.faces.scale = self._scale_for(chosen)
        for name, size in _SIZES.items():
            self._fonts[name].configure(size=-self.px(self._font_size(name, size)))
        if self.scale not in self._icons:
            sides = map(self.px, (_ARROW_ROOM, _ICON, _ICON))
            self._icons[self.scale] = [smooth.make(root, side, side) for side in sides]
        self._arrow, at_rest, active = self._icons[self.scale]
        self.undo_images = at_rest, active

    def next_scale(self, by: int, chosen: float) -> float:
        """Return the size that is so many sizes above a chosen one, as far as there are any."""
        sizes, scale = [each for each in SCALES if each <= self.largest], self._scale_for(chosen)
        place = sizes.index(min(sizes, key=lambda each: abs(each - scale))) + by
        return sizes[min(max(place, 0), len(sizes) - 1)]

    @property
    def scale_text(self) -> str:
        """The size in words."""
        is_largest = self.scale == self.largest
        limit = ", the largest that the screen has room for" if is_largest else ""
        return f"Size: {self.scale:.0%}{limit}. Ctrl+0 is the desktop's."

    @property
    def _screen(self) -> tuple[int, int]:
        return self.root.winfo_screenwidth(), self.root.winfo_screenheight()

    @property
    def _fitting(self) -> float:
        """The scale at which the window just fits the screen."""
        return min(size / needed for size, needed in zip(self._screen, _NEEDED, strict=True))

    def _scale_for(self, chosen: float) -> float:
        # Tk ignores the density of the screen on Linux.
        quarters = min(round(self.root.winfo_fpixels("1i") / _DPI * 4), int(self._fitting * 4))
        return min(chosen, self.largest) or max(1.0, quarters / 4)

    @property
    def palette(self) -> Palette:
        """Colors in use."""
        return PALETTES[self.mode]

    def px(self, length: float) -> int:
        """Scale a length from 96 dots per inch to this screen."""
        return round(length * self.scale)

    def measure(self, text: str, font: str = BODY) -> int:
        """Return the width of a text in pixels of this screen."""
        return self._fonts[font].measure(text)

    def line_height(self, font: str = BODY) -> int:
        """Return the height of a line in pixels of this screen."""
        return int(self._fonts[font].metrics("linespace"))

    def apply(self, mode: Mode) -> None:
        """Switch the window to dark or light."""
        self.mode = mode
        palette, size = self.palette, self.px(_ARROW)
        arrow = smooth.chevron(size, self.scale, color=palette["dim"], ground=palette["field"])
        smooth.fill(self.root, self._arrow, arrow)
        for image, color, ground in zip(self.undo_images, *_UNDO_ROLES, strict=True):
            rows = smooth.undo_arrow(
                self.px(_ICON), self.scale, color=palette[color], ground=palette[ground]
            )
            smooth.fill(self.root, image, rows)
        restyle(ttk.Style(self.root), palette, self.px, self._arrow)
        self.faces.repaint()
        self._set_options()
        for widget, roles in list(self._painted.items()):
            if widget.winfo_exists():
                self._color(widget, roles)
        color_title_bar(self.root, mode)
        self.root.event_generate("<<ThemeChanged>>")

    def paint(self, widget: tk.Misc, **roles: Role) -> None:
        """Color a plain Tk widget now and after each switch: `paint(canvas, bg="card")`."""
        known = self._painted.setdefault(widget, {})
        known.update(roles)
        self._color(widget, roles)

    def _color(self, widget: tk.Misc, roles: dict[str, Role]) -> None:
        options = [
            word for name, role in roles.items() for word in (f"-{name}", self.palette[role])
        ]
        widget.tk.call(str(widget), "configure", *options)

    def _font(self, name: str, size: int) -> tkinter.font.Font:
        family = self.mono if name == MONO else self.family
        # _MEDIUM has no bold cut here, and one synthesized from its medium cut is hard to read.
        # Bold text is larger instead.
        is_bold = name in (BOLD, HEADING, TITLE) and family != _MEDIUM
        weight: Literal["bold", "normal"] = "bold" if is_bold else "normal"
        return tkinter.font.Font(self.root, name=name, family=family, size=-size, weight=weight)

    def _font_size(self, name: str, size: int) -> int:
        return size + (self.family == _MEDIUM and name == BOLD)

    def _set_options(self) -> None:
        """Color the widgets that Tk creates itself: lists of combo boxes, menus, dialogs."""
        palette = self.palette
        for pattern, color in (
            ("*Menu.background", palette["card"]),
            ("*Menu.foreground", palette["text"]),
            ("*Menu.activeBackground", palette["fill"]),
            ("*Menu.activeForeground", palette["on_fill"]),
            ("*Menu.disabledForeground", palette["dim"]),
            ("*TkFDialog*Canvas.background", palette["field"]),
            ("*TkChooseDir*Canvas.background", palette["field"]),
        ):
            self.root.option_add(pattern, color)
        self.root.option_add("*TCombobox*Listbox.font", BODY)
        self.root.option_add("*TCombobox*Listbox.borderWidth", self.px(_LIST_MARGIN))
        colors = ("-background", palette["field"], "-foreground", palette["text"])
        chosen = ("-selectbackground", palette["fill"], "-selectforeground", palette["on_fill"])
        self.root.tk.call("set", "::OneTrainerList", (*colors, *chosen))
        self.root.option_add("*Menu.font", BODY)


def _first(wanted: tuple[str, ...], families: set[str]) -> str:
    return next((family for family in wanted if family in families), "TkDefaultFont")
