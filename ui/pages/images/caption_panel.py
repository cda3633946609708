"""One image with the crop that is trained, and its captions to edit."""

import tkinter as tk
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from onetrainer.captions.caption_file import CaptionError, caption_lines
from onetrainer.captions.caption_text import (
    CaptionText,
    caption_change,
    caption_text,
    read_caption_text,
)
from onetrainer.captions.token_count import CHUNK, chunks, token_counter
from onetrainer.dataset.caption_sampling import plain_caption
from onetrainer.dataset.transforms import image_transform
from onetrainer.edits.saving import Change
from onetrainer.families.registry import family_spec
from onetrainer.files.lines import split_lines
from ui.background.dataset_preview import format_bucket, transform_summary
from ui.background.image_cache import load_fitting
from ui.background.preview_images import crop_overview
from ui.context import Context
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow
from ui.messages.problems import capitalized
from ui.pages.images.writing import Writing
from ui.widgets.drawing import Drawing
from ui.widgets.placing import wrap_within

_VIEW_HEIGHT = 60
_LINES = 5
_COUNT_AFTER_MS = 150
_HINT = "Each line is a caption; one of them is used each time."


class CaptionPanel:
    """View of an image and text field of its captions; place `outer`."""

    def __init__(self, context: Context, parent: tk.Misc, writing: Writing) -> None:
        self._context, self._writing = context, writing
        self._images = ImageList()
        self.row: ImageRow | None = None
        self._text: CaptionText | None = None
        self._count: Callable[[str], int] | None = None
        self._timer = ""
        widgets, px = context.widgets, context.widgets.px
        self.outer = widgets.frame(parent)
        self._view = Drawing(widgets, self.outer, self._draw, height=px(_VIEW_HEIGHT))
        self._name = widgets.label(self.outer, style="Bold")
        self._about = widgets.label(self.outer, style="SmallDim", wrap=300)
        self.box = widgets.text_box(self.outer, width=20, height=_LINES)
        self.box.configure(undo=True, autoseparators=True, maxundo=1000)
        widgets.name(self.box, "caption")
        self._tokens = widgets.label(self.outer, style="SmallDim", wrap=300)
        self._note = widgets.label(self.outer, style="SmallDim", wrap=300)
        # From below, so that in a low window the view gives way.
        line = widgets.frame(self.outer)
        line.pack(side="bottom", fill="x", pady=(px(6), 0))
        self._save = widgets.button(line, "Save", self.save, name="save caption")
        self._save.describe("Ctrl+S, Ctrl+Return; another image saves it too")
        self._versions = widgets.button(
            line, "Earlier versions…", self._choose_version, name="caption versions"
        )
        for button in (self._save, self._versions):
            button.widget.pack(side="left", padx=(0, px(6)))
        self._note.pack(side="bottom", anchor="w", fill="x")
        self._tokens.pack(side="bottom", anchor="w", fill="x", pady=(px(6), 0))
        self.box.pack(side="bottom", fill="both", expand=True)
        self._about.pack(side="bottom", anchor="w", fill="x", pady=(0, px(8)))
        self._name.pack(side="bottom", anchor="w", pady=(px(6), 0))
        self._view.canvas.pack(fill="x")
        self.outer.bind("<Configure>", self._share, add="+")
        wrap_within(self.outer, self._about, self._tokens, self._note)
        self.box.bind("<<Modified>>", lambda _: self._modified())
        self.box.bind("<Tab>", lambda _: _to_next(self.box))
        # Otherwise these keys would save the preset, and undo settings.
        for keys in ("<Control-Return>", "<Control-s>"):
            self.box.bind(keys, lambda _: self.save())
        self.box.bind("<Control-z>", lambda _: self._step(self.box.edit_undo))
        for keys in ("<Control-Z>", "<Control-y>"):
            self.box.bind(keys, lambda _: self._step(self.box.edit_redo))

    def _share(self, event: "tk.Event[tk.Misc]") -> None:
        """Give the view a square where there is room for it, and the caption what is left."""
        others = self.outer.winfo_reqheight() - self._view.canvas.winfo_reqheight()
        self._view.set_height(max(1, min(event.width, event.height - others)))

    @property
    def is_changed(self) -> bool:
        """Whether the text differs from its file."""
        change = self._change()
        return change is not None and change.before != change.after

    def show(self, images: ImageList, row: ImageRow | None) -> None:
        """Show an image; what was typed for another one is saved before."""
        is_other = row is None or self.row is None or row.path != self.row.path
        if is_other:
            self.save()
        self._images, self.row = images, row
        if is_other:
            self.reload()
            self.box.mark_set("insert", "end-1c")
        else:
            self._count_tokens()  # which a list knew nothing of before its images were read
        self._say()
        self._draw()

    def reload(self) -> None:
        """Read the caption of the image again; what was typed is dropped."""
        self._text = None
        locked = self._locked()
        lines: tuple[str, ...] = ()
        if self.row is not None and not locked:
            try:
                self._text = read_caption_text(self.row.caption_path, self._writing.read)
                lines = self._text.lines
            except CaptionError as error:
                locked = f"Its caption file is {error.reason}."
        if self.row is not None and self._text is None:
            lines = self.row.captions
        cursor = self.box.index("insert")
        self.box.configure(state="normal")
        self.box.delete("1.0", "end")
        self.box.insert("1.0", "\n".join(lines))
        self.box.mark_set("insert", cursor)  # a saved caption is read again while one types on
        self.box.edit_reset()
        self.box.edit_modified(False)
        self.box.configure(state="disabled" if self._text is None else "normal")
        self._note.say(locked or self._hint(), "SmallWarning" if locked else "SmallDim")
        self._count_tokens()

    def save(self) -> str:
        """Save the captions if they were changed."""
        change = self.pending()
        if change is not None:
            self._writing.save(change)
        return "break"

    def pending(self) -> Change | None:
        """Return the change that is not saved yet, and take it as saved; None if there is none."""
        change = self._change()
        if change is None or change.before == change.after:
            return None
        # What is typed next is a change of what is being saved now.
        self._text = caption_text(change.path, change.after)
        return change

    def _choose_version(self) -> None:
        self.save()
        if self._text is not None:
            self._writing.choose_version(self._text.path)

    def _enable(self) -> None:
        locked = "" if self._text is not None else "This caption cannot be edited here."
        self._versions.enable(locked)
        self._save.enable(locked or ("" if self.is_changed else "Nothing was changed."))

    def _step(self, step: Callable[[], None]) -> str:
        with suppress(tk.TclError):  # there is nothing to undo
            step()
        return "break"

    def _change(self) -> Change | None:
        if self._text is None:
            return None
        return caption_change(self._text, split_lines(self.box.get("1.0", "end")))

    def _locked(self) -> str:
        if self.row is None:
            return ""
        return self._images.caption_locked(self.row)

    def _hint(self) -> str:
        if self.row is None:
            return ""
        joined = self._images.concept_of(self.row).captions.lines == "joined"
        return "All lines together are one caption." if joined else _HINT

    def _modified(self) -> None:
        if self.box.edit_modified():
            self.box.edit_modified(False)
            if self._timer:
                self.box.after_cancel(self._timer)
            self._timer = self.box.after(_COUNT_AFTER_MS, self._count_tokens)

    def _count_tokens(self) -> None:
        """Show the tokens of each caption as it is trained: with trigger words and template."""
        self._timer = ""
        self._enable()
        row = self.row
        if row is None or row.item is None:
            self._tokens.say("")
            return
        if self._count is None:
            self._context.widgets.jobs.run(token_counter, self._take_counter)
            self._tokens.say("Counting tokens …")
            return
        concept, captions = self._images.concept_of(row), caption_lines(self.box.get("1.0", "end"))
        captions = captions or ("",)
        if concept.captions.lines == "joined":
            captions = (" ".join(captions),)
        texts = [plain_caption(replace(row.item, captions=(each,)), concept) for each in captions]
        counts = [self._count(text) for text in texts]
        self._tokens.say(f"{self._encoders()}: {_counts_text(counts)}", _style(counts))

    def _take_counter(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._count_tokens()

    def _encoders(self) -> str:
        """Return the names of the text encoders, which all share the vocabulary of CLIP."""
        family = str(self._context.draft.value("model.family"))
        labels = [
            encoder.label
            for encoder in family_spec(family).encoders
            if encoder.component.has_text_level
        ]
        return capitalized(" and ".join(labels) or "text encoder")

    def _say(self) -> None:
        row = self.row
        self._name.say("" if row is None else row.name)
        if row is None or row.item is None:
            reason = "" if row is None else row.reason
            self._about.say(f"Not used: {reason}" if reason else "", "SmallDanger")
            return
        transform = image_transform(row.item, self._images.concept_of(row), 0)
        text, is_notable = transform_summary(row.item, transform)
        sizes = ", ".join(format_bucket(bucket) for bucket in dict.fromkeys(row.buckets))
        self._about.say(
            f"{text}  ·  trained at {sizes}", "SmallWarning" if is_notable else "SmallDim"
        )

    def _draw(self) -> None:
        """Draw the whole image with the crop of its first transform."""
        row, view = self.row, self._view
        view.begin()
        size = view.width, view.height
        if row is None or min(size) < 20:
            return
        images = self._context.images
        if row.item is None:
            key: tuple[object, ...] = ("whole", row.path, *size)
            image = images.get_or_make(key, partial(load_fitting, row.path, *size), self._draw)
        else:
            transform = image_transform(row.item, self._images.concept_of(row), 0)
            color = self._context.widgets.theme.palette["accent"]
            key = ("crop", row.path, transform.key(), *size, color)
            make = partial(crop_overview, row.item, transform, size, color)
            image = images.get_or_make(key, make, self._draw)
        if image is not None:
            view.forget()
            view.image(key, image, size[0] // 2, size[1] // 2, 0)


def _counts_text(counts: list[int]) -> str:
    """Return the numbers of tokens of captions, and how many chunks the longest takes."""
    longest = chunks(max(counts))
    text = ", ".join(f"{count:,}" for count in counts[:6]) + (" …" if len(counts) > 6 else "")
    if longest == 1:
        return f"{text} of {CHUNK} tokens"
    return f"{text} tokens, read in {longest} parts of {CHUNK}"


def _style(counts: list[int]) -> str:
    return "SmallWarning" if max(counts) > CHUNK else "SmallDim"


def _to_next(box: tk.Text) -> str:
    following = box.tk_focusNext()
    if following is not None:
        following.focus_set()
    return "break"
