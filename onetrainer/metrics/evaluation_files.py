"""The looks of a run at its held-out prompts: RUN/rewards/step-NNNNNN.json, one a look.

Beside each file a folder of its name holds the look's pictures. Events tell means; these files hold
every single score, which paired differences to earlier looks are made of when a run is resumed, and
which rewards are normalized by.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.errors import UserError
from onetrainer.metrics.reward_guard import Look, Scored, stats_of
from onetrainer.run.run_folder import cannot_write, write_atomic

_OF_THE_GRADIENT = {"checkpoint", "merge", "guidance_gradient"}
"""Settings of the drawing that leave the pictures as they are."""


def grid_of(section: AlignProp, prompts: Sequence[str]) -> str:
    """What tells looks that can be compared from others.

    Of the prompts, the noise, and how pictures are drawn and scored. prompts: the held-out ones.
    """
    told = {
        "prompts": list(prompts),
        "seed": section.evaluation.seed,
        "seeds": section.evaluation.seeds,
        "drawing": section.rollout.model_dump(mode="json", exclude=_OF_THE_GRADIENT),
        "rewards": [one.model_dump(mode="json") for one in section.rewards],
    }
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


class RewardFiles:
    """The looks of a run up to a step, and those that are added to them.

    folder: made when the first is added. grid: tells looks from those that they cannot be compared
    with, which count as if they were not there (see `grid_of`). until: files and pictures of later
    steps are deleted, since those steps are made again; None deletes all.
    Raises UserError where a file cannot be read or deleted.
    """

    def __init__(self, folder: Path, *, grid: str, until: int | None) -> None:
        self.others = 0
        """How many looks of the run were left aside: they cannot be compared with what comes."""
        self._folder = folder
        self._grid = grid
        self._looks: list[Look] = []
        for step, path in _steps(folder):
            if until is None or step > until or path.suffix == ".part":
                _delete(path)
            elif path.suffix == ".json":
                self._take_up(path)

    def history(self) -> list[Look]:
        """The looks in the order of their steps."""
        return list(self._looks)

    def has(self, step: int) -> bool:
        """Whether a step was looked at."""
        return any(one.step == step for one in self._looks)

    def base(self) -> Mapping[str, tuple[float, float]] | None:
        """The mean and the spread of each reward in the first look; None before it."""
        return stats_of(self._looks[0]) if self._looks else None

    def images(self, step: int) -> Path:
        """Where the pictures of a step's look belong; not made here."""
        return self._folder / _stem(step)

    def add(self, look: Look) -> None:
        """Keeps a look, in place of what its step had. Raises UserError if it cannot be written."""
        document = {
            "step": look.step,
            "grid": self._grid,
            "drift": dict(look.drift),
            "pictures": [{**vars(one), "rewards": dict(one.rewards)} for one in look.images],
        }
        path = self._folder / f"{_stem(look.step)}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(document).encode())
        except OSError as error:
            raise cannot_write(path, error) from error
        kept = [one for one in self._looks if one.step != look.step]
        self._looks = sorted([*kept, look], key=lambda one: one.step)

    def _take_up(self, path: Path) -> None:
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["grid"] == self._grid:
                self._looks.append(_look(document))
            else:
                self.others += 1
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: cannot be read as the rewards of a step",
                "Expected a file of this version of the program",
                "Delete it to go on without what was seen then.",
            ) from error


def _look(document: Mapping[str, Any]) -> Look:
    """A look from its file. Raises one of ValueError, LookupError, TypeError, AttributeError."""
    images = tuple(
        Scored(
            prompt=str(one["prompt"]),
            seed=int(one["seed"]),
            path=str(one["path"]),
            rewards={str(name): float(score) for name, score in one["rewards"].items()},
            total=float(one["total"]),
        )
        for one in document["pictures"]
    )
    if not images:
        raise ValueError("no pictures")
    drift = {str(name): float(value) for name, value in document["drift"].items()}
    return Look(int(document["step"]), images, drift)


def _stem(step: int) -> str:
    return f"step-{step:06d}"


def _steps(folder: Path) -> Iterator[tuple[int, Path]]:
    """What a folder has of steps, files and folders of pictures, in their order."""
    found = []
    for path in folder.glob("step-*"):
        number = path.name.removeprefix("step-").partition(".")[0]
        if number.isdecimal():
            found.append((int(number), path))
    yield from sorted(found)


def _delete(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise cannot_write(path, error) from error
