"""Several configs of one, with one or several settings swept over values."""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from onetrainer.errors import UserError
from onetrainer.files.own_json import parse_json, typed
from onetrainer.json_file import Document
from onetrainer.presets.presets import value_at, with_overrides

MOST_RUNS = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9.+-]+")


def swept(document: Document, sweeps: Sequence[str]) -> list[Document]:
    """Return a config for each combination of the values of "key.path=value,value".

    Values with a comma of their own are written as a JSON list: key.path=["a, b", "c"]. Each
    config's `output.name` gets the values, so that their runs and files can be told apart.

    Raises:
        UserError: If a sweep is none, or there would be too many.
    """
    if not sweeps:
        return [document]
    settings = [_setting_and_values(text) for text in sweeps]
    combinations = list(itertools.product(*(values for _, values in settings)))
    if len(combinations) > MOST_RUNS:
        raise UserError(
            f"--sweep: these are {len(combinations):,} runs",
            f"Expected {MOST_RUNS} at most",
            "Sweep over fewer values",
        )
    name = str(value_at(document, "output.name") or "run")
    paths = [path for path, _ in settings]
    made = []
    for combination in combinations:
        pairs = list(zip(paths, combination, strict=True))
        parts = [f"{path.rpartition('.')[2]}-{_plain(value)}" for path, value in pairs]
        texts = [f"{path}={value}" for path, value in pairs]
        made.append(with_overrides(document, [*texts, f"output.name={'-'.join([name, *parts])}"]))
    return made


def _setting_and_values(text: str) -> tuple[str, list[str]]:
    path, sign, values = text.partition("=")
    if not sign or not values.strip():
        raise UserError(
            f'--sweep "{text}": there is nothing to sweep over',
            "Expected key.path=value,value …, such as optimizer.lr=1e-4,3e-4",
            "Correct it",
        )
    if values.lstrip().startswith("["):
        try:
            listed = typed(parse_json(values), list[Any])
        except ValueError as error:
            raise UserError(f'--sweep "{text}": the list is not JSON ({error})') from error
        return path, [each if isinstance(each, str) else json.dumps(each) for each in listed]
    return path, [value.strip() for value in values.split(",") if value.strip()]


def _plain(value: str) -> str:
    """Return a value as part of a file's name."""
    return _UNSAFE.sub("-", value).strip("-.")[:40] or "x"
