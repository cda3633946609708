"""ttk styles of fields, labels, tables and scroll bars."""

from collections.abc import Callable
from tkinter import ttk

from ui.theme.palette import Palette, Role

_GROUNDS: tuple[Role, ...] = ("window", "side", "card", "raised")
_BASE = "clam"
_ARROW = "Plain.downarrow"

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
        background=palette.window,
        foreground=palette.text,
        font="OneTrainerBody",
        bordercolor=palette.border,
        troughcolor=palette.field,
        focuscolor=palette.accent,
        selectbackground=palette.fill,
        selectforeground=palette.on_fill,
        insertcolor=palette.text,
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
    style.configure(f"{name}.TLabel", background=color, foreground=palette.text)
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
    if _ARROW not in style.element_names():
        style.element_create(_ARROW, "image", arrow, sticky="")
    # The theme's combo box field lacks a right edge; that of an entry has one.
    style.layout(
        "TCombobox",
        [
            (
                "Entry.field",
                {
                    "sticky": "nswe",
                    "children": [
                        (_ARROW, {"side": "right", "sticky": "ns"}),
                        (
                            "Combobox.padding",
                            {
                                "sticky": "nswe",
                                "children": [("Combobox.textarea", {"sticky": "nswe"})],
                            },
                        ),
                    ],
                },
            )
        ],
    )


def _entries(style: ttk.Style, palette: Palette, px: Px) -> None:
    for kind in ("TEntry", "TCombobox"):
        style.configure(
            kind,
            fieldbackground=palette.field,
            foreground=palette.text,
            **_edges(palette.field) | {"bordercolor": palette.border},
            insertcolor=palette.text,
            padding=(px(7), px(4)),
        )
        style.map(
            kind,
            bordercolor=[
                ("invalid", palette.danger),
                ("focus", palette.accent),
                ("alternate", palette.warning),
            ],
            lightcolor=[("invalid", palette.danger), ("focus", palette.accent)],
            darkcolor=[("invalid", palette.danger), ("focus", palette.accent)],
            foreground=[("disabled", palette.dim)],
            fieldbackground=[("readonly", palette.field), ("disabled", palette.card)],
            selectbackground=[("!focus", palette.field)],
            selectforeground=[("!focus", palette.text)],
        )
    style.map(
        "TCombobox",
        # A selected value must not look like selected text.
        selectbackground=[("readonly", palette.field)],
        selectforeground=[("readonly", palette.text)],
    )


def _buttons(style: ttk.Style, palette: Palette, px: Px) -> None:
    style.configure(
        "TButton",
        background=palette.raised,
        foreground=palette.text,
        **_edges(palette.raised),
        padding=(px(12), px(4)),
        width=-1,
        relief="flat",
    )
    style.map(
        "TButton",
        background=[("disabled", palette.card), ("active", palette.hover)],
        foreground=[("disabled", palette.dim)],
        bordercolor=[("focus", palette.accent)],
        lightcolor=[("focus", palette.accent), ("active", palette.hover)],
        darkcolor=[("focus", palette.accent), ("active", palette.hover)],
    )
    style.configure("Offer.TButton", foreground=palette.accent)
    style.configure("Changes.QuietSide.TButton", foreground=palette.accent)
    style.configure(
        "Logo.TButton",
        background=palette.side,
        **_edges(palette.side),
        font="OneTrainerHeading",
        padding=(px(8), px(2)),
    )
    style.map("Logo.TButton", background=[("active", palette.raised)])
    for role in _GROUNDS:
        name = f"Quiet{role.capitalize()}.TButton"
        style.configure(
            name,
            background=palette[role],
            **_edges(palette[role]),
            foreground=palette.dim,
            padding=(px(5), px(2)),
        )
        style.map(
            name,
            background=[("active", palette.raised)],
            foreground=[("active", palette.text), ("disabled", palette.line)],
            lightcolor=[("focus", palette.accent), ("active", palette.raised)],
            darkcolor=[("focus", palette.accent), ("active", palette.raised)],
        )


def _tables(style: ttk.Style, palette: Palette, px: Px) -> None:
    style.configure(
        "Treeview",
        background=palette.card,
        fieldbackground=palette.card,
        foreground=palette.text,
        **_edges(palette.card),
        rowheight=px(32),
    )
    style.map(
        "Treeview",
        background=[("selected", palette.selected)],
        foreground=[("selected", palette.text)],
    )
    style.configure(
        "Treeview.Heading",
        background=palette.card,
        foreground=palette.dim,
        bordercolor=palette.line,
        lightcolor=palette.card,
        darkcolor=palette.card,
        font="OneTrainerSmall",
        padding=(px(6), px(5)),
        relief="flat",
    )
    style.map("Treeview.Heading", background=[("active", palette.raised)])
    for way in ("Vertical", "Horizontal"):
        style.configure(
            f"{way}.TScrollbar",
            background=palette.hover,
            troughcolor=palette.card,
            bordercolor=palette.card,
            lightcolor=palette.hover,
            darkcolor=palette.hover,
            arrowcolor=palette.dim,
            arrowsize=px(11),
            gripcount=0,
        )
        style.map(f"{way}.TScrollbar", background=[("disabled", palette.card)])


def _edges(color: str) -> dict[str, str]:
    """Return the options that give a widget a flat edge of one color."""
    return dict.fromkeys(("bordercolor", "lightcolor", "darkcolor"), color)
