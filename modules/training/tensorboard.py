"""A run's events in TensorBoard's files, beside its own: RUN/tensorboard.

The same events are drawn in the window; this is for comparing many runs, and for machines without
a screen: `tensorboard --logdir runs`.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from onetrainer.checks.packages import missing_board
from onetrainer.config.run.output import BOARD_PACKAGE
from onetrainer.errors import UserError
from onetrainer.run.events import Evaluated, Event, Progress, Rewarded, Sample, Validated
from onetrainer.run.run_folder import cannot_write

FOLDER = "tensorboard"
_THUMBNAIL = 256  # px: of a held-out picture; a look has many
_PROMPT = 60  # characters of a prompt in a picture's name
_FLUSH_SECONDS = 10
_BYTES_PER_GIB = 1 << 30


class Writer(Protocol):
    """What is used of torch's SummaryWriter."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> None:
        """A point of a curve."""

    def add_image(self, tag: str, pixels: NDArray[np.uint8], step: int, /) -> None:
        """A picture, (3, height, width)."""

    def add_text(self, tag: str, text: str, step: int, /) -> None:
        """Words, in Markdown."""

    def close(self) -> None:
        """Writes what is left."""


class Board:
    """Writes a run's events as curves and pictures. folder: the run's."""

    def __init__(self, writer: Writer, folder: Path) -> None:
        self._writer = writer
        self._folder = folder

    def take(self, event: Event) -> None:
        """Writes what an event tells, if that is anything to draw.

        Raises UserError if it cannot be written.
        """
        try:
            self._draw(event)
        except OSError as error:
            raise cannot_write(self._folder / FOLDER, error) from error

    def close(self) -> None:
        """Writes what is left. Raises UserError if it cannot be written."""
        try:
            self._writer.close()
        except OSError as error:
            raise cannot_write(self._folder / FOLDER, error) from error

    def _draw(self, event: Event) -> None:
        match event:
            case Progress():
                self._draw_progress(event)
            case Validated():
                which = "loss" if event.weights == "shown" else "loss of the last weights"
                self._point(f"validation/{which}", event.loss, event.step)
            case Rewarded():
                self._draw_rewards(event)
            case Evaluated():
                self._draw_look(event)
            case Sample():
                tag = _numbered("samples", event.prompt_index, event.prompt)
                self._image(tag, [event.path], event.step)
            case _:
                pass

    def _draw_progress(self, event: Progress) -> None:
        points = {"loss": event.loss, "learning rate": event.lr}
        if event.steps_per_second:
            points["steps per second"] = event.steps_per_second
        if event.memory_bytes:
            points["memory in GiB"] = event.memory_bytes / _BYTES_PER_GIB
        for name, value in points.items():
            self._point(f"training/{name}", value, event.step)

    def _draw_rewards(self, event: Rewarded) -> None:
        points = {"all": event.reward, "spread of all": event.spread}
        if event.last_steps:
            points["steps with a gradient"] = event.last_steps
        if event.anchor is not None:
            points["distance at the anchor"] = event.anchor
        for name, told in event.by_name.items():
            points |= {name: told["mean"], f"spread of {name}": told["spread"]}
        for name, value in points.items():
            self._point(f"reward/{name}", value, event.step)

    def _draw_look(self, event: Evaluated) -> None:
        self._point("held-out/all", event.reward, event.step)
        for name, told in event.rewards.items():
            if told["mean"] is not None:
                self._point(f"held-out/{name}", told["mean"], event.step)
        for name, value in event.drift.items():
            self._point(f"drift/{name}", value, event.step)
        self._writer.add_text("guard", event.words, event.step)
        paths: dict[str, list[str]] = {}
        for one in event.images:
            paths.setdefault(str(one["prompt"]), []).append(str(one["path"]))
        for number, (prompt, own) in enumerate(paths.items()):
            tag = _numbered("held-out pictures", number, prompt)
            self._image(tag, own, event.step, height=_THUMBNAIL)

    def _point(self, tag: str, value: float, step: int) -> None:
        self._writer.add_scalar(tag, value, step)

    def _image(self, tag: str, paths: Sequence[str], step: int, *, height: int = 0) -> None:
        """Pictures of one size side by side. height: at most so high, in pixels; 0 for as high as
        they are.
        """
        try:
            parts = [_pixels(self._folder / path, height) for path in paths]
        except OSError:  # deleted meanwhile: no reason to end a run
            return
        self._writer.add_image(tag, np.concatenate(parts, axis=2), step)


def open_board(folder: Path, *, first_step: int) -> Board:
    """The board of a run. folder: the run's. first_step: it continues after so many steps.

    What was drawn of later steps is hidden, since those steps are made again. Raises UserError if
    the package is missing or nothing can be written.
    """
    if importlib.util.find_spec(BOARD_PACKAGE) is None:
        problem = missing_board()
        raise UserError(problem.what, problem.expected, problem.remedy)
    from torch.utils.tensorboard import SummaryWriter  # takes seconds, and is seldom wanted

    # Everything from this step on is hidden.
    purged = first_step + 1 if first_step else 0
    try:
        writer: Writer = SummaryWriter(
            str(folder / FOLDER), purge_step=purged, flush_secs=_FLUSH_SECONDS
        )
    except OSError as error:
        raise cannot_write(folder / FOLDER, error) from error
    return Board(writer, folder)


def _pixels(path: Path, height: int) -> NDArray[np.uint8]:
    """A picture's pixels, (3, height, width)."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if height and image.height > height:
        width = max(1, round(image.width * height / image.height))
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(image).transpose(2, 0, 1)


def _numbered(tag: str, number: int, prompt: str) -> str:
    return f"{tag}/{number + 1:02d} {prompt[:_PROMPT]}".strip()
