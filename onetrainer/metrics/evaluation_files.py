"""Evaluations of a run's validation prompts: RUN/rewards/step-NNNNNN.json, one per evaluation.

A folder of the same name holds the images. Events have means only; these files have every score,
which a resumed run needs for paired differences to earlier evaluations and for normalizing rewards.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.errors import UserError
from onetrainer.metrics.reward_guard import EvaluationResult, ScoredImage, reward_stats
from onetrainer.run.run_folder import cannot_write, write_atomic

_GRADIENT_SETTINGS = {"checkpoint", "merge", "guidance_gradient"}
"""Settings of the rollout that do not change the images."""


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


class EvaluationFiles:
    """The evaluations of a run up to a step, and those added to them.

    folder: Created with the first evaluation. grid: A digest of what is evaluated (see `grid_of`);
    evaluations of another grid cannot be compared and are ignored. until: Files and images of later
    steps are deleted, since the run repeats these steps; None to delete all.

    Raises:
        UserError: If a file cannot be read or deleted.
    """

    def __init__(self, folder: Path, *, grid: str, until: int | None) -> None:
        self.incomparable = 0
        """The number of ignored evaluations of another grid."""
        self._folder = folder
        self._grid = grid
        self._evaluations: list[EvaluationResult] = []
        for step, path in _steps(folder):
            if until is None or step > until or path.suffix == ".part":
                _delete(path)
            elif path.suffix == ".json":
                self._read(path)

    def history(self) -> list[EvaluationResult]:
        """Return the evaluations in the order of their steps."""
        return list(self._evaluations)

    def has(self, step: int) -> bool:
        """Return whether a step was evaluated."""
        return any(evaluation.step == step for evaluation in self._evaluations)

    def base(self) -> Mapping[str, tuple[float, float]] | None:
        """Return mean and deviation of each reward in the first evaluation; None before it."""
        return reward_stats(self._evaluations[0]) if self._evaluations else None

    def images(self, step: int) -> Path:
        """Return the folder for the images of a step, which may not exist."""
        return self._folder / _stem(step)

    def add(self, evaluation: EvaluationResult) -> None:
        """Save an evaluation, replacing that of the same step. Raises UserError if it cannot."""
        document = {
            "step": evaluation.step,
            "grid": self._grid,
            "drift": dict(evaluation.drift),
            "pictures": [
                {**vars(image), "rewards": dict(image.rewards)} for image in evaluation.images
            ],
        }
        path = self._folder / f"{_stem(evaluation.step)}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(document).encode())
        except OSError as error:
            raise cannot_write(path, error) from error
        others = [other for other in self._evaluations if other.step != evaluation.step]
        self._evaluations = sorted([*others, evaluation], key=lambda each: each.step)

    def _read(self, path: Path) -> None:
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["grid"] == self._grid:
                self._evaluations.append(_parse(document))
            else:
                self.incomparable += 1
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: not a valid file of rewards",
                "Expected a file written by this version of the program",
                "Delete it to continue without this evaluation.",
            ) from error


def _parse(document: Mapping[str, Any]) -> EvaluationResult:
    """Parse an evaluation. Raises ValueError, LookupError, TypeError or AttributeError."""
    images = tuple(
        ScoredImage(
            prompt=str(image["prompt"]),
            seed=int(image["seed"]),
            path=str(image["path"]),
            rewards={str(name): float(score) for name, score in image["rewards"].items()},
            total=float(image["total"]),
        )
        for image in document["pictures"]
    )
    if not images:
        raise ValueError("no images")
    drift = {str(name): float(value) for name, value in document["drift"].items()}
    return EvaluationResult(int(document["step"]), images, drift)


def _stem(step: int) -> str:
    return f"step-{step:06d}"


def _steps(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the step and path of each file and image folder, sorted by step."""
    paths = []
    for path in folder.glob("step-*"):
        number = path.name.removeprefix("step-").partition(".")[0]
        if number.isdecimal():
            paths.append((int(number), path))
    yield from sorted(paths)


def _delete(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise cannot_write(path, error) from error
