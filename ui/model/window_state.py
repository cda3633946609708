"""State that the window restores at its next start: window.json in the user's folder."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from onetrainer.files.atomic import write_atomic
from onetrainer.json_file import Document
from onetrainer.run.user_folder import user_folder
from ui.model.draft import Draft
from ui.model.preset_origin import PresetOrigin
from ui.theme.palette import Mode


@dataclass
class WindowState:
    """Geometry, appearance, draft and last run of the window."""

    geometry: str = ""
    mode: Mode = "dark"
    page: str = ""
    advanced: list[str] = field(default_factory=list)
    run_folder: str = ""
    preset: dict[str, str] = field(default_factory=dict)
    draft: Document = field(default_factory=dict)
    base: Document = field(default_factory=dict)

    def store_draft(self, draft: Draft) -> None:
        """Copy the draft into the state."""
        origin = draft.origin
        self.preset = {"name": origin.name, "description": origin.description}
        if origin.path is not None:
            self.preset |= {"path": str(origin.path), "own": "yes" if origin.can_overwrite else ""}
            self.preset["leaves"] = " ".join(origin.user_settings)
        self.draft, self.base = draft.document, draft.base

    def restore_draft(self, draft: Draft) -> None:
        """Restore the draft; one that cannot be read keeps its defaults."""
        if not self.draft:
            return
        path = self.preset.get("path", "")
        origin = PresetOrigin(
            self.preset.get("name", ""),
            Path(path) if path else None,
            bool(self.preset.get("own")),
            self.preset.get("description", ""),
            tuple(self.preset.get("leaves", "").split()),
        )
        draft.restore(self.draft, self.base, origin)


def state_file() -> Path:
    """Return the path of the state file."""
    return user_folder() / "window.json"


def read_state() -> WindowState:
    """Read the state of the last window; a new one if it is missing or invalid."""
    try:
        body = json.loads(state_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return WindowState()
    fresh = asdict(WindowState())
    if not isinstance(body, dict):
        return WindowState()
    # Values of another type, from a foreign file, are ignored.
    known = {
        key: value
        for key, value in body.items()
        if key in fresh and isinstance(value, type(fresh[key]))
    }
    state = WindowState(**known)
    state.mode = "light" if state.mode == "light" else "dark"
    return state


def write_state(state: WindowState) -> None:
    """Write the state atomically.

    Raises:
        OSError: If it cannot be written.
    """
    path = state_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(asdict(state), ensure_ascii=False).encode())
