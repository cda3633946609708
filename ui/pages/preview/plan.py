"""Tab that previews training: key figures, buckets, and each image as it will be trained."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from onetrainer.errors import Problem, UserError
from ui.background.dataset_preview import (
    BucketSummary,
    PreviewData,
    bucket_summary,
    format_bucket,
)
from ui.context import Context
from ui.messages.problems import problem_text
from ui.pages.preview.image import ImagePanel
from ui.pages.preview.overview_card import OverviewCard
from ui.widgets.grid import Box, Grid
from ui.widgets.placing import show, while_visible

_LEFT = 320
_GAP = 14
_LOW = 540
_THUMB, _CELL = 96, 104
_ROW = 30
_GLYPH = 18
_FIGURE_ROOM = 52
_SIZE_ROOM = 92
_SETTING, _MORE = "data.folder", "data.concepts"


class PlanTab:
    """Preview that is updated after each change of settings while it is visible."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self.query = context.preview.query
        self._shown: PreviewData | None = None
        self._bucket_index = 0
        self.outer: tk.Widget = widgets.frame(parent, ground="window")
        self.query.listen(while_visible(self.outer, self.refresh))
        self._message = _Message(context, self.outer, self._reload)
        self._body = widgets.frame(self.outer, ground="window")
        self._body.bind("<Configure>", self._resized)
        self._body.grid_columnconfigure(0, minsize=widgets.px(_LEFT))
        self._body.grid_columnconfigure(1, weight=1)
        self._body.grid_rowconfigure(0, weight=1)
        left = widgets.frame(self._body, ground="window")
        left.grid(row=0, column=0, sticky="nsew", padx=(0, widgets.px(_GAP)))
        self._overview = OverviewCard(context, left, self._reload)
        self._overview.outer.pack(fill="x", pady=(0, widgets.px(_GAP)))
        self._bucket_list = self._make_bucket_list(left)
        right = widgets.frame(self._body, ground="window")
        right.grid(row=0, column=1, sticky="nsew")
        above, self._thumbnails = self._make_thumbnails(right)
        self.image = ImagePanel(context, right)
        # Packed before the thumbnails, so that these shrink in a low window.
        self.image.outer.pack(side="bottom", fill="x", before=above)

    def refresh(self) -> None:
        """Show the preview, and request one if it is missing or out of date."""
        query = self.query
        blocked_reason = query.blocked_reason()
        if blocked_reason:
            self._show_message(UserError(blocked_reason))
            return
        data = self._context.preview.get()
        if data is not None:
            self._show(data)
            self._overview.refresh()
        elif query.failed is not None and query.is_requested:
            self._show_message(query.failed)
        elif self._shown is None or query.failed is not None:
            self._show_message(None)

    def _resized(self, event: "tk.Event[tk.Misc]") -> None:
        self._overview.set_low(is_low=event.height < self._context.widgets.px(_LOW))

    def _reload(self) -> None:
        self._context.images.clear()
        self.query.start()

    def _show_message(self, error: UserError | None) -> None:
        self._body.pack_forget()
        self._shown = None
        # What is hidden is drawn too, as when the colors change.
        self._bucket_list.show(0, -1)
        self._thumbnails.show(0, -1)
        self._message.show(error)

    @property
    def _buckets(self) -> tuple[BucketSummary, ...]:
        return self._shown.buckets if self._shown is not None else ()

    def _show(self, data: PreviewData) -> None:
        if data is self._shown:
            return
        before = self._buckets[self._bucket_index].bucket if self._buckets else None
        self._shown = data
        self._message.hide()
        self._body.pack(fill="both", expand=True)
        self._overview.show(data)
        sizes = [bucket.bucket for bucket in data.buckets]
        # Select the largest bucket if the selected one no longer exists.
        counts = [len(bucket.images) for bucket in data.buckets]
        self._bucket_index = sizes.index(before) if before in sizes else counts.index(max(counts))
        self._bucket_list.show(len(sizes), self._bucket_index)
        self._show_bucket(self._bucket_index)

    def _make_bucket_list(self, parent: tk.Misc) -> Grid:
        widgets = self._context.widgets
        outer, inner = widgets.card(parent)
        outer.pack(fill="both", expand=True)
        widgets.label(inner, "Buckets", style="Heading").pack(anchor="w", pady=(0, widgets.px(4)))
        sizes = Grid(
            widgets,
            inner,
            self._paint_bucket,
            self._show_bucket,
            name="preview buckets",
            height=_ROW,
        )
        sizes.outer.pack(fill="both", expand=True)
        return sizes

    def _make_thumbnails(self, parent: tk.Misc) -> tuple[tk.Widget, Grid]:
        widgets = self._context.widgets
        outer, inner = widgets.card(parent)
        outer.pack(fill="both", expand=True, pady=(0, widgets.px(_GAP)))
        self._title = widgets.label(inner, style="Heading")
        self._title.pack(anchor="w")
        self._bucket_summary = widgets.label(inner, style="SmallDim")
        self._bucket_summary.pack(anchor="w", pady=(0, widgets.px(6)))
        thumbs = Grid(
            widgets,
            inner,
            self._paint_thumb,
            self._show_image,
            name="preview thumbnails",
            height=_CELL,
            width=_CELL,
        )
        thumbs.fills_current = False
        thumbs.outer.pack(fill="both", expand=True)
        return outer, thumbs

    def _show_bucket(self, index: int) -> None:
        self._bucket_index = index
        bucket = self._buckets[index]
        self._title.say(format_bucket(bucket.bucket))
        self._bucket_summary.say(bucket_summary(bucket))
        self._thumbnails.drawing.forget()
        self._thumbnails.show(len(bucket.images), 0)
        self._thumbnails.to_top()
        self._show_image(0)

    def _show_image(self, index: int) -> None:
        if self._shown is not None:
            self.image.show(self._shown, self._buckets[self._bucket_index].images[index])

    def _paint_bucket(self, index: int, box: Box, is_current: bool) -> None:
        """Draw the shape and size of a bucket, a bar, and the number of images."""
        bucket, drawing = self._buckets[index], self._bucket_list.drawing
        px, middle = self._context.widgets.px, box.top + box.height // 2
        size = bucket.bucket.width, bucket.bucket.height
        wide, high = (max(2, length) for length in size_of(*size, px(_GLYPH)))
        left, top = box.left + px(16) - wide // 2, middle - high // 2
        drawing.box(left, top, left + wide, top + high, outline="dim")
        left = box.left + px(34)
        drawing.text(left, middle, format_bucket(bucket.bucket), anchor="w")
        most = max(len(each.images) for each in self._buckets)
        left, right = left + px(_SIZE_ROOM), box.right - px(_FIGURE_ROOM)
        end = left + max(px(2), round((right - left) * len(bucket.images) / most))
        drawing.box(left, middle - px(4), end, middle + px(4), "fill")
        drawing.text(box.right - px(8), middle, f"{len(bucket.images):,}", anchor="e")

    def _paint_thumb(self, index: int, box: Box, is_current: bool) -> None:
        from ui.background.preview_images import transformed_thumbnail

        if self._shown is None:
            return
        transformed = self._buckets[self._bucket_index].images[index]
        side = self._context.widgets.px(_THUMB)
        item, transform = self._shown.item(transformed), self._shown.transform(transformed)
        key, drawing = ("cut", item.path, transform.key(), side), self._thumbnails.drawing
        image = None
        if not drawing.has(key):
            make = partial(transformed_thumbnail, item, transform, side)
            image = self._context.images.get_or_make(key, make, self._thumbnails.draw_soon)
        x, y = box.left + box.width // 2, box.top + box.height // 2
        drawing.image(key, image, x, y, side)
        if is_current:
            size = size_of(transform.bucket.width, transform.bucket.height, side)
            left, top, right, bottom = (
                x - size[0] // 2,
                y - size[1] // 2,
                x + size[0] // 2,
                y + size[1] // 2,
            )
            width = self._context.widgets.px(3)
            drawing.box(left, top, right, bottom, outline="accent", width=width)


