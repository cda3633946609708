"""The base class of config sections, and the display properties of a setting.

A setting is one field. Its JSON key, its checks, its row in the window, its tooltip, its line in
the reference and its `--set` path all come from the field, its `Ui` mark and the string under it.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from onetrainer.config.base.field_help import field_help

_SOURCE = re.compile(r"\s+Sources?:\s+")


class Ui(NamedTuple):
    """Display properties of a setting.

    Attributes:
        label: The text before the editor.
        unit: The text after it ("px", "steps").
        level: "basic" settings are always visible, "advanced" ones on request, "hidden" ones never.
        editor: The editor, if the type does not determine it: an existing "folder", an existing
            model ("model": a folder or a file), an existing "file", a "new-folder" that may not
            exist yet, a "function" of a Python file ("file.py:function"), or a multi-line "text".
        search: More words under which people look for it, such as its former label.
        choices: Labels of a choice's values: {"euler_a": "Euler a"}. Files and `--set` keep the
            values.
        like: For a setting of list entries: the path of the setting whose value a new entry gets
            in the window.
        zero: What 0 means if it is not an amount ("automatic"), displayed instead of the unit.
        lead: A sentence above the setting, if it begins a group of its own.
        only_with: If the setting has an effect only with some values of another one: that one's
            path and those values: {"method.kind": ("lora", "dora")}; ("*",) is any value but 0,
            off and empty. A name without a dot is a setting of the same section or list entry. The
            window hides the setting otherwise.
        or_with: Alternatives to all of these, any of which is enough. A "*" in a path is any list
            entry that is not turned off by a "use": {"data.concepts.*.masks": ("files", "alpha")}.
    """

    label: str
    unit: str = ""
    level: Literal["basic", "advanced", "hidden"] = "basic"
    editor: Literal["auto", "folder", "file", "model", "new-folder", "function", "text"] = "auto"
    search: str = ""
    choices: Mapping[str, str] = {}
    like: str = ""
    zero: str = ""
    lead: str = ""
    only_with: Mapping[str, tuple[str, ...]] = {}
    or_with: Mapping[str, tuple[str, ...]] = {}

    def __hash__(self) -> int:
        return hash(self.label)  # mappings have no hash

    @property
    def is_path(self) -> bool:
        """Whether the value is a path on disk, relative to the config file's folder."""
        return self.editor in ("folder", "file", "model", "new-folder", "function")


def without_source(text: str) -> str:
    """Return a help or a description without the papers that it ends with."""
    return _SOURCE.split(text)[0]


def source_of(text: str) -> str:
    """Return the papers that a help or a description ends with; "" for none."""
    _, *found = _SOURCE.split(text)
    return found[0] if found else ""


class Section(BaseModel):
    """A frozen group of settings; unknown keys, NaN and infinities are refused.

    A section within another is by default `Inner.default()`, which leaves the schema of the inner
    section alone unbuilt.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=False,
        # The schemas of most sections are never needed by themselves.
        defer_build=True,
    )

    @classmethod
    def default(cls) -> Self:
        """Return the same as `cls()` without its schema, which takes milliseconds to build."""
        return cls.model_construct()  # type: ignore[return-value] # mypy takes it for a Section

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the section, whose settings are described by their help."""
        made = handler(schema)
        described = handler.resolve_ref_schema(made).get("properties", {})
        for name, definition in described.items():
            text = field_help(cls, name)
            definition.update({"description": text} if text else {})
        return made
