"""Choice of which images are shown."""

import tkinter as tk
from collections.abc import Callable, Sequence
from tkinter import ttk

from onetrainer.dataset.buckets import Bucket
from onetrainer.messages.formatting import counted
from ui.background.background_query import BackgroundQuery
from ui.background.dataset_preview import format_bucket
from ui.context import Context
from ui.editing.image_filter import EVERYTHING, ImageFilter
from ui.editing.image_list import ImageList
from ui.widgets.changes import on_change
from ui.widgets.flow import Flow

_ALL_FOLDERS, _ALL_BUCKETS = "All folders", "All buckets"
_ANY_TAG, _NO_TAG = "Any tag", "A double click on a tag at the right shows its images."
_MOST = 16  # characters of a tag
_AFTER_MS = 200  # of a pause in typing


class FilterBar:
    """Search, kind, folder, bucket and tag; place `outer`. changed: Called with another filter."""

    def __init__(
        self, context: Context, parent: tk.Misc, changed: Callable[[ImageFilter], None]
    ) -> None:
        widgets = context.widgets
        self._widgets, self._changed = widgets, changed
        self._timer = ""
        self._buckets: dict[str, Bucket] = {}
        self._concepts: list[str] = []
        self.tag = widgets.kept.value("filter tag", "")
        self.outer = widgets.frame(parent, ground="window")
        self._text = widgets.kept.variable(self.outer, "find images")
        self.entry = ttk.Entry(self.outer, textvariable=self._text, width=18, font="OneTrainerBody")
        self._flow = Flow(widgets, self.outer, ground="window")
        self._flow.add(widgets.label(self.outer, "Search", style="Dim", ground="window"))
        self._flow.add(self.entry)
        self.entry.bind("<Escape>", lambda _: self._text.set(""))
        widgets.name(self.entry, "find images")
        on_change(self._text, self.outer, self._typed)
        self._show = self._choice("filter images", EVERYTHING)
        self._folder = self._choice("filter folder", _ALL_FOLDERS)
        self._bucket = self._choice("filter bucket", _ALL_BUCKETS)
        self._tag_button = widgets.button(
            self.outer, _ANY_TAG, lambda: self.set_tag(""), name="filter tag", ground="window"
        )
        self._count = widgets.label(self.outer, style="SmallDim", ground="window")
        self._flow.add(self._tag_button.widget)
        self._flow.add(self._count)
        self._show_tag()

    @property
    def wanted(self) -> ImageFilter:
        """The filter."""
        folder = self._folder.get()
        return ImageFilter(
            self._show.get(),
            self._concepts.index(folder) if folder in self._concepts else None,
            self._buckets.get(self._bucket.get().partition("  ")[0]),
            self.tag,
            self._text.get().strip(),
        )

    def offer(
        self,
        kinds: Sequence[str],
        images: ImageList,
        buckets: Sequence[tuple[Bucket, int]],
    ) -> None:
        """Offer what there is to choose from."""
        names = [concept.name for concept in images.concepts]
        # Two folders of one name are told apart by a number.
        self._concepts = [
            name if names.count(name) == 1 else f"{name} ({at + 1})"
            for at, name in enumerate(names)
        ]
        self._buckets = {format_bucket(bucket): bucket for bucket, _ in buckets}
        labels = [f"{format_bucket(bucket)}  ·  {count:,}" for bucket, count in buckets]
        _offer(self._show, kinds)
        _offer(self._folder, [_ALL_FOLDERS, *self._concepts])
        _offer(self._bucket, [_ALL_BUCKETS, *labels])

    def set_tag(self, tag: str) -> None:
        """Show only images with a tag; "" for any."""
        self.tag = tag
        self._widgets.kept.keep("filter tag", tag)
        self._show_tag()
        self._changed(self.wanted)

    def _show_tag(self) -> None:
        tag = self.tag
        shown = tag if len(tag) <= _MOST else f"{tag[: _MOST - 1]}…"
        self._tag_button.set_text(f"{shown}  ×" if tag else _ANY_TAG)
        self._tag_button.enable("" if tag else _NO_TAG)

    def say_count(self, count: int, total: int, query: BackgroundQuery[ImageList]) -> None:
        """Show how many images there are, and how far they are read."""
        of = f" of {total:,}" if count < total else ""
        text = f"{counted(count, 'image')}{of}" if total else ""
        if query.is_working:
            done = f" {query.done / query.total:.0%}" if query.total else ""
            text = f"Reading …{done}  {text}"
        self._count.say(text)

    def _choice(self, name: str, first: str) -> ttk.Combobox:
        box = ttk.Combobox(self.outer, values=[first], state="readonly", width=13)
        box.configure(font="OneTrainerBody", height=16)
        box.set(self._widgets.kept.value(name, first))

        def chosen(_: object) -> None:
            self._widgets.kept.keep(name, box.get())
            self._changed(self.wanted)

        box.bind("<<ComboboxSelected>>", chosen)
        self._flow.add(box)
        self._widgets.name(box, name)
        return box

    def _typed(self) -> None:
        if self._timer:
            self.outer.after_cancel(self._timer)
        self._timer = self.outer.after(_AFTER_MS, self._search)

    def _search(self) -> None:
        self._timer = ""
        self._changed(self.wanted)


def _offer(box: ttk.Combobox, values: Sequence[str]) -> None:
    """Offer values; what was chosen and is no longer there becomes the first one."""
    box.configure(values=list(values))
    chosen = box.get().partition("  ")[0]
    box.set(next((value for value in values if value.partition("  ")[0] == chosen), values[0]))
