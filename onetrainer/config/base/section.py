"""What every section of the config is made of.

A setting is one field. Its JSON key, its checks, its row in the window, its tooltip, its line in
the reference and its `--set` path all come from the field, its `Ui` mark and the string under it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Ui:
    """How a setting is shown.

    label: the words before the editor. unit: shown after it ("px", "steps").
    level: "basic" settings are always shown, "advanced" ones on request, "hidden" ones never.
    editor: which editor where the type does not tell: an existing "folder", an existing model
    ("model": a folder or a file), an existing "file", a "new-folder" that may not exist yet, a
    "function" of a Python file ("file.py:function"), or a "text" of several lines.
    search: more words under which people look for it.
    choices: the words for a choice's values where these are none: {"euler_a": "Euler a"}. Files
    and `--set` keep the values.
    like: for a setting of a list's entries: the path of the setting whose value a new entry
    begins with in the window.
    zero: what 0 means where it is no amount ("automatic"), shown after it instead of the unit.
    lead: a sentence above the setting, where it begins a group of its own among its section's.
    only_with: where the setting has an effect only with some values of another one, that one's
    path and those values: {"method.kind": ("lora", "dora")}; ("*",) is any but 0, off and nothing.
    A name without a dot is a setting of the same section, also within a list's entry. The window
    hides it with others.
    or_with: in place of all of these, others of which one is enough. A "*" in a path is any entry
    of a list that is not turned off by a "use": {"data.concepts.*.masks": ("files", "alpha")}.
    """

    label: str
    unit: str = ""
    level: Literal["basic", "advanced", "hidden"] = "basic"
    editor: Literal["auto", "folder", "file", "model", "new-folder", "function", "text"] = "auto"
    search: str = ""
    choices: Mapping[str, str] = field(default_factory=dict, hash=False)
    like: str = ""
    zero: str = ""
    lead: str = ""
    only_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    or_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def is_path(self) -> bool:
        """Whether the value names a place on disk, taken relative to the config file's folder."""
        return self.editor in ("folder", "file", "model", "new-folder", "function")


class Section(BaseModel):
    """A frozen group of settings; unknown keys, NaN and infinities are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_default=False,
    )
