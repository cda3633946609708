"""Writing the file of a sample's step, to be used in other programs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.jobs.job import Job
from onetrainer.run.events import Failed, Finished
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.steps import available_steps, step_files
from ui.context import Context, Offer
from ui.dialogs.dialogs import Choice, ask, report_failure
from ui.dialogs.trust_dialog import confirm_base_model

_EXPORT = "output.export_every"
_MOST_STEPS = 12


@dataclass
class StepFiles:
    """Writes the file of one step at a time. changed: Called when it begins and ends."""

    context: Context
    changed: Callable[[], None]
    writing: str = ""
    """What is being written: "step 40"; "" for nothing."""

    def use(self, folder: RunFolder, step: int) -> None:
        """Write the file of a step; where its weights are gone, say which are kept, and ask.

        Where only a file is left, it is used as it is.
        """
        if step not in (kept := available_steps(folder)):
            step = self._ask_other(folder, step, kept)
        has_checkpoint = step in [number for number, _ in folder.complete_checkpoints()]
        # Either may have gone while the question was open; of what is gone the job says so.
        file = step_files(folder).get(step)
        if file is not None and not has_checkpoint:
            self._say_written(file, "It is there already")
        elif step and self._may(folder, step):
            self.writing = f"step {step:,}"
            self.context.widgets.jobs.run(
                partial(_write, folder, step), self._written, self._failed
            )
            self.changed()

    def _may(self, folder: RunFolder, step: int) -> bool:
        """Ask for what writing it, of a run that may come from anybody, downloads."""
        try:
            return confirm_base_model(self.context, folder, step)
        except UserError as error:
            report_failure(self.context, error)
            return False

    def _ask_other(self, folder: RunFolder, step: int, kept: list[int]) -> int:
        """Return the nearest kept step if the user wants it; 0 otherwise."""
        nearest = min(kept, key=lambda other: (abs(other - step), -other), default=0)
        listed = ", ".join(f"{one:,}" for one in kept[-_MOST_STEPS:])
        has = f"“{folder.name}” keeps those of step {listed}." if kept else "No other is kept."
        choices = [Choice("keep", "Keep more"), Choice("", "Cancel")]
        if nearest:
            choices.insert(0, Choice("use", f"Use step {nearest:,}", "primary"))
        answer = ask(
            self.context,
            f"No weights of step {step:,} are kept",
            f"Its file is made of a checkpoint. {has} To have the file of each sample in the next "
            "run, set “Export every” to what samples have.",
            choices,
        )
        if answer == "keep":
            self.context.act.jump(_EXPORT)
        return nearest if answer == "use" else 0

    def _written(self, ending: Finished | Failed) -> None:
        self.writing = ""
        self.changed()
        if isinstance(ending, Failed):
            error = UserError(ending.what, ending.expected, ending.remedy)
            report_failure(self.context, error)
            return
        self._say_written(Path(ending.outputs[0]), "Written")

    def _say_written(self, path: Path, how: str) -> None:
        show = partial(self.context.act.open_path, path.parent)
        self.context.act.show_message(
            f"{how}: {path}", Offer("Open folder", "open written", show, path.exists, lasts=True)
        )

    def _failed(self, error: Exception) -> None:
        self.writing = ""
        self.changed()
        raise error


def _write(folder: RunFolder, step: int) -> Finished | Failed:
    """Run the job, and return how it ended."""
    request = ConvertRequest(source=str(folder.path), step=step)
    *_, ending = Job("convert", request).events()
    assert isinstance(ending, Finished | Failed), "nobody stops it"
    return ending
