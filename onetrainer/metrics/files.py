"""Measurements of a run: RUN/validation or RUN/rewards/step-NNNNNN.json, one per measured step.

Events have means only; these files have every loss or score, which a resumed run needs for paired
differences to earlier measurements and for normalizing rewards. A folder of the same name holds the
images of an evaluation.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.files.atomic import remove, remove_leftovers, write_atomic
from onetrainer.files.inside import read_inside
from onetrainer.files.names import is_inner_path
from onetrainer.files.own_json import parse_object
from onetrainer.metrics.bands import Measurement
from onetrainer.metrics.guard import EvaluationResult, ScoredImage
from onetrainer.metrics.validation import Weights
from onetrainer.run.run_folder import cannot_write

# Keys of the files, which other versions read: "shown", "last", "pictures", and "drawing" in the
# digest.
_KEYS_OF_WEIGHTS: Mapping[Weights, str] = {"sampling": "shown", "without_ema": "last"}
_GRADIENT_SETTINGS = {"checkpoint", "merge", "guidance_gradient"}
"""Settings of the rollout that do not change the images."""

LossesByWeights = Mapping[Weights, Measurement]
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Format(Generic[Measured]):
    """How measurements are stored.

    Attributes:
        parse: From the step and a file's JSON object. May raise ValueError, LookupError, TypeError
            or AttributeError.
        document: To its keys besides "step" and "grid".
    """

    content: str
    parse: Callable[[int, Mapping[str, Any]], Measured]
    document: Callable[[Measured], dict[str, object]]


class MeasurementFiles(Generic[Measured]):
    """The measurements of a run up to a step, and those added to them.

    folder: Created with the first measurement. grid: A digest of what is measured; measurements of
    another grid cannot be compared and are ignored. former_grid: The same digest as earlier
    versions of the program wrote it. since: Those of earlier steps are ignored, too. until: Files
    and images of later steps are deleted, since the run repeats these steps; None to delete all.

    Raises:
        UserError: If a file cannot be deleted.
    """

    def __init__(
        self,
        folder: Path,
        file_format: Format[Measured],
        *,
        grid: str,
        until: int | None,
        since: int = 0,
        former_grid: str = "",
    ) -> None:
        self.incomparable = 0
        """The number of ignored files."""
        self.damaged: list[str] = []
        """A warning about each file that cannot be read."""
        self.by_step: dict[int, Measured] = {}
        """The measurements in the order of their steps."""
        self._folder = folder
        self._format = file_format
        self._grid = grid
        remove_leftovers(folder)
        for path in sorted(folder.glob("step-*")):
            number = path.name.removeprefix("step-").partition(".")[0]
            if not number.isdecimal():
                continue
            if until is None or int(number) > until or path.suffix == ".part":
                _delete(path)
            elif path.suffix == ".json":
                self._read(int(number), path, {grid, former_grid}, since)

    def images(self, step: int) -> Path:
        """Return the folder for the images of a step, which may not exist."""
        return self._folder / f"step-{step:06d}"

    def add(self, step: int, measured: Measured) -> None:
        """Save a measurement, replacing that of the same step. Raises UserError if it cannot."""
        document = {"step": step, "grid": self._grid, **self._format.document(measured)}
        path = self.images(step).with_suffix(".json")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(document).encode())
        except OSError as error:
            raise cannot_write(path, error) from error
        self.by_step = dict(sorted({**self.by_step, step: measured}.items()))

    def _read(self, step: int, path: Path, grids: set[str], since: int) -> None:
        try:
            document = parse_object(read_inside(path), with_nan=True)
            if document["grid"] in grids and step >= since:
                self.by_step[step] = self._format.parse(step, document)
            else:
                self.incomparable += 1
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            self.damaged.append(
                f"{path}: not a valid file of {self._format.content}; the run goes on without"
                " this measurement"
            )


def _delete(path: Path) -> None:
    try:
        remove(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def _parse_losses(step: int, document: Mapping[str, Any]) -> LossesByWeights:
    return {
        weights: Measurement(
            step,
            {name: [float(loss) for loss in row] for name, row in losses.items()},
            int(document["noises"]),
        )
        for weights, key in _KEYS_OF_WEIGHTS.items()
        if (losses := document["losses"].get(key))
    }


def _inner(path: object) -> str:
    if not is_inner_path(path):
        raise ValueError(f"{path} is not in the folder of the run")
    return str(path)


def _losses_document(measured: LossesByWeights) -> dict[str, object]:
    return {
        "noises": next(iter(measured.values())).noises,
        "losses": {
            _KEYS_OF_WEIGHTS[weights]: dict(losses.values) for weights, losses in measured.items()
        },
    }


def _parse_scores(step: int, document: Mapping[str, Any]) -> EvaluationResult:
    images = tuple(
        ScoredImage(
            prompt=str(image["prompt"]),
            seed=int(image["seed"]),
            path=_inner(image["path"]),
            rewards={str(name): float(score) for name, score in image["rewards"].items()},
            total=float(image["total"]),
        )
        for image in document["pictures"]
    )
    if not images:
        raise ValueError("no images")
    drift = {str(name): float(value) for name, value in document["drift"].items()}
    return EvaluationResult(step, images, drift)


def _scores_document(evaluation: EvaluationResult) -> dict[str, object]:
    images = [{**vars(image), "rewards": dict(image.rewards)} for image in evaluation.images]
    return {"drift": dict(evaluation.drift), "pictures": images}


LOSSES = Format("validation losses", _parse_losses, _losses_document)
SCORES = Format("rewards", _parse_scores, _scores_document)


def grid_of(section: AlignProp, prompts: Sequence[str]) -> str:
    """Return a digest that is equal for comparable evaluations.

    It covers the prompts, the noise, and how images are generated and scored. prompts: The
    validation prompts.
    """
    content = {
        "prompts": list(prompts),
        "seed": section.evaluation.seed,
        "seeds": section.evaluation.seeds,
        "drawing": section.rollout.model_dump(mode="json", exclude=_GRADIENT_SETTINGS),
        "rewards": [reward.model_dump(mode="json") for reward in section.rewards],
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
