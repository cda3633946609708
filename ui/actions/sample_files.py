"""What a person does with samples: keep a step, copy an image, save a grid of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.run.events import Sample
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.run.starred import star
from onetrainer.run.steps import step_files
from ui.context import Context, Offer
from ui.dialogs.dialogs import report_failure, show_error
from ui.progress.sample_grid import MOST_STEPS, GridPlan, grid_plan, save_grid
from ui.progress.samples import SampleBook
from ui.widgets.clipboard import copy_png


@dataclass
class SampleFiles:
    """Actions of the page of samples. changed: Called when a grid is begun and written."""

    context: Context
    changed: Callable[[], None]
    is_saving: bool = False

    def star(self, folder: RunFolder, step: int, *, is_starred: bool) -> None:
        """Star a step or take its star back, and say what that means for its file."""
        try:
            star(folder, step, is_starred=is_starred)
        except UserError as error:
            show_error(self.context, error)
            return
        kept, files = [number for number, _ in folder.complete_checkpoints()], step_files(folder)
        if not is_starred:
            text = f"Step {step:,} has no star any more. Its checkpoint is deleted in its turn."
        elif step in kept:
            text = f"Step {step:,} is starred: its checkpoint is kept for “Use this one”."
        elif step in files:
            text = f"Step {step:,} is starred: its file {files[step].name} is kept."
        else:
            nearest = min(kept, key=lambda other: abs(other - step), default=0)
            near = f"; the nearest is of step {nearest:,}" if nearest else ""
            text = (
                f"Step {step:,} is starred. No checkpoint of it is there, so its file cannot be "
                f"written{near}."
            )
        self.context.act.show_message(text)

    def save_grid(self, folder: RunFolder, book: SampleBook, prompts: Sequence[int]) -> None:
        """Write a grid of steps and prompts as an image, in a thread."""
        plan = grid_plan(book, prompts)
        palette = self.context.widgets.theme.palette
        self.is_saving = True
        self.changed()

        def work() -> Path:
            path = folder.next_exported("samples", ".png")
            try:
                save_grid(plan, folder.path, path, palette)
            except OSError as error:
                raise cannot_write(path, error) from error
            return path

        self.context.widgets.jobs.run(work, partial(self._saved, plan), self._failed)

    def _saved(self, plan: GridPlan, path: Path) -> None:
        self.is_saving = False
        self.changed()
        left_out = ""
        if plan.left_out:
            left_out = f" ({MOST_STEPS} of {MOST_STEPS + plan.left_out} steps, evenly)"
        show = partial(self.context.act.open_path, path)
        self.context.act.show_message(
            f"Written: {path}{left_out}",
            Offer("Open", "open written", show, path.exists, lasts=True),
        )

    def _failed(self, error: Exception) -> None:
        self.is_saving = False
        self.changed()
        report_failure(self.context, error)


def copy_image(context: Context, path: Path) -> None:
    """Copy an image, or its path where the system takes no image, and say which."""

    def say(is_image: bool) -> None:
        what = "the image" if is_image else "the image's path"
        context.act.show_message(f"Copied {what}: {path}")

    copy_png(context.root, context.widgets.jobs, path, say)


def sample_path(folder: RunFolder, sample: Sample) -> Path:
    """Return the path of a sample's image."""
    return folder.path / sample.path