def size_of(width: int, height: int, side: int) -> tuple[int, int]:
    """Scale a size so that its longer side has a length."""
    longer = max(width, height)
    return round(side * width / longer), round(side * height / longer)


class _Message:
    """Message in place of the preview, while there is none."""

    def __init__(self, context: Context, parent: tk.Misc, reload: Callable[[], None]) -> None:
        widgets = context.widgets
        self.text = ""
        self._widgets = widgets
        self._draft = context.draft
        self._outer, inner = widgets.card(parent)
        self._label = widgets.label(inner, wrap=560)
        self._label.pack(anchor="w")
        choose = partial(context.act.jump, _SETTING)
        self._buttons = (
            widgets.button(
                inner, "Choose an image folder", choose, name="preview choose", kind="primary"
            ),
            widgets.button(inner, "Refresh", reload, name="preview again"),
        )

    def show(self, error: UserError | None) -> None:
        self.text = "Reading the images …"
        if error is not None:
            problem = Problem(_SETTING, error.what, error.expected, error.remedy)
            self.text = problem_text(problem)
        has_folder = any(bool(self._draft.value(path)) for path in (_SETTING, _MORE))
        for button, is_wanted in zip(self._buttons, (not has_folder, has_folder), strict=True):
            is_shown = error is not None and is_wanted
            show(button.widget, is_shown, anchor="w", pady=(self._widgets.px(12), 0))
        self._label.say(self.text)
        self._outer.pack(fill="x")

    def hide(self) -> None:
        self.text = ""
        self._outer.pack_forget()
