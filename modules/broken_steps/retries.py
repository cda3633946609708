"""How often a run went back to a checkpoint because of a broken step, and what that changes."""

import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from modules import seeds
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import is_inside, read_inside
from onetrainer.files.own_json import NotOurs, read_json_as
from onetrainer.run.events import BrokenStep
from onetrainer.run.run_folder import cannot_write


@dataclass(frozen=True)
class Retry:
    """One return of a run.

    Attributes:
        broken: Number of the broken step, from 1.
        since: Steps of the checkpoint that the run went back to; 0 for its start.
        lr_factor: What the learning rate is multiplied by from there on.
        event: The broken step's, which going back removes from the events; None in older records.
    """

    broken: int
    since: int
    lr_factor: float
    event: BrokenStep | None = None

    def __str__(self) -> str:
        return (
            f"step {self.broken} was broken, so the run went back to step {self.since}; the"
            f" learning rate is multiplied by {self.lr_factor:g} from there on"
        )


_RECORD = TypeAdapter(tuple[Retry, ...])


@dataclass(frozen=True)
class Retries:
    """The returns of a run, in their order. They are kept in its folder.

    Steps before and after a return are functions of this record, so that a run that is killed and
    resumed gives the same files as one that was not.
    """

    entries: tuple[Retry, ...] = ()

    @staticmethod
    def read(path: Path) -> "Retries":
        """Read a run's record; empty if there is none. Raises UserError if it is damaged."""
        if not is_inside(path):
            return Retries()
        try:
            return Retries(read_json_as(read_inside(path), tuple[Retry, ...]))
        except NotOurs as error:
            raise UserError(
                f"{path}: {error}; it is the record of a run's returns",
                "Expected a file of this version of the program",
                "Delete it to continue with the full learning rate.",
            ) from error

    def with_entry(self, entry: Retry, path: Path) -> "Retries":
        """Add a return, and write the record. Raises UserError if it cannot be written."""
        added = Retries((*self.entries, entry))
        try:
            write_atomic(path, _RECORD.dump_json(added.entries))
        except OSError as error:
            raise cannot_write(path, error) from error
        return added

    def lr_factor(self, step: int) -> float:
        """Return what a step's learning rate is multiplied by. step: From 0."""
        return math.prod(entry.lr_factor for entry in self.entries if step >= entry.since)

    def seed(self, seed: int, step: int) -> int:
        """Return the seed of a step, from 0; that of a broken one differs with each return."""
        attempts = sum(entry.broken == step + 1 for entry in self.entries)
        return seeds.derive(seed, "retry", attempts) if attempts else seed

    def has_repeated(self, number: int) -> bool:
        """Return whether the run has gone back because of a step before. number: From 1."""
        return any(entry.broken == number for entry in self.entries)
