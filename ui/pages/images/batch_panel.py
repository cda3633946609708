"""Changes of many captions: find and replace, and a table of tags with what to do with them."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from tkinter import ttk

from onetrainer.captions.tag_counts import TagCounts
from onetrainer.captions.tag_edits import (
    TagOrder,
    TextSearch,
    add_tags,
    change_tags,
    moving_first,
    ordering,
    removing,
    renaming,
    replacing,
    tags_of,
)
from onetrainer.errors import UserError
from ui.context import Context
from ui.editing.caption_batch import Edit
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow
from ui.widgets.button import Button
from ui.widgets.changes import on_change
from ui.widgets.flow import Flow
from ui.widgets.grid import Box, Grid
from ui.widgets.marking import Marking
from ui.widgets.placing import wrap_within
from ui.widgets.switch import Switch

Plan = Callable[[Edit, str], None]
"""Plans an edit of the captions of the chosen images; the text says what it is."""

_ROW = 26
_NO_TAG = "Select tags in the table first."
_NO_TEXT = "Enter a tag first."
_HINT = "Ctrl+click marks several tags; a double click shows their images."
_NOTHING = "Enter what to find first."


class ReplacePanel:
    """Find and replace in the captions; place `outer`."""

    def __init__(self, context: Context, parent: tk.Misc, plan: Plan) -> None:
        self._context, self._plan = context, plan
        widgets, px = context.widgets, context.widgets.px
        self.outer = widgets.frame(parent)
        self._find = self._field("Find", "find text")
        self._replacement = self._field("Replace by", "replacement")
        self._options: dict[str, Switch] = {}
        for name, text in (
            ("matches_case", "Match case"),
            ("whole_words", "Whole words"),
            ("is_pattern", "Regular expression"),
        ):
            control = f"replace {name}"
            switch = self._options[name] = widgets.kept_switch(self.outer, control, text=text)
            switch.widget.pack(anchor="w", pady=(px(8), 0))
            widgets.name(switch.widget, control)
        self.button = widgets.button(
            self.outer, "Show changes…", self._start, name="replace", kind="primary"
        )
        self.button.widget.pack(anchor="w", pady=(px(12), 0))
        on_change(self._find, self.outer, self.enable)
        self.enable()

    def enable(self) -> None:
        """Enable the button where there is something to find."""
        self.button.enable("" if self._find.get() else _NOTHING)

    def _field(self, label: str, name: str) -> tk.StringVar:
        widgets, px = self._context.widgets, self._context.widgets.px
        text = widgets.kept.variable(self.outer, name)
        widgets.label(self.outer, label, style="Dim").pack(anchor="w", pady=(px(8), px(3)))
        entry = ttk.Entry(self.outer, textvariable=text, font="OneTrainerBody", width=20)
        entry.pack(fill="x")
        entry.bind("<Return>", lambda _: self._start())
        widgets.name(entry, name)
        return text

    def _start(self) -> None:
        if not self._find.get():
            return
        flags = {name: switch.is_on for name, switch in self._options.items()}
        search = TextSearch(self._find.get(), self._replacement.get(), **flags)
        try:
            replace = replacing(search)
        except UserError as error:
            self._context.act.show_message(str(error))
            return
        about = f"Replace “{search.text}” by “{search.replacement}”"
        self._plan(lambda text, _: replace(text), about)


class TagsPanel:
    """Table of the tags of the chosen images with counts; place `outer`.

    Args:
        plan: See `Plan`.
        filter_by: Called with a tag to show only images that have it.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        images: Callable[[], ImageList],
        plan: Plan,
        filter_by: Callable[[str], None],
    ) -> None:
        self._context, self._images, self._plan = context, images, plan
        self._all = self.counts = TagCounts()
        widgets, px = context.widgets, context.widgets.px
        self.outer = widgets.frame(parent)
        self._text = widgets.kept.variable(self.outer, "tag text")
        self.grid = Grid(
            widgets,
            self.outer,
            self._paint,
            lambda _: self.enable(),
            name="tags",
            height=_ROW,
            opened=lambda at: filter_by(self.counts[at][0]),
        )
        self.entry = ttk.Entry(self.outer, textvariable=self._text, font="OneTrainerBody", width=20)
        line = widgets.frame(self.outer)
        self._hint = widgets.label(self.outer, _HINT, style="SmallDim", wrap=300)
        # Created in the order of the Tab key; of a low window the table gives way.
        for widget in (self._hint, line, self.entry):
            widget.pack(side="bottom", fill="x", pady=(px(6), 0))
        self.grid.outer.pack(fill="both", expand=True)
        self._marking = Marking(self.grid, self.enable)
        widgets.name(self.entry, "tag text")
        on_change(self._text, self.outer, self._narrow)
        self._buttons = self._make_buttons(line)
        wrap_within(self.outer, self._hint, margin=0)
        self.enable()

    def show(self, counts: TagCounts) -> None:
        """Show tags with their numbers of captions."""
        self._all = counts
        self._narrow()

    def enable(self) -> None:
        """Enable what can be done."""
        chosen = "" if self.chosen else _NO_TAG
        text = "" if self._text.get().strip() else _NO_TEXT
        reasons = {"add tag first": text, "add tag last": text, "rename tag": chosen or text}
        reasons |= {"remove tag": chosen, "tag to front": chosen}
        for name, button in self._buttons.items():
            button.enable(reasons.get(name, "" if self._all else "There are no tags."))

    @property
    def chosen(self) -> list[str]:
        """The marked tags, or the selected one."""
        return [self.counts[at][0] for at in self._marking.chosen]

    def _make_buttons(self, line: ttk.Frame) -> dict[str, Button]:
        widgets = self._context.widgets
        actions: tuple[tuple[str, str, Callable[[], None], str], ...] = (
            ("add tag first", "Add first", partial(self._add, True), "Adds what is entered"),
            ("add tag last", "Add last", partial(self._add, False), "Adds what is entered"),
            ("rename tag", "Rename", self._rename, "Gives the selected tags this name"),
            ("remove tag", "Remove", self._remove, "Removes the selected tags"),
            ("tag to front", "To front", self._to_front, "Puts the selected tags first"),
            ("tags by name", "A to Z", partial(self._sort, "alphabetical"), ""),
            ("tags by count", "By count", partial(self._sort, "count"), ""),
        )
        made, flow = {}, Flow(widgets, line)
        for name, label, action, about in actions:
            made[name] = widgets.button(line, label, action, name=name).describe(about)
            flow.add(made[name].widget)
        return made

    def _narrow(self) -> None:
        """List the tags that contain what is entered; all if none does."""
        text = self._text.get().strip()
        found = self._all.having(text) if text else self._all
        self.counts = found or self._all
        self._marking.marked = frozenset()
        self.grid.show(len(self.counts), 0 if self.counts else -1)
        self.enable()

    def _paint(self, at: int, box: Box, is_current: bool) -> None:
        (tag, count), px = self.counts[at], self._context.widgets.px
        drawing, middle = self.grid.drawing, box.top + box.height // 2
        if at in self._marking.marked:
            drawing.box(box.left, box.top, box.right, box.bottom, "selected")
        drawing.text(box.left + px(8), middle, tag, anchor="w", room=box.width - px(70))
        drawing.text(box.right - px(8), middle, f"{count:,}", "dim", anchor="e")

    def _entered(self, row: ImageRow) -> list[str]:
        return tags_of(self._text.get(), self._images().format_of(row))

    def _add(self, is_first: bool) -> None:
        def edit(text: str, row: ImageRow) -> str:
            form = self._images().format_of(row)
            return add_tags(text, form, self._entered(row), is_first=is_first)

        self._plan(edit, f"Add “{self._text.get().strip()}”")

    def _rename(self) -> None:
        name = " ".join(self._text.get().split())
        change = renaming(self.chosen, name)
        self._with_tags(change, f"Rename {_listed(self.chosen)} to “{name}”")

    def _remove(self) -> None:
        self._with_tags(removing(self.chosen), f"Remove {_listed(self.chosen)}")

    def _to_front(self) -> None:
        self._with_tags(moving_first(self.chosen), f"Put {_listed(self.chosen)} first")

    def _sort(self, order: TagOrder) -> None:
        how = "by name" if order == "alphabetical" else "by count"
        self._with_tags(ordering(order, self._all), f"Sort tags {how}")

    def _with_tags(self, change: Callable[[list[str]], list[str]], about: str) -> None:
        self._plan(
            lambda text, row: change_tags(text, self._images().format_of(row), change), about
        )


def _listed(tags: Sequence[str]) -> str:
    more = f" and {len(tags) - 2} more" if len(tags) > 2 else ""
    return ", ".join(f"“{tag}”" for tag in tags[:2]) + more
