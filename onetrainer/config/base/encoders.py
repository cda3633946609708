"""Settings of text encoders, by their position in the model's family: any number of them."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from onetrainer.config.base.components import TextEncoder, TextEncoderAdapter
from onetrainer.families import registry
from onetrainer.families.spec import EncoderSpec

Settings = TypeVar("Settings", bound=TextEncoder)

FAMILY = "model.family"
"""The setting that decides which text encoders there are."""


def encoders_by_key() -> dict[str, dict[str, EncoderSpec]]:
    """Return the families' text encoders by key ("te1" …), then by family.

    Keys are positions, so that another family keeps the settings, and files need not name one.
    """
    found: dict[str, dict[str, EncoderSpec]] = {}
    for spec in registry.FAMILIES:
        for number, encoder in enumerate(spec.encoders, start=1):
            found.setdefault(f"te{number}", {})[spec.name] = encoder
    return found


def encoder_key(component: str) -> str:
    """Return the key of a text encoder's settings. Raises ValueError if no family has it."""
    for key, encoders in encoders_by_key().items():
        if any(encoder.name == component for encoder in encoders.values()):
            return key
    raise ValueError(f'"{component}" is not a text encoder of any family')


def encoder_label(key: str, family: str) -> str:
    """Return a family's label of a text encoder; that of the first that has it if it lacks it."""
    encoders = encoders_by_key()[key]
    return (encoders.get(family) or next(iter(encoders.values()))).label


def every_encoder(
    section: type[Settings], given: Mapping[str, Settings] = MappingProxyType({})
) -> dict[str, Settings]:
    """Return the settings of every text encoder: those given, else defaults."""
    return {key: given.get(key) or section.default() for key in encoders_by_key()}


def _require_key(key: str) -> str:
    if key not in (known := encoders_by_key()):
        expected = " or ".join(f"'{each}'" for each in known)
        raise PydanticKnownError("literal_error", {"expected": expected})
    return key


EncoderKey = Annotated[
    str,
    AfterValidator(_require_key),
    WithJsonSchema({"enum": [*encoders_by_key()], "type": "string"}),
]
TextEncoders = Annotated[
    Mapping[EncoderKey, TextEncoder], AfterValidator(partial(every_encoder, TextEncoder))
]
TextEncoderAdapters = Annotated[
    Mapping[EncoderKey, TextEncoderAdapter],
    AfterValidator(partial(every_encoder, TextEncoderAdapter)),
]
