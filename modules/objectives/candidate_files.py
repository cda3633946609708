"""Files with the candidates of best of n, so that a resumed run trains on the same images.

RUN/rewards/round-NNNNNN.safetensors, written atomically before training on them.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from modules.interfaces import REWARD, REWARD_PREFIX
from onetrainer.errors import UserError
from onetrainer.files.atomic import remove_leftovers, write_atomic
from onetrainer.files.own_json import parse_json, typed
from onetrainer.run.run_folder import cannot_write

LATENTS, IMAGES = "latents", "round-*.safetensors"
_STEP, _PROMPTS = "step", "prompts"


@dataclass(frozen=True)
class Round:
    """The candidates of one round: the latents of the selected ones, and the scores of all.

    step: before which they were generated, from 0. prompts: in order, possibly repeated.
    latents: the best of each prompt, prompt by prompt and the best first, (P * kept, 4, h, w),
    float32, on the CPU. scores: of every candidate, (P, n), float32, on the CPU, by their names in
    `Loss.scores`.
    """

    step: int
    prompts: tuple[str, ...]
    latents: Tensor
    scores: dict[str, Tensor]

    @property
    def kept(self) -> int:
        """Number of selected images per prompt."""
        return len(self.latents) // len(self.prompts)


class RoundFiles:
    """The stored rounds of a run.

    Args:
        folder: Created when the first round is added.
        completed_steps: Rounds that start later are deleted, since they are generated again.

    Raises:
        UserError: A file cannot be read.
    """

    def __init__(self, folder: Path, *, completed_steps: int) -> None:
        self._folder = folder
        remove_leftovers(folder)
        for path in folder.glob(IMAGES):
            if _read(path).step >= completed_steps:
                path.unlink()

    def get(self, number: int) -> Round | None:
        """Read a round; None if it is yet to be generated."""
        path = self._path(number)
        return _read(path) if path.is_file() else None

    def add(self, number: int, current: Round) -> None:
        """Store a round. Raises UserError if it cannot be written."""
        path = self._path(number)
        metadata = {_STEP: str(current.step), _PROMPTS: json.dumps(current.prompts)}
        tensors = {name: tensor.contiguous() for name, tensor in current.scores.items()}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, save({**tensors, LATENTS: current.latents.contiguous()}, metadata))
        except OSError as error:
            raise cannot_write(path, error) from error

    def mismatch_error(self, number: int) -> UserError:
        """Return the error for a round that was generated with other settings."""
        return UserError(
            f"{self._path(number)}: generated with other prompts, another size or another count",
            "Expected the images that this run's config asks for",
            "Delete the file to generate them again.",
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"round-{number:06d}.safetensors"


def _read(path: Path) -> Round:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # no dict
            metadata = file.metadata() or {}
        scores = {
            name: each
            for name, each in tensors.items()
            if name == REWARD or name.startswith(REWARD_PREFIX)
        }
        prompts = typed(parse_json(metadata[_PROMPTS]), tuple[str, ...])
        return Round(int(metadata[_STEP]), prompts, tensors[LATENTS], scores)
    except (OSError, SafetensorError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{path}: cannot be read as the images of a round",
            "Expected a file of this version of the program",
            "Delete the file to generate them again.",
        ) from error
