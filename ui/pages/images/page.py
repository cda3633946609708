"""Page of all images: find them, edit their captions and tags, paint their masks."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from onetrainer.dataset.buckets import Bucket
from onetrainer.errors import Problem, UserError
from onetrainer.images.findings import Finding
from ui.background.apart import apart
from ui.background.background_query import BackgroundQuery
from ui.background.folder_times import FolderWatch
from ui.background.threads import OneAtATime
from ui.context import Context, View
from ui.editing.image_filter import bucket_counts, choices, matching
from ui.editing.image_list import DEPENDS_ON, ImageList, read_images
from ui.editing.image_rows import ImageRow
from ui.messages.problems import problem_text
from ui.pages.images.filter_bar import FilterBar
from ui.pages.images.painting import Painting
from ui.pages.images.panels import Panels
from ui.pages.images.shown import Shown
from ui.pages.images.sides import Sides
from ui.pages.images.thumbnails import Thumbnails
from ui.pages.images.writing import Writing
from ui.widgets.button import Button
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller

_LEAD = "Captions, tags and masks. Images are never changed."
_LEAST = 560
_MODELS = "captioning"  # a page, if there is one
_SETTING = "data.folder"


class ImagesPage(View):
    """Grid of images with a filter, and at the right the captions of one or of all shown."""

    name = "images"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        left = context.widgets.kept.value("images", Shown())
        self.images = left.images
        self._asked: object = None
        self._findings: Sequence[Finding] | None = None
        self._bucket_counts: Sequence[tuple[Bucket, int]] = ()
        widgets, px = context.widgets, context.widgets.px
        self._watch = FolderWatch(widgets.jobs)
        self.query: BackgroundQuery[ImageList] = BackgroundQuery(
            context.draft,
            widgets.jobs,
            self._watch.noting(apart(read_images)),
            depends_on=DEPENDS_ON,
        )
        scroller = Scroller(widgets, parent, fills=True, least=_LEAST)
        self.outer: tk.Widget = scroller.outer
        self._page = widgets.frame(scroller.inner, ground="window")
        self._page.grid(sticky="nsew")
        for query in (self.query, context.check):
            query.listen(self._refresh_if_shown)
        self.writing = Writing(context, self._enable, self._reread_rows)
        self._rereads = OneAtATime(context.widgets.jobs, self._update)
        self._stale: set[Path] = set()  # saved, and not read again yet
        self._is_filtered_early = False  # before they were
        self._buttons = self._make_head()
        self.filter_bar = FilterBar(context, self._page, lambda _: self._filter())
        self._place: dict[str, Any] = {"padx": px(28)}
        self._message = widgets.label(self._page, ground="window", wrap=640)
        self._body = widgets.frame(self._page, ground="window")
        grid_card, inner = widgets.card(self._body)
        self.thumbnails = Thumbnails(
            context, inner, chosen=self._chosen, marked=self._enable, opened=self._edit
        )
        self.thumbnails.outer.pack(fill="both", expand=True)
        self.writing.bind_keys(self.thumbnails.grid.canvas)
        self.panels = Panels(
            context,
            self._body,
            self.thumbnails,
            self.writing,
            filter_by=self.filter_bar.set_tag,
            open_mask=self._open_mask,
        )
        self._sides = Sides(widgets, self._body, grid_card, self.panels.outer)
        self.painting = Painting(
            context, self._body, self._sides, self.thumbnails, self.writing, left=self.refresh
        )
        self._page.bind("<Configure>", lambda event: self._arrange(event.width))
        self.panels.show_tab(left.tab)
        if left.indices:
            self._show(left.indices, left.current)
            self.thumbnails.mark(left.marks)
        if left.is_mask:
            self._paint()

    def refresh(self) -> None:
        """Show what is known of the images, and read them if the settings have changed."""
        query = self.query
        blocked = query.blocked_reason()
        if not blocked and not query.is_requested:
            query.start()
        error = UserError(blocked) if blocked else query.failed
        if error is not None:
            problem = Problem(_SETTING, error.what, error.expected, error.remedy)
            self._message.say(problem_text(problem), "")
        self._lay_out(is_readable=error is None)
        if error is not None or query.answer is None:
            return
        checked = self._context.check.answer
        findings = checked.findings if checked is not None else ()
        if query.answer is not self.images or findings is not self._findings:
            self._take(query.answer, findings)
        self._say_count()

    def _lay_out(self, *, is_readable: bool) -> None:
        """Show the images or what is wrong; a mask takes the place of all about the grid."""
        px, is_mask = self._context.widgets.px, is_readable and self.painting.is_shown
        shown = self._page.pack_slaves()
        top, bottom = px(21), px(20)
        on_top = {"before": shown[0]} if shown else {}
        above = {"before": self._body} if self._body.winfo_manager() else {}
        head = {"fill": "x", "pady": (top, px(12)), **on_top}
        bar = {"fill": "x", "pady": (0, px(10)), **above}
        show(self._head, not is_mask, **head, **self._place)
        show(self._message, not is_readable, anchor="w", **self._place)
        show(self.filter_bar.outer, is_readable and not is_mask, **bar, **self._place)
        show(self._body, is_readable, fill="both", expand=True, **self._place)
        if is_readable:
            self._body.pack_configure(pady=(top if is_mask else 0, bottom))

    def _refresh_if_shown(self) -> None:
        # Few images are read before the page is on the screen.
        if self.outer.winfo_manager():
            self.refresh()

    def open(self, *_: int) -> None:
        """Read the images again."""
        self.query.start()

    def look_again(self) -> None:
        """Read the images again if some came or went."""
        config = self._context.draft.valid_config()
        if config is not None and not self.query.is_working and self.query.is_requested:
            self._watch.compare(config, self.query.start)

    def take_focus(self) -> None:
        """Begin in the grid; other windows may have saved something."""
        if not self.painting.take_focus():
            self.thumbnails.grid.take_focus()
        self.writing.refresh()

    def leave(self) -> bool:
        """Leave the mask, then give up marks, then the tag that is filtered by."""
        if self.painting.leave():
            return True
        if self.thumbnails.clear_marks():
            return True
        if self.filter_bar.tag:
            self.filter_bar.set_tag("")
            return True
        return False

    def commit(self) -> None:
        """Save what was typed, before the page or the window is left."""
        self.panels.caption.save()
        self.painting.save()
        shown, tab = self.thumbnails, self.panels.tab
        left = Shown(
            shown.images, shown.shown, shown.current, shown.marks, tab, self.painting.is_shown
        )
        self._context.widgets.kept.keep(self.name, left)

    def _make_head(self) -> dict[str, Button]:
        context, widgets, px = self._context, self._context.widgets, self._context.widgets.px
        self._head = head = widgets.frame(self._page, ground="window")
        self._tools = line = widgets.frame(head, ground="window")
        line.pack(side="right", anchor="s")
        self._heading, _, _ = widgets.heading(head, "Images", _LEAD)
        self._heading.pack(side="left")
        widgets.name(self._heading, "images heading")
        made = {}
        actions: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("undo saving", "Undo saving", self.writing.undo),
            ("redo saving", "Redo", self.writing.redo),
            ("check all images", "Check images", context.act.check_images),
            ("reread images", "Refresh", self._reread),
        )
        if any(page.name == _MODELS for page in context.pages):
            to_models = partial(context.act.show_page, _MODELS)
            actions = (("caption by model", "Use a model…", to_models), *actions)
        for name, label, action in actions:
            made[name] = widgets.button(line, label, action, name=name, ground="window")
            made[name].widget.pack(side="left", padx=(px(6) if len(made) > 1 else 0, 0))
        return made

    def _arrange(self, width: int) -> None:
        """Put the buttons below the title, and the panels below the grid, where it is narrow."""
        is_wide, px = self._sides.arrange(width), self._context.widgets.px
        needed = self._heading.winfo_reqwidth() + self._tools.winfo_reqwidth() + px(2 * 28 + 6)
        if is_wide and needed <= width:
            self._tools.pack(side="right", anchor="se", pady=0)
        else:
            self._tools.pack(side="bottom", anchor="w", pady=(px(8), 0))

    def _take(self, images: ImageList, findings: Sequence[Finding]) -> None:
        """Show another list; the selected image stays if it is in it."""
        is_other = images is not self.images
        self.images, self._findings = images, findings
        if is_other:
            self._context.widgets.kept.keep(self.name, Shown())  # what was kept holds the last list
            self._bucket_counts = bucket_counts(images)
        self.filter_bar.offer(choices(findings), images, self._bucket_counts)
        before = self.thumbnails
        if is_other and not images.is_complete and images.rows.paths == before.images.rows.paths:
            self._asked = None  # what is being filtered is no list of these images
            self._show(before.shown, None)  # until captions are known, which the filter may ask for
        elif is_other:
            self._filter()

    def _filter(self) -> None:
        """Find the images to show, in a thread; the newest question counts."""
        images, wanted, findings = self.images, self.filter_bar.wanted, self._findings or ()
        # In another list the selected image may have another place.
        keep = None if images is self.thumbnails.images else self._selected
        self._is_filtered_early = bool(self._stale)
        asked = self._asked = (images, wanted, keep)

        def find() -> tuple[Sequence[int], int | None]:
            kept = None if keep is None else images.rows.index_of(keep)
            return matching(images, wanted, findings), kept

        def found(answer: tuple[Sequence[int], int | None]) -> None:
            if asked is not self._asked:
                return
            if keep is None or keep == self._selected:
                self._show(*answer)
            else:  # another one was selected meanwhile
                self._filter()

        self._context.widgets.jobs.run(find, found)

    def _show(self, indices: Sequence[int], kept: int | None) -> None:
        current = self.thumbnails.current if kept is None else kept
        self.thumbnails.show(self.images, indices, current)
        self.panels.caption.show(self.images, self.thumbnails.row)
        if self.images.is_complete:
            self.painting.reload()  # whose image may only have been listed before
        self.panels.count_tags()
        self._say_count()
        self._enable()

    @property
    def _selected(self) -> Path | None:
        row = self.thumbnails.row
        return row.path if row is not None else None

    def _say_count(self) -> None:
        shown, total = len(self.thumbnails.shown), len(self.images.rows)
        self.filter_bar.say_count(shown, total, self.query)

    def _chosen(self, index: int) -> None:
        images = self.thumbnails.images  # not yet those that are being filtered
        self.panels.caption.show(images, images.rows[index])
        self._enable()

    def _edit(self) -> None:
        self.panels.edit()

    def _open_mask(self) -> None:
        self._paint()
        self.painting.take_focus()

    def _paint(self) -> None:
        """Show the mask of the selected image in place of the grid."""
        if self.thumbnails.row is not None:
            self.painting.show()
            self._lay_out(is_readable=True)

    def _enable(self) -> None:
        steps, buttons = self.writing.steps, self._buttons
        buttons["undo saving"].enable("" if steps.undo else "Nothing was saved yet.")
        buttons["undo saving"].describe(f"Takes back: {steps.undo.about}" if steps.undo else "")
        buttons["redo saving"].enable("" if steps.redo else "Nothing was undone.")
        self.panels.enable()

    def _reread_rows(self, paths: list[Path]) -> None:
        """Read those images anew whose captions or masks may have changed.

        One reading at a time, of all that is stale: the later of two could end first.
        """
        self._stale.update(paths)
        images, stale = self.images, list(self._stale)

        def read() -> tuple[ImageList, dict[int, ImageRow]]:
            self._watch.note_own(stale)
            return images, images.updated(stale)

        self._rereads.ask(read)

    def _update(self, found: tuple[ImageList, dict[int, ImageRow]]) -> None:
        """Take rows that were read anew."""
        images, rows = found
        self._stale.clear()
        images.rows.take(rows)
        if images is not self.images:
            return
        if self._is_filtered_early:
            self._filter()
        self.thumbnails.grid.draw_soon()
        caption = self.panels.caption
        if self.thumbnails.current in rows and not caption.is_changed:
            caption.show(images, self.thumbnails.row)
            caption.reload()
        if self.painting.index in rows:
            self.painting.reload()
        self.panels.count_tags()

    def _reread(self) -> None:
        self.commit()
        self.writing.settle()  # it is about to be read
        self._context.images.clear()
        self.thumbnails.grid.drawing.forget()
        self.query.start()
