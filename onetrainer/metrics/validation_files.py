"""The measurements of a run's held-out loss: RUN/validation/step-NNNNNN.json, one a validation.

Events tell means; these files hold every single loss, which paired differences to earlier
measurements are made of when a run is resumed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from onetrainer.errors import UserError
from onetrainer.metrics.validation import Measurement, best_of
from onetrainer.run.run_folder import cannot_write, write_atomic

Weights = Literal["shown", "last"]
"""What was measured: the weights that samples show, or beside them those of the last step."""
Losses = Mapping[str, Sequence[float]]


class ValidationFiles:
    """The measurements of a run up to a step, and those that are added to them.

    folder: made when the first is added. grid: tells what is measured from anything else;
    measurements of another grid cannot be compared, and count as if they were not there.
    since: as little do those of steps before it, after which these pictures were not held out.
    until: files of later steps are deleted, since those steps are made again; None deletes all.
    Raises UserError where a file cannot be read.
    """

    def __init__(self, folder: Path, *, grid: str, until: int | None, since: int = 0) -> None:
        self.others = 0
        """How many files of the run were left aside: they cannot be compared with what comes."""
        self._folder = folder
        self._grid = grid
        self._since = since
        self._histories: dict[Weights, list[Measurement]] = {"shown": [], "last": []}
        for part in folder.glob("step-*.json.part"):
            part.unlink()
        for step, path in _steps(folder):
            if until is None or step > until:
                path.unlink()
            else:
                self._take_up(step, path)

    def history(self, weights: Weights) -> list[Measurement]:
        """The measurements in the order of their steps."""
        return list(self._histories[weights])

    def has(self, step: int, weights: Sequence[Weights]) -> bool:
        """Whether a step is measured with all of these weights."""
        return all(any(one.step == step for one in self._histories[each]) for each in weights)

    def add(self, step: int, losses: Mapping[Weights, Losses], *, noises: int) -> None:
        """Keeps what was measured after a step, by weights; in place of what the step had.

        Raises UserError if it cannot be written.
        """
        document = {"step": step, "grid": self._grid, "noises": noises, "losses": dict(losses)}
        path = self._folder / f"step-{step:06d}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(document).encode())
        except OSError as error:
            raise cannot_write(path, error) from error
        for weights, measured in losses.items():
            kept = [one for one in self._histories[weights] if one.step != step]
            self._histories[weights] = [*kept, Measurement(step, dict(measured), noises)]

    def best_step(self) -> int | None:
        """The step with the lowest loss of what samples show; None if nothing is measured."""
        history = self._histories["shown"]
        return best_of(history).step if history else None

    def _take_up(self, step: int, path: Path) -> None:
        try:
            document = json.loads(path.read_text())
            if document["grid"] != self._grid or step < self._since:
                self.others += 1
                return
            for weights, history in self._histories.items():
                if losses := document["losses"].get(weights):
                    read = {name: [float(one) for one in row] for name, row in losses.items()}
                    history.append(Measurement(step, read, int(document["noises"])))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: cannot be read as the held-out losses of a step",
                "Expected a file of this version of the program",
                "Delete it to go on without what was measured then.",
            ) from error


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """The files of a folder by step."""
    found = []
    for path in folder.glob("step-*.json"):
        number = path.stem.removeprefix("step-")
        if number.isdecimal():
            found.append((int(number), path))
    return sorted(found)
