"""ttk styles of fields, labels, tables and scroll bars."""

from collections.abc import Callable
from tkinter import ttk

from ui.theme.palette import Palette, Role

_GROUNDS: tuple[Role, ...] = ("window", "side", "card", "raised")
_BASE = "clam"

Px = Callable[[float], int]


def restyle(style: ttk.Style, palette: Palette, px: Px, arrow: str) -> None:
    """Set every style; existing widgets are updated.

    Args:
        style: The window's styles.
        palette: Colors.
        px: Scales a length to the screen.
        arrow: Name of the image for the arrow of combo boxes.
    """
    style.theme_use(_BASE)
    _unite_combo_box(style, arrow)
    style.configure(
        ".",
        background=palette["window"],
        foreground=palette["text"],
        font="OneTrainerBody",
        bordercolor=palette["border"],
        troughcolor=palette["field"],
        focuscolor=palette["accent"],
        selectbackground=palette["fill"],
        selectforeground=palette["on_fill"],
        insertcolor=palette["text"],
    )
    for ground in _GROUNDS:
        _labels(style, palette, ground)
    _entries(style, palette, px)
    _buttons(style, palette, px)
    _tables(style, palette, px)


def _labels(style: ttk.Style, palette: Palette, ground: Role) -> None:
    name = ground.capitalize()
    color = palette[ground]
    style.configure(f"{name}.TFrame", background=color)
    style.configure(f"{name}.TLabel", background=color, foreground=palette["text"])
    tones: tuple[Role, ...] = ("dim", "accent", "danger", "warning", "good")
    for role in tones:
        for size, font in (("", "Body"), ("Small", "Small"), ("Heading", "Heading")):
            style.configure(
                f"{size}{role.capitalize()}.{name}.TLabel",
                background=color,
                foreground=palette[role],
                font=f"OneTrainer{font}",
            )
    for font in ("Small", "Bold", "Heading", "Title", "Mono"):
        style.configure(f"{font}.{name}.TLabel", background=color, font=f"OneTrainer{font}")


def _unite_combo_box(style: ttk.Style, arrow: str) -> None:
    """Put field and arrow of a combo box into one frame; the theme gives each its own."""
    element = f"{arrow.capitalize()}.downarrow"  # an element keeps the size of its first image
    if element not in style.element_names():
        style.element_create(element, "image", arrow, sticky="")
    # The theme's combo box field lacks a right edge; that of an entry has one.
    inner = "Combobox.padding -sticky nswe -children {Combobox.textarea -sticky nswe}"
    field = f"Entry.field -sticky nswe -children {{{element} -side right -sticky ns {inner}}}"
    style.tk.call("ttk::style", "layout", "TCombobox", field)


def _entries(style: ttk.Style, palette: Palette, px: Px) -> None:
    accent, danger, field = palette["accent"], palette["danger"], palette["field"]
    marked = [("invalid", danger), ("focus", accent)]
    for kind in ("TEntry", "TCombobox"):
        style.configure(
            kind,
            fieldbackground=field,
            foreground=palette["text"],
            **_edges(field) | {"bordercolor": palette["border"]},
            insertcolor=palette["text"],
            padding=(px(7), px(4)),
        )
        style.map(
            kind,
            bordercolor=[*marked, ("alternate", palette["warning"])],
            lightcolor=marked,
            darkcolor=marked,
            foreground=[("disabled", palette["dim"])],
            fieldbackground=[("readonly", field), ("disabled", palette["card"])],
            selectbackground=[("!focus", field)],
            selectforeground=[("!focus", palette["text"])],
        )
    # A selected value must not look like selected text.
    style.map(
        "TCombobox",
        selectbackground=[("readonly", field)],
        selectforeground=[("readonly", palette["text"])],
    )


def _buttons(style: ttk.Style, palette: Palette, px: Px) -> None:
    text, dim, raised = palette["text"], palette["dim"], palette["raised"]
    focus, hover = ("focus", palette["accent"]), ("active", palette["hover"])
    edges, room = _edges(raised), (px(12), px(4))
    style.configure(
        "TButton",
        background=raised,
        foreground=text,
        **edges,
        padding=room,
        width=-1,
        relief="flat",
    )
    style.map(
        "TButton",
        background=[("disabled", palette["card"]), hover],
        foreground=[("disabled", dim)],
        bordercolor=[focus],
        lightcolor=[focus, hover],
        darkcolor=[focus, hover],
    )
    for name in ("Offer.TButton", "Changes.QuietSide.TButton"):
        style.configure(name, foreground=palette["accent"])
    side, room = _flat(palette["side"]), (px(8), px(2))
    style.configure("Logo.TButton", **side, font="OneTrainerHeading", padding=room)
    style.map("Logo.TButton", background=[("active", raised)])
    for role in _GROUNDS:
        name, active = f"Quiet{role.capitalize()}.TButton", ("active", raised)
        style.configure(name, **_flat(palette[role]), foreground=dim, padding=(px(5), px(2)))
        style.map(
            name,
            background=[active],
            foreground=[("active", text), ("disabled", palette["line"])],
            lightcolor=[focus, active],
            darkcolor=[focus, active],
        )


def _tables(style: ttk.Style, palette: Palette, px: Px) -> None:
    card, text, hover = palette["card"], palette["text"], palette["hover"]
    style.configure(
        "Treeview", **_flat(card), fieldbackground=card, foreground=text, rowheight=px(32)
    )
    style.configure("Tall.Treeview", rowheight=px(46))  # with an image at the left
    style.map(
        "Treeview",
        background=[("selected", palette["selected"])],
        foreground=[("selected", text)],
    )
    style.configure(
        "Treeview.Heading",
        **_flat(card) | {"bordercolor": palette["line"]},
        foreground=palette["dim"],
        font="OneTrainerSmall",
        padding=(px(6), px(5)),
        relief="flat",
    )
    style.map("Treeview.Heading", background=[("active", palette["raised"])])
    style.configure(  # of the lists of combo boxes, which Tk makes itself
        "Vertical.TScrollbar",
        **_flat(hover) | {"bordercolor": card},
        troughcolor=card,
        arrowcolor=palette["dim"],
        arrowsize=px(11),
        gripcount=0,
    )
    style.map("Vertical.TScrollbar", background=[("disabled", card)])
    knob, edge = palette["fill"], palette["accent"]
    style.configure("Horizontal.TScale", **_flat(knob), troughcolor=palette["raised"], gripcount=0)
    focus = [("focus", edge)]
    style.map("Horizontal.TScale", bordercolor=focus, lightcolor=focus, darkcolor=focus)


def _edges(color: str) -> dict[str, str]:
    """Return the options that give a widget a flat edge of one color."""
    return dict.fromkeys(("bordercolor", "lightcolor", "darkcolor"), color)


def _flat(color: str) -> dict[str, str]:
    """Return the options that give a widget a ground and an edge of one color."""
    return {"background": color, **_edges(color)}
