"""What best of n has drawn in each round, kept in files so that a resumed run learns the same.

RUN/rewards/round-NNNNNN.safetensors, complete or not at all, each written before it is learnt from.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from modules.interfaces import REWARD, REWARD_PREFIX
from onetrainer.errors import UserError
from onetrainer.run.run_folder import cannot_write, write_atomic

LATENTS, IMAGES = "latents", "round-*.safetensors"
_STEP, _PROMPTS = "step", "prompts"


@dataclass(frozen=True)
class Round:
    """The pictures that were drawn at one time, and those of them that are learnt.

    step: before which they were drawn, from 0. prompts: each once or more often, in their order.
    latents: the best of each prompt, side by side and the best first, (P * kept, 4, h, w), float32,
    on the CPU. scores: of every picture that was drawn, (P, n), float32, on the CPU, by the names
    that they have in `Loss.scores`.
    """

    step: int
    prompts: tuple[str, ...]
    latents: Tensor
    scores: dict[str, Tensor]

    @property
    def kept(self) -> int:
        """How many pictures of each prompt are learnt."""
        return len(self.latents) // len(self.prompts)


class Rounds:
    """The rounds of a run.

    folder: made when the first is added. until: the steps that have been made; rounds of later ones
    are deleted, since they are drawn again. Raises UserError where a file cannot be read.
    """

    def __init__(self, folder: Path, *, until: int) -> None:
        self._folder = folder
        for part in folder.glob(f"{IMAGES}.part"):
            part.unlink()
        for path in folder.glob(IMAGES):
            if _read(path).step >= until:
                path.unlink()

    def get(self, number: int) -> Round | None:
        """A round of the run; None if it has yet to be drawn."""
        path = self._path(number)
        return _read(path) if path.is_file() else None

    def add(self, number: int, made: Round) -> None:
        """Keeps a round. Raises UserError if it cannot be written."""
        path = self._path(number)
        told = {_STEP: str(made.step), _PROMPTS: json.dumps(made.prompts)}
        tensors = {name: tensor.contiguous() for name, tensor in made.scores.items()}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, save({**tensors, LATENTS: made.latents.contiguous()}, told))
        except OSError as error:
            raise cannot_write(path, error) from error

    def unlike(self, number: int) -> UserError:
        """The message for a round that was drawn with other settings."""
        return UserError(
            f"{self._path(number)}: was drawn from other prompts, or in another size or number",
            "Expected the pictures that this run's config asks for",
            "Delete it, and they are drawn anew.",
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"round-{number:06d}.safetensors"


def _read(path: Path) -> Round:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # no dict
            told = file.metadata() or {}
        scores = {name: each for name, each in tensors.items() if _is_score(name)}
        prompts = tuple(map(str, json.loads(told[_PROMPTS])))
        return Round(int(told[_STEP]), prompts, tensors[LATENTS], scores)
    except (OSError, SafetensorError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{path}: cannot be read as the pictures of a round",
            "Expected a file of this version of the program",
            "Delete it, and they are drawn anew.",
        ) from error


def _is_score(name: str) -> bool:
    return name == REWARD or name.startswith(REWARD_PREFIX)
