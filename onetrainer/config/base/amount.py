"""Amounts of training in other units than steps: "10 epochs", "5000 images", "30 minutes"."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

Unit = Literal["epochs", "images", "minutes"]
MOST = 10_000_000
_UNITS: Mapping[str, Unit] = {
    "epoch": "epochs",
    "image": "images",
    "minute": "minutes",
    "min": "minutes",
    "hour": "minutes",
    "h": "minutes",
}
_STEP = "step"
_MINUTES: Mapping[str, int] = {"hour": 60, "h": 60}
_TEXT = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?)\s*([a-z]+?)s?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Amount:
    """An amount whose number of steps depends on the images, or on the speed. count: Above 0.

    Only minutes may have a fraction.
    """

    count: float
    unit: Unit

    def __str__(self) -> str:
        """Return it as files and people write it: "1 epoch", "5000 images"."""
        return f"{self.count:.10g} {self.unit if self.count != 1 else self.unit.removesuffix('s')}"


Steps = int | Amount
"""A number of steps, or an amount that becomes one when a run begins."""


class InSteps(NamedTuple):
    """The mark of a setting that is a number of steps or another amount.

    Attributes:
        lowest: The fewest steps.
        highest: The most of them, and of any other unit.
        repeats: Whether it is an interval. Epochs may have different numbers of steps, so that an
            interval of epochs is none of steps.
    """

    lowest: int
    highest: int = MOST
    repeats: bool = False

    def __get_pydantic_core_schema__(self, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: object, as_steps: core_schema.ValidatorFunctionWrapHandler) -> Steps:
            amount = parse_amount(value) if isinstance(value, str) else value
            if isinstance(amount, Amount) and 0 < amount.count <= self.highest:
                return amount
            none = isinstance(amount, Amount) and not amount.count
            if none and self.lowest > 0:
                raise PydanticKnownError("greater_than_equal", {"ge": self.lowest})
            # An amount of nothing is 0 steps, and other text is refused as no number.
            steps: int = as_steps(0 if none else value if amount is None else amount)
            return steps

        return core_schema.no_info_wrap_validator_function(
            read,
            core_schema.int_schema(ge=self.lowest, le=self.highest),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: str(value) if isinstance(value, Amount) else value
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        units = "|".join((_STEP, *_UNITS))
        pattern = rf"^\d+(\.\d+)? ({units})s?$"
        return {"anyOf": [handler(schema), {"type": "string", "pattern": pattern}]}


def parse_amount(text: str) -> Steps | None:
    """Return what a text such as "10 epochs" or "400 steps" means; None if it is no amount."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    count, name = float(re.sub("[_,]", "", match[1])), match[2].casefold()
    unit = _UNITS.get(name)
    if unit == "minutes":
        return Amount(count * _MINUTES.get(name, 1), unit)
    if not count.is_integer():
        return None
    return int(count) if name == _STEP else Amount(count, unit) if unit else None


def known(steps: Steps) -> int:
    """Return an amount that was converted to steps already."""
    assert isinstance(steps, int), f"{steps} were not converted to steps"
    return steps
