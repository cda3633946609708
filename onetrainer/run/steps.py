"""Steps of a run whose weights are there: in a checkpoint, or in a file for other programs."""

import re
from contextlib import suppress
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.files.inside import read_inside
from onetrainer.files.own_json import parse_object
from onetrainer.run.run_folder import RunFolder

_MOST_LISTED = 12


def step_files(folder: RunFolder) -> dict[int, Path]:
    """Return the files of a run's steps in its output folder, by step.

    They are named as a run, "Save now" and "Use this one" do: NAME-STEP, where the final file is
    NAME, which may end with digits itself. Those of embeddings have more behind the step.
    """
    of_step = re.compile(re.escape(_output_name(folder)) + r"-(\d{6,})\.safetensors")
    found = ((of_step.fullmatch(path.name), path) for path in folder.output.glob("*.safetensors"))
    return {int(match[1]): path for match, path in found if match}


def available_steps(folder: RunFolder) -> list[int]:
    """Return the steps whose weights can be used, in order."""
    kept = {step for step, _ in folder.complete_checkpoints()}
    return sorted(kept | step_files(folder).keys())


def require_step(folder: RunFolder, step: int | None) -> None:
    """Raise UserError unless the weights of a step are there; None is the newest one."""
    steps = available_steps(folder)
    if step in steps or (step is None and steps):
        return
    what = "nothing that it has trained yet" if step is None else f"no weights of step {step:,}"
    listed = ", ".join(f"{each:,}" for each in steps[-_MOST_LISTED:])
    raise UserError(
        f"{folder.name}: this run has {what}",
        f"Expected one of the steps {listed}" if steps else "",
        "Choose one of them. Checkpoints are kept of the newest steps (output.keep_checkpoints),"
        " and of starred ones."
        if steps
        else "Train it first.",
    )


def _output_name(folder: RunFolder) -> str:
    with suppress(OSError, ValueError, LookupError, TypeError):
        return str(parse_object(read_inside(folder.config))["output"]["name"])
    return ""
