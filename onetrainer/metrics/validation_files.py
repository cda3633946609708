"""Measurements of a run's validation loss: RUN/validation/step-NNNNNN.json, one per validation.

Events have means only; these files have every loss, which a resumed run needs for paired
differences to earlier measurements.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from onetrainer.errors import UserError
from onetrainer.metrics.validation import Measurement, best_of
from onetrainer.run.run_folder import cannot_write, write_atomic

Weights = Literal["shown", "last"]
"""The weights that were measured: those that samples use, or those of the last step."""
Losses = Mapping[str, Sequence[float]]


class ValidationFiles:
    """The measurements of a run up to a step, and those added to them.

    folder: Created with the first measurement. grid: A digest of what is measured; measurements of
    another grid cannot be compared and are ignored. former_grid: The same digest as earlier
    versions of the program wrote it. since: So are those of earlier steps, when these images were
    not in the validation split. until: Files of later steps are deleted, since the run repeats
    these steps; None to delete all.

    Raises:
        UserError: If a file cannot be read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        grid: str,
        until: int | None,
        since: int = 0,
        former_grid: str = "",
    ) -> None:
        self.incomparable = 0
        """The number of ignored files."""
        self._folder = folder
        self._grid = grid
        self._former_grid = former_grid
        self._since = since
        self._histories: dict[Weights, list[Measurement]] = {"shown": [], "last": []}
        for partial in folder.glob("step-*.json.part"):
            partial.unlink()
        for step, path in _steps(folder):
            if until is None or step > until:
                path.unlink()
            else:
                self._read(step, path)

    def history(self, weights: Weights) -> list[Measurement]:
        """Return the measurements in the order of their steps."""
        return list(self._histories[weights])

    def has(self, step: int, weights: Sequence[Weights]) -> bool:
        """Return whether a step was measured with all of these weights."""
        return all(any(m.step == step for m in self._histories[name]) for name in weights)

    def add(self, step: int, losses: Mapping[Weights, Losses], *, noises: int) -> None:
        """Save the losses of a step by weights, replacing earlier ones. Raises UserError."""
        document = {"step": step, "grid": self._grid, "noises": noises, "losses": dict(losses)}
        path = self._folder / f"step-{step:06d}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(document).encode())
        except OSError as error:
            raise cannot_write(path, error) from error
        for weights, by_image in losses.items():
            others = [other for other in self._histories[weights] if other.step != step]
            self._histories[weights] = [*others, Measurement(step, dict(by_image), noises)]

    def best_step(self) -> int | None:
        """Return the step with the lowest loss of the "shown" weights; None before the first."""
        history = self._histories["shown"]
        return best_of(history).step if history else None

    def _read(self, step: int, path: Path) -> None:
        try:
            document = json.loads(path.read_text())
            is_comparable = document["grid"] in (self._grid, self._former_grid)
            if not is_comparable or step < self._since:
                self.incomparable += 1
                return
            for weights, history in self._histories.items():
                if losses := document["losses"].get(weights):
                    by_image = {name: [float(loss) for loss in row] for name, row in losses.items()}
                    history.append(Measurement(step, by_image, int(document["noises"])))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: not a valid file of validation losses",
                "Expected a file written by this version of the program",
                "Delete it to continue without this measurement.",
            ) from error


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a folder, sorted by step."""
    paths = []
    for path in folder.glob("step-*.json"):
        number = path.stem.removeprefix("step-")
        if number.isdecimal():
            paths.append((int(number), path))
    return sorted(paths)
