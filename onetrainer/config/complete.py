"""Documents with every setting: what a config would have, before any value is checked.

Checking needs the schema of the whole config, which takes a tenth of a second to build.
"""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base.amount import Amount
from onetrainer.config.base.encoders import encoders_by_key
from onetrainer.config.base.variants import (
    KIND,
    as_section,
    default_of,
    default_variant,
    encoder_section,
    variants,
)
from onetrainer.config.train import TrainConfig


def completed(
    document: Mapping[str, Any], section: type[BaseModel] = TrainConfig
) -> dict[str, Any]:
    """Return the settings of a section in a document, with the defaults of those it lacks.

    Variants are those that the document names, or the default ones. What is no setting is left out;
    values may be wrong, but those of a section are settings. A valid document gets what the dump of
    its config has, apart from the way to write a value: 1 for 1.0.
    """
    return {
        key: _value(field, document.get(key), is_given=key in document)
        for key, field in section.model_fields.items()
        if key in document or not field.is_required()
    }


def _value(field: FieldInfo, given: object, *, is_given: bool) -> object:
    """Return the value of a setting or a section, its default if none is given."""
    table, item = encoder_section(field.annotation), _item(field)
    if table is not None and isinstance(given, Mapping):
        encoders = {key: given.get(key) for key in encoders_by_key()}
        return {key: completed(_settings(one), table) for key, one in encoders.items()}
    if item is not None and isinstance(given, list):
        return [completed(one, item) if isinstance(one, Mapping) else one for one in given]
    by_name, section = variants(field), as_section(field.annotation)
    if by_name:
        name = _settings(given).get(KIND)
        section = by_name.get(name) if isinstance(name, str) else None
        section = section or by_name[default_variant(field)]
    if isinstance(given, Mapping) and section is not None:
        return completed(given, section)
    if is_given and table is None and section is None:
        return given
    return _plain(default_of(field))


def _item(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section of each entry if the field is a list of them, else None."""
    members = get_args(field.annotation)
    return as_section(members[0]) if len(members) == 2 and members[1] is ... else None


def _settings(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _plain(value: object) -> object:
    """Return a default as JSON has it."""
    match value:
        case BaseModel():
            return {key: _plain(getattr(value, key)) for key in type(value).model_fields}
        case Mapping():
            return {key: _plain(one) for key, one in value.items()}
        case tuple():
            return [_plain(one) for one in value]
        case Amount():
            return str(value)
    return value
