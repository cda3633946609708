"""First step: the folder of images, and what is found in it."""

import tkinter as tk
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.config.train import TrainConfig
from onetrainer.errors import ProblemsError, UserError
from onetrainer.messages.formatting import counted
from onetrainer.presets.find import expanded
from ui.background.apart import apart
from ui.background.background_query import CancelToken, QueryCancelledError
from ui.context import Context
from ui.pages.start.choices import LOOKING, Choices
from ui.pages.start.path_field import PathField
from ui.widgets.drawing import Drawing
from ui.widgets.placing import show

if TYPE_CHECKING:
    from onetrainer.guide.images import ImageFolder

_SIDE, _GAP, _THUMBNAILS = 104, 8, 6
_CAPTIONS = (
    "A caption says what an image shows, in a .txt file of the same name. Without captions, your "
    "own word stands for all that the images show."
)


class ImagesStep:
    """Choice of the image folder; every image is read and decoded in a thread."""

    def __init__(self, context: Context, parent: tk.Misc, choices: Choices) -> None:
        self._context = context
        self._choices = choices
        self._token: CancelToken[ImageFolder] = CancelToken(lambda *_: None)
        context.widgets.jobs.on_close.append(lambda: self._token.cancel())
        widgets, px = context.widgets, context.widgets.px
        self.outer: tk.Widget = widgets.frame(parent)
        lead = (
            "Choose the folder of the images to train on, or drop it here. They stay as they are."
        )
        widgets.label(self.outer, lead, wrap=640).pack(anchor="w")
        self.field = PathField(
            context, self.outer, {"folder": "Choose a folder…"}, self._named, name="start images"
        )
        self.entries = (self.field.entry,)
        self.field.outer.pack(fill="x", pady=(px(10), 0))
        self._found = widgets.label(self.outer, style="Bold", wrap=640)
        self._about = widgets.label(self.outer, style="SmallDim", wrap=640)
        self._warnings = widgets.label(self.outer, style="SmallWarning", wrap=640)
        for label, name in ((self._found, "found"), (self._warnings, "warnings")):
            widgets.name(label, f"start images {name}")
        self._drawing = Drawing(widgets, self.outer, self._draw, height=px(_SIDE))
        self._about.pack(anchor="w", pady=(px(8), 0))

    def refresh(self) -> None:
        """Show what is known about the folder."""
        images, px = self._choices.images, self._context.widgets.px
        if images is None:
            self._found.say("", "Bold")
            self._about.say(_CAPTIONS)
        elif images.problem:
            self._found.say(images.problem, "Danger")
            self._about.say("")
        else:
            self._found.say(_found_text(images), "Bold")
            self._about.say(_caption_text(images))
        show(self._found, images is not None, anchor="w", pady=(px(14), 0), before=self._about)
        warnings = images.warnings if images is not None else ()
        self._warnings.say("\n".join(warnings))
        show(self._warnings, bool(warnings), anchor="w", pady=(px(6), 0), after=self._about)
        has_images = images is not None and bool(images.first)
        show(self._drawing.canvas, has_images, fill="x", pady=(px(12), 0))
        self._draw()

    def commit(self) -> None:
        """Take what is being typed."""
        self.field.commit()

    @property
    def is_working(self) -> bool:
        """Whether the folder is still being listed."""
        images = self._choices.images
        is_known = images is not None and bool(images.images or images.problem)
        return bool(self.field.text) and (self.field.is_typed or not is_known)

    def blocked_reason(self) -> str:
        """Return why the next step cannot be shown yet."""
        return LOOKING if self.is_working else self._choices.images_reason()

    def take_focus(self) -> None:
        """Take the keyboard."""
        self.field.entry.focus_set()

    def pause(self) -> None:
        """End the look at the images, so that a run has the processor for itself."""
        self._token.cancel()

    def resume(self) -> None:
        """Go on with a look that was paused; what it has found of unchanged files is kept."""
        images = self._choices.images
        is_done = images is not None and images.is_checked
        if self.field.reported and self._token.is_cancelled() and not is_done:
            self._begin(_path(self.field.reported))

    def _named(self, text: str) -> None:
        """Look at the images of another folder; a look at an earlier one ends."""
        self._token.cancel()
        self._choices.images = None
        self._context.act.refresh()
        if text:
            self._begin(_path(text))

    def _begin(self, folder: Path) -> None:
        jobs = self._context.widgets.jobs

        def take(known: "ImageFolder") -> None:
            if not token.is_cancelled():
                self._choices.images = known
                self._context.act.refresh()

        def failed(error: Exception) -> None:
            if not isinstance(error, QueryCancelledError):
                raise error

        token: CancelToken[ImageFolder] = CancelToken(
            lambda *_: None, lambda known: jobs.post(partial(take, known))
        )
        self._token = token
        jobs.run(lambda: _look(folder, token), take, failed)

    def _draw(self) -> None:
        drawing, widgets = self._drawing, self._context.widgets
        drawing.begin()
        images = self._choices.images
        side, gap = widgets.px(_SIDE), widgets.px(_GAP)
        fitting = min(_THUMBNAILS, max(1, (drawing.width + gap) // (side + gap)))
        for index, path in enumerate(images.first[:fitting] if images else ()):
            image = self._context.images.get(path, side, side, self._draw)
            drawing.image((path, side), image, (side + gap) * index + side // 2, side // 2, side)


def _look(folder: Path, token: CancelToken["ImageFolder"]) -> "ImageFolder":
    """Look at the images of a folder, apart from the window if they are very many."""
    # Imported late to keep the start of the window fast.
    from onetrainer.guide.images import unusable
    from onetrainer.presets.presets import resolve

    # Whether there are many is counted in the subfolders, too, as these may be looked at.
    data = {"folder": str(folder), "include_subfolders": True}
    try:
        config = resolve({"data": data}, source="")
    except ProblemsError as error:  # a name that no config can hold, such as one that is no UTF-8
        return unusable(folder, error.problems[0].what)
    return apart(look)(config, token)


def look(config: TrainConfig, token: CancelToken["ImageFolder"]) -> "ImageFolder":
    """Look at the images of a config's folder, in this process."""
    # Imported late to keep the start of the window fast.
    from onetrainer.guide.images import look_at_images

    return look_at_images(Path(config.data.folder), token.answer, token.raise_if_cancelled)


def _path(text: str) -> Path:
    try:
        return Path(expanded(text)).absolute()
    except UserError:  # "~name" of an unknown user: reported as a folder that does not exist
        return Path(text)


def _found_text(images: "ImageFolder") -> str:
    text = counted(images.images, "image")
    if images.concept.recursive:
        text += " in its subfolders"
    if not images.is_complete:
        return f"{text}, looked at {images.looked_at:,} …"
    if not images.is_checked:
        return f"{text}, {images.decoded:,} of them checked so far …"
    return text


def _caption_text(images: "ImageFolder") -> str:
    if not images.is_complete:
        return ""
    if not images.captions:
        return f"None has a caption. {_CAPTIONS}"
    if images.captions == images.images:
        return "All of them have captions." if images.images > 1 else "It has a caption."
    without = images.images - images.captions
    return f"{images.captions:,} of them with a caption, {without:,} without."
