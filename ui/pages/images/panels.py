"""The card beside the grid: the caption of one image, or what changes the captions of many."""

import tkinter as tk
from collections.abc import Callable
from functools import cached_property, partial

from onetrainer.captions.tag_counts import TagCounts
from ui.background.threads import OneAtATime
from ui.context import Context
from ui.dialogs.dialogs import once_free, report_failure
from ui.dialogs.edit_dialogs import ask_batch
from ui.editing.caption_batch import BatchPlan, Edit, plan_batch
from ui.editing.image_filter import tag_counts
from ui.pages.images.batch_panel import ReplacePanel, TagsPanel
from ui.pages.images.caption_panel import CaptionPanel
from ui.pages.images.thumbnails import Thumbnails
from ui.pages.images.writing import Writing
from ui.widgets.button import Button
from ui.widgets.flow import Flow

_TABS = (("caption", "Caption"), ("tags", "Tags"), ("replace", "Find and replace"))
_READING = "The images are still being read."


class Panels:
    """The panels with their tabs; place `outer`.

    A batch is about the marked thumbnails, or all that are shown.

    Args:
        filter_by: Called with a tag to show only images that have it.
        open_mask: Called to paint the mask of the selected image.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        thumbnails: Thumbnails,
        writing: Writing,
        *,
        filter_by: Callable[[str], None],
        open_mask: Callable[[], None],
    ) -> None:
        self._context, self._thumbnails, self._writing = context, thumbnails, writing
        self._filter_by = filter_by
        self._counts: OneAtATime[TagCounts] = OneAtATime(
            context.widgets.jobs, lambda counts: self.tags.show(counts)
        )
        self._is_planning = False
        self.tab = ""
        widgets, px = context.widgets, context.widgets.px
        self.outer, self._inner = widgets.card(parent)
        line = widgets.frame(self._inner)
        line.pack(fill="x", pady=(0, px(8)))
        flow = Flow(widgets, line)
        self._tabs: dict[str, Button] = {}
        for name, text in _TABS:
            show_it = partial(self.show_tab, name)
            button = self._tabs[name] = widgets.button(line, text, show_it, name=f"images {name}")
            flow.add(button.widget)
        self._mask = widgets.button(line, "Mask…", open_mask, name="paint mask")
        self._mask.describe("Paints what of this image is trained")
        flow.add(self._mask.widget)
        self._scope = widgets.label(self._inner, style="SmallDim", wrap=310)
        self.caption = CaptionPanel(context, self._inner, writing)
        self._scope.pack(side="bottom", anchor="w", fill="x", pady=(px(8), 0))

    @cached_property
    def tags(self) -> TagsPanel:
        """The table of tags, made when it is first shown."""
        of = self._thumbnails
        return TagsPanel(self._context, self._inner, lambda: of.images, self._plan, self._filter_by)

    @cached_property
    def replace(self) -> ReplacePanel:
        """What finds and replaces, made when it is first shown."""
        return ReplacePanel(self._context, self._inner, self._plan)

    def show_tab(self, name: str) -> None:
        """Show the caption of one image, or what changes the captions of many."""
        if self.tab:
            self._panel.pack_forget()
        self.tab = name
        self._panel.pack(fill="both", expand=True)
        for other, button in self._tabs.items():
            button.set_kind("plain" if other == name else "quiet")
        self.count_tags()
        self.enable()

    def edit(self) -> None:
        """Go to the caption."""
        self.show_tab("caption")
        self.caption.box.focus_set()

    def enable(self) -> None:
        """Enable what can be done, and say what a batch is about."""
        thumbnails = self._thumbnails
        self._mask.enable("" if thumbnails.row else "Select an image first.")
        marked = len(thumbnails.marks)
        count = marked or len(thumbnails.shown)
        some = f"{count:,} marked" if marked else f"all {count:,} shown"
        noun = "image" if count == 1 else "images"
        self._scope.say("" if self.tab == "caption" else f"Applies to {some} {noun}.")

    def count_tags(self) -> None:
        """Count the tags of what a batch is about, if their table is shown."""
        if self.tab == "tags":
            images, indices = self._thumbnails.images, self._thumbnails.target
            self._counts.ask(lambda: tag_counts(images, indices))

    @property
    def _panel(self) -> tk.Widget:
        if self.tab == "caption":
            return self.caption.outer
        return self.tags.outer if self.tab == "tags" else self.replace.outer

    def _plan(self, edit: Edit, about: str) -> None:
        """Show what an edit of the chosen images would write, and write it if that is wanted."""
        images, indices = self._thumbnails.images, self._thumbnails.target
        if self._is_planning or not images.is_complete:
            self._context.act.show_message(_READING)
            return
        self.caption.save()
        self._is_planning = True

        def planned(plan: BatchPlan) -> None:
            self._is_planning = False
            once_free(self._context.root, partial(self._offer, plan, about))

        def failed(error: Exception) -> None:
            self._is_planning = False
            report_failure(self._context, error)

        read = self._writing.read
        self._context.widgets.jobs.run(
            lambda: plan_batch(images, list(indices), edit, read), planned, failed
        )

    def _offer(self, plan: BatchPlan, about: str) -> None:
        if ask_batch(self._context, about, plan):
            self._writing.save_all([each.change for each in plan.changes], about)
