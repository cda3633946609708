"""The images of a sampling request as a table: prompts by seeds, or any two settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from onetrainer.captions.sample_prompt_file import sampler_name
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.problems import problems_of
from onetrainer.config.run.model import FamilyName
from onetrainer.config.run.sampling import SAMPLER_LABELS
from onetrainer.errors import UserError
from onetrainer.families.spec import Prediction
from onetrainer.jobs.sample_request import (
    AXIS_LABELS,
    MAX_VALUES,
    Axis,
    SampledLora,
    SampleRequest,
    rows_of,
)
from onetrainer.run.steps import require_step

MAX_CELLS = 1024
_RANGE = re.compile(r"(\d{1,18})\s*-\s*(\d{1,18})")
_WITH_RANGES = ("seed", "steps", "step")


@dataclass(frozen=True)
class Cell:
    """One image, its place in the table, and the LoRAs that it is generated with."""

    row: int
    column: int
    shot: Shot
    loras: tuple[SampledLora, ...]


@dataclass(frozen=True)
class SampleTable:
    """Images row by row, and what the labels of rows and columns say."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]


def table_of(request: SampleRequest, family: FamilyName, prediction: Prediction) -> SampleTable:
    """Return the images of a request for a model of a family. Raises UserError as `requests_of`."""
    if not (request.x or request.y):
        rows = rows_of(request, family, prediction)
        cells = (
            Cell(row, column, shot, request.loras)
            for row, shots in enumerate(rows)
            for column, shot in enumerate(shots)
        )
        columns = tuple(f"seed {seed}" for seed in request.seeds)
        return SampleTable(tuple(shots[0].title for shots in rows), columns, tuple(cells))
    requests = requests_of(request)
    return SampleTable(
        labels_of(request.y),
        labels_of(request.x),
        tuple(
            Cell(row, column, rows_of(each, family, prediction)[0][0], each.loras)
            for row, line in enumerate(requests)
            for column, each in enumerate(line)
        ),
    )


def requests_of(request: SampleRequest) -> list[list[SampleRequest]]:
    """Return the request of each image of a grid over one or two settings, row by row.

    Raises:
        UserError: If a value is not allowed, or anything else would differ, too.
    """
    rows = _with_each(request, request.y)
    requests = [_with_each(each, request.x) for each in rows]
    if request.x is None and request.y is None:
        return requests
    if (
        request.x
        and request.y
        and request.x.of == request.y.of
        and request.x.lora == request.y.lora
    ):
        raise UserError(
            f"{AXIS_LABELS[request.x.of]}: rows and columns of the grid both vary it",
            "Expected two settings",
            "Choose another one for one of them.",
        )
    first = requests[0][0]
    if len(first.prompts) + len(first.listed) != 1 or len(first.seeds) != 1:
        raise UserError(
            "A grid over two settings needs one prompt and one seed",
            f"These are {len(first.prompts) + len(first.listed)} and {len(first.seeds)}",
            "Leave one of each, or let the grid vary them.",
        )
    if (count := len(rows) * len(requests[0])) > MAX_CELLS:
        raise UserError(f"The grid would have {count:,} images", f"Expected {MAX_CELLS:,} at most")
    return requests


def require_steps(request: SampleRequest) -> None:
    """Raise UserError unless the weights of all runs' steps are there that a request names."""
    requests = [each for row in requests_of(request) for each in row]
    steps = {(lora.path, lora.step): lora.run for each in requests for lora in each.loras}
    for (_, step), run in steps.items():
        if run is not None:
            require_step(run, step)


def labels_of(axis: Axis | None) -> tuple[str, ...]:
    """Return the labels of a grid's rows or columns; one that is empty for None."""
    if axis is None:
        return ("",)
    values = _values(axis)
    match axis.of:
        case "prompt":
            return tuple(values)
        case "sampler":
            labels = {str(name): label for name, label in SAMPLER_LABELS.items()}
            return tuple(labels.get(sampler_name(value), value) for value in values)
        case "lora":
            return tuple(SampledLora(path=value).name for value in values)
        case "strength":
            return tuple(f"strength {value}" for value in values)
        case "step":
            return tuple(f"step {value}" for value in values)
    return tuple(f"{AXIS_LABELS[axis.of].lower()} {value}" for value in values)


def _values(axis: Axis) -> list[str]:
    """Return the values, those of a range "1-4" one by one."""
    values: list[str] = []
    for value in axis.values:
        found = _RANGE.fullmatch(value.strip()) if axis.of in _WITH_RANGES else None
        if found is None:
            values.append(value.strip())
            continue
        first, last = int(found[1]), int(found[2])
        values += map(str, range(first, min(last, first + MAX_VALUES) + 1))
    if not 1 <= len(values) <= MAX_VALUES:
        raise UserError(
            f"{AXIS_LABELS[axis.of]}: these are {len(values):,} values",
            f"Expected 1 to {MAX_VALUES}",
            "Correct them.",
        )
    return values


def _with_each(request: SampleRequest, axis: Axis | None) -> list[SampleRequest]:
    if axis is None:
        return [request]
    return [_with_value(request, axis, value) for value in _values(axis)]


def _with_value(request: SampleRequest, axis: Axis, value: str) -> SampleRequest:
    try:
        return SampleRequest.model_validate(
            request.model_dump(exclude_unset=True) | _changes(request, axis, value)
        )
    except ValidationError as error:
        problem = problems_of(error, SampleRequest)[0]
        raise UserError(
            f"{AXIS_LABELS[axis.of]}: {problem.what}", problem.expected, problem.remedy
        ) from error


def _changes(request: SampleRequest, axis: Axis, value: str) -> dict[str, object]:
    match axis.of:
        case "prompt":
            return {"prompts": [value], "listed": []}
        case "seed":
            return {"seeds": [value]}
        case "size":
            width, _, height = value.lower().replace("×", "x").partition("x")
            return {"width": width.strip(), "height": (height or width).strip()}
        case "sampler":
            return {"sampler": sampler_name(value)}
        case "strength":
            return {"loras": _with_lora(request, axis, {"strength": value})}
        case "lora":
            return {"loras": _with_lora(request, axis, {"path": value, "step": None})}
        case "step":
            return {"loras": _with_lora(request, axis, {"step": value})}
        case "negative" | "steps" | "guidance":
            return {axis.of: value}


def _with_lora(
    request: SampleRequest, axis: Axis, changes: dict[str, object]
) -> Sequence[dict[str, object]]:
    loras = [lora.model_dump() for lora in request.loras]
    if axis.lora > len(loras) or (axis.of == "step" and request.loras[axis.lora - 1].run is None):
        what = "a run's step" if axis.of == "step" else f"a LoRA number {axis.lora}"
        raise UserError(f"{AXIS_LABELS[axis.of]}: there is not {what}", "", "Add it to the LoRAs.")
    loras[axis.lora - 1] |= changes
    return loras
