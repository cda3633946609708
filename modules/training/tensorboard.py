"""TensorBoard logs of a run, in RUN/tensorboard.

The window shows the same events; this is for comparing runs and for machines without a screen:
`tensorboard --logdir runs`.
"""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from onetrainer.checks.packages import missing_board
from onetrainer.config.run.output import BOARD_PACKAGE
from onetrainer.errors import UserError
from onetrainer.run.events import Evaluated, Event, Measured, Progress, Rewarded, Sample, Validated
from onetrainer.run.run_folder import cannot_write

FOLDER = "tensorboard"
_THUMBNAIL = 256  # px, height of evaluation images
_PROMPT = 60  # characters of a prompt in an image's tag
_FLUSH_SECONDS = 10
_BYTES_PER_GIB = 1 << 30


class Writer(Protocol):
    """The methods of torch's SummaryWriter that are used here."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> None:
        """Add a point to a curve."""

    def add_image(self, tag: str, pixels: NDArray[np.uint8], step: int, /) -> None:
        """Add an image, (3, height, width)."""

    def add_text(self, tag: str, text: str, step: int, /) -> None:
        """Add text in Markdown."""

    def close(self) -> None:
        """Flush and close."""


class Board:
    """Writes a run's events as curves and images."""

    def __init__(self, writer: Writer, folder: Path) -> None:
        self._writer = writer
        self._folder = folder

    def take(self, event: Event) -> None:
        """Write an event, if it has anything to show.

        Raises:
            UserError: If it cannot be written.
        """
        with self._reported():
            self._write(event)

    def close(self) -> None:
        """Flush and close; the run has ended, so a failure is in the log only."""
        try:
            self._writer.close()
        except OSError as error:
            sys.stderr.write(f"{cannot_write(self._folder / FOLDER, error)}\n")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_write(self._folder / FOLDER, error) from error

    def _write(self, event: Event) -> None:
        match event:
            case Progress():
                self._write_progress(event)
            case Measured():
                self._write_measured(event)
            case Validated():
                which = "loss" if event.weights == "sampling" else "loss of the last weights"
                self._point(f"validation/{which}", event.loss, event.step)
            case Rewarded():
                self._write_rewards(event)
            case Evaluated():
                self._write_evaluation(event)
            case Sample():
                tag = _numbered("samples", event.prompt_index, event.prompt)
                self._image(tag, [event.path], event.step)

    def _write_progress(self, event: Progress) -> None:
        points = {"loss": event.loss, "learning rate": event.lr}
        if event.steps_per_second:
            points["steps per second"] = event.steps_per_second
        if event.gradient_norm is not None:
            points["gradient norm"] = event.gradient_norm
        if event.memory_bytes:
            points["memory in GiB"] = event.memory_bytes / _BYTES_PER_GIB
        for name, value in points.items():
            self._point(f"training/{name}", value, event.step)

    def _write_measured(self, event: Measured) -> None:
        points = {"host memory in GiB": event.host_bytes / _BYTES_PER_GIB}
        if event.device_bytes:
            points["held GPU memory in GiB"] = event.device_bytes / _BYTES_PER_GIB
        for name, rate in event.learning_rates.items():
            points[f"learning rate of {name}"] = rate
        for name, value in (
            ("GPU temperature", event.temperature),
            ("GPU power in W", event.power_watts),
        ):
            if value is not None:
                points[name] = value
        for name, value in points.items():
            self._point(f"training/{name}", value, event.step)

    def _write_rewards(self, event: Rewarded) -> None:
        points = {"all": event.reward, "spread of all": event.spread}
        if event.last_steps:
            points["steps with a gradient"] = event.last_steps
        if event.anchor is not None:
            points["distance at the anchor"] = event.anchor
        for name, stats in event.by_name.items():
            points |= {name: stats["mean"], f"spread of {name}": stats["spread"]}
        for name, value in points.items():
            self._point(f"reward/{name}", value, event.step)

    def _write_evaluation(self, event: Evaluated) -> None:
        self._point("evaluation/all", event.reward, event.step)
        for name, stats in event.rewards.items():
            if stats["mean"] is not None:
                self._point(f"evaluation/{name}", stats["mean"], event.step)
        for name, value in event.drift.items():
            self._point(f"drift/{name}", value, event.step)
        self._writer.add_text("guard", event.message, event.step)
        paths: dict[str, list[str]] = {}
        for image in event.images:
            paths.setdefault(str(image["prompt"]), []).append(str(image["path"]))
        for number, (prompt, image_paths) in enumerate(paths.items()):
            tag = _numbered("validation prompts", number, prompt)
            self._image(tag, image_paths, event.step, height=_THUMBNAIL)

    def _point(self, tag: str, value: float, step: int) -> None:
        self._writer.add_scalar(tag, value, step)

    def _image(self, tag: str, paths: Sequence[str], step: int, *, height: int = 0) -> None:
        """Write images of one size side by side.

        height: Maximum height in pixels; 0 keeps the images' own.
        """
        try:
            arrays = [_pixels(self._folder / path, height) for path in paths]
        except OSError:  # deleted in the meantime: no reason to end the run
            return
        self._writer.add_image(tag, np.concatenate(arrays, axis=2), step)


def open_board(folder: Path, *, first_step: int) -> Board:
    """Open the TensorBoard log of a run folder.

    first_step: Step the run continues from. Later steps of the log are hidden, because the run
    repeats them.

    Raises:
        UserError: If the package is missing or nothing can be written.
    """
    if importlib.util.find_spec(BOARD_PACKAGE) is None:
        problem = missing_board()
        raise UserError(problem.what, problem.expected, problem.remedy)
    from torch.utils.tensorboard import SummaryWriter  # takes seconds, and few runs use it

    purge_step = first_step + 1 if first_step else 0
    try:
        writer: Writer = SummaryWriter(
            str(folder / FOLDER), purge_step=purge_step, flush_secs=_FLUSH_SECONDS
        )
    except OSError as error:
        raise cannot_write(folder / FOLDER, error) from error
    return Board(writer, folder)


def _pixels(path: Path, height: int) -> NDArray[np.uint8]:
    """Return an image's pixels, (3, height, width)."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if height and image.height > height:
        width = max(1, round(image.width * height / image.height))
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(image).transpose(2, 0, 1)


def _numbered(tag: str, number: int, prompt: str) -> str:
    return f"{tag}/{number + 1:02d} {prompt[:_PROMPT]}".strip()
