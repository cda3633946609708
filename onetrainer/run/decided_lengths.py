"""The steps that a run has decided for lengths in other units, such as "10 epochs"."""

from onetrainer.errors import UserError
from onetrainer.files.inside import is_inside, read_inside
from onetrainer.files.own_json import NotOurs, read_json_as
from onetrainer.run.run_folder import RunFolder


def decided_lengths(folder: RunFolder) -> dict[str, int]:
    """Return the steps of each amount, by its text; none where nothing was decided.

    Raises UserError if the record is damaged.
    """
    if not is_inside(folder.lengths):
        return {}
    try:
        return read_json_as(read_inside(folder.lengths), dict[str, int])
    except NotOurs as error:
        raise UserError(
            f"{folder.lengths}: {error}; it is the record of a run's lengths",
            "Expected a file of this version of the program",
            "Delete it to decide them again.",
        ) from error
