"""Panel of one image: the whole image with its crop, and the result of each repeat."""

import tkinter as tk
from functools import partial

from ui.background.dataset_preview import (
    PreviewData,
    Repeat,
    TransformedImage,
    caption_line,
    format_bucket,
    repeat_label,
    transform_summary,
)
from ui.context import Context
from ui.widgets.drawing import Drawing
from ui.widgets.grid import Box, Grid
from ui.widgets.placing import wrap_within

_WHOLE = (204, 196)
_SIDE = 108
_CELL = (138, 200)
_CAPTION = 56
_MAX_WORDS = 360


class ImagePanel:
    """Card of one image. The crop of the selected repeat is outlined on the whole image."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self._data: PreviewData | None = None
        self._transformed = TransformedImage(0, 0)
        self._repeats: tuple[Repeat, ...] = ()
        self._has_several_buckets = False
        self.outer, inner = widgets.card(parent)
        self._name = widgets.label(inner, style="Heading")
        self._name.pack(anchor="w")
        self._done = widgets.label(inner, style="SmallDim")
        self._done.pack(anchor="w")
        body = widgets.frame(inner)
        body.pack(fill="x", pady=(widgets.px(8), widgets.px(6)))
        width, height = (widgets.px(length) for length in _WHOLE)
        self._whole = Drawing(widgets, body, self._draw_whole, width=width, height=height)
        self._whole.canvas.pack(side="left", padx=(0, widgets.px(14)))
        self._cells = Grid(
            widgets,
            body,
            self._paint,
            self._select_repeat,
            name="preview repeats",
            width=_CELL[0],
            height=_CELL[1],
        )
        self._cells.fills_current = False
        self._cells.canvas.configure(height=widgets.px(_CELL[1]))
        self._cells.outer.pack(side="left", fill="both", expand=True)
        self._caption = widgets.label(inner, style="Small", wrap=640)
        self._caption.pack(anchor="w")
        wrap_within(inner, self._caption, margin=0)

    def show(self, data: PreviewData, transformed: TransformedImage) -> None:
        """Show an image, with the given repeat selected."""
        self._data, self._transformed = data, transformed
        self._repeats = data.repeats(transformed)
        numbers = [repeat.number for repeat in self._repeats]
        transforms = [
            data.transform(TransformedImage(transformed.item, number)) for number in numbers
        ]
        self._has_several_buckets = len({transform.bucket for transform in transforms}) > 1
        chosen = numbers.index(transformed.number) if transformed.number in numbers else 0
        self._cells.drawing.forget()
        self._cells.show(len(self._repeats), chosen)
        self._select_repeat(chosen)

    def _select_repeat(self, index: int) -> None:
        data, repeat = self._data, self._repeats[index]
        if data is None:
            return
        self._transformed = TransformedImage(self._transformed.item, repeat.number)
        item, transform = data.item(self._transformed), data.transform(self._transformed)
        name = item.name or item.path.name
        if len(data.preview.concepts) > 1:
            name = f"{data.concept(self._transformed).name}  ·  {name}"
        self._name.say(name)
        text, is_unusual = transform_summary(item, transform)
        self._done.say(text, "SmallWarning" if is_unusual else "SmallDim")
        caption = caption_line(repeat.caption)
        if len(caption) > _MAX_WORDS:
            caption = f"{caption[:_MAX_WORDS]}…"
        label = repeat_label(repeat, self._repeats)
        self._caption.say(f"{label}: {caption}" if data.has_captions else "")
        self._draw_whole()

    def _draw_whole(self) -> None:
        from ui.background.preview_images import crop_overview

        self._whole.begin()
        data, widgets = self._data, self._context.widgets
        if data is None:
            return
        item, transform = data.item(self._transformed), data.transform(self._transformed)
        width, height = (widgets.px(length) for length in _WHOLE)
        color = widgets.theme.palette["accent"]
        key = ("whole", item.path, transform.key(), width, height, color)
        make = partial(crop_overview, item, transform, (width, height), color)
        image = self._context.images.get_or_make(key, make, self._draw_whole)
        if image is not None:
            self._whole.forget()
            self._whole.image(key, image, width // 2, height // 2, 0)

    def _paint(self, index: int, box: Box, is_current: bool) -> None:
        """Draw the transformed image of a repeat and its caption."""
        from ui.background.preview_images import transformed_thumbnail

        data, px, repeat = self._data, self._context.widgets.px, self._repeats[index]
        if data is None:
            return
        drawing = self._cells.drawing
        transformed = TransformedImage(self._transformed.item, repeat.number)
        item, transform = data.item(transformed), data.transform(transformed)
        if is_current:
            drawing.box(box.left, box.top, box.right - px(4), box.bottom, "selected")
        x, side = box.left + (box.width - px(4)) // 2, px(_SIDE)
        key = ("cut", item.path, transform.key(), side)
        image = self._context.images.get_or_make(
            key, partial(transformed_thumbnail, item, transform, side), self._cells.draw_soon
        )
        drawing.image(key, image, x, box.top + px(6) + side // 2, side)
        label = repeat_label(repeat, self._repeats)
        if self._has_several_buckets:
            label = f"{label.partition(' ')[0]}  ·  {format_bucket(transform.bucket)}"
        caption = caption_line(repeat.caption) if data.has_captions else ""
        if len(caption) > _CAPTION:
            caption = f"{caption[: _CAPTION - 1]}…"
        left, top = box.left + px(6), box.top + px(12) + side
        for item_id in (
            drawing.text(left, top, label, "dim"),
            drawing.text(left, top + px(17), caption),
        ):
            drawing.canvas.itemconfigure(item_id, width=box.width - px(14))
