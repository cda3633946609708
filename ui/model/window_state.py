"""State that the window restores at its next start: window.json in the user's folder."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.files.atomic import write_atomic
from onetrainer.files.locks import locked
from onetrainer.files.own_json import read_own
from onetrainer.json_file import Document
from onetrainer.run.known_folders import remember_run_folder
from onetrainer.run.user_folder import user_folder
from ui.model.draft import Draft
from ui.model.preset_origin import PresetOrigin
from ui.theme.palette import Mode
from ui.theme.theme import SCALES

_LOCK_WAIT = 1.0  # seconds; another window writes for milliseconds
_MOST_MODELS = 12
_DRAFT = ("preset", "draft", "base")
"""Keys that belong together."""


@dataclass
class WindowState:
    """Geometry, appearance, draft and last run of the window.

    scales: Sizes chosen for the contents, by the screen's size in pixels.
    folders: From which paths were chosen in dialogs, the last one first.
    models: Base models that were trained or chosen, the last one first.
    model_folders: Folders that a person keeps base models in.
    trial: What was typed last to try a model, by field.
    stored: What of it was in the file when this window read or wrote it.
    """

    geometry: str = ""
    mode: Mode = "dark"
    page: str = ""
    advanced: list[str] = field(default_factory=list)
    run_folder: str = ""
    scales: dict[str, float] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    model_folders: list[str] = field(default_factory=list)
    trial: Document = field(default_factory=dict)
    preset: dict[str, str] = field(default_factory=dict)
    draft: Document = field(default_factory=dict)
    base: Document = field(default_factory=dict)
    stored: Document = field(default_factory=dict, compare=False, repr=False)

    def show_run(self, folder: Path | None) -> None:
        """Remember the displayed run, and the folder that it is in; None for none."""
        if folder is not None and str(folder) != self.run_folder:
            remember_run_folder(folder.parent)
        self.run_folder = str(folder) if folder else ""

    def scale_of(self, screen: str) -> float:
        """Return the size chosen for a screen; 0, for the desktop's, if there is none."""
        scale: object = self.scales.get(screen)
        return scale if isinstance(scale, float) and scale in SCALES else 0.0

    def choose_scale(self, screen: str, scale: float) -> None:
        """Choose a size for a screen; 0 for the desktop's."""
        if scale:
            self.scales[screen] = scale
        else:
            self.scales.pop(screen, None)

    def remember_model(self, text: object) -> None:
        """Put a base model in front of those that were used."""
        if isinstance(text, str) and text:
            self.models = [text, *(one for one in self.models if one != text)][:_MOST_MODELS]

    def folder_of_models(self) -> str:
        """Return the folder to look for base models in: of one used before, else the home."""
        used = (str(Path(text).parent) for text in self.models if Path(text).is_absolute())
        known = (folder for folder in (*used, *self.model_folders[::-1]) if Path(folder).is_dir())
        return next(known, str(Path.home()))

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
    state = _read_file(WindowState())
    state.stored = _document(state)
    return state


def write_state(state: WindowState) -> None:
    """Write what has changed in this window atomically; the rest stays as other windows wrote it.

    Raises:
        OSError: If it cannot be written.
    """
    path, own = state_file(), _document(state)
    changed = {key for key, value in own.items() if state.stored.get(key) != value}
    if changed.intersection(_DRAFT):
        changed.update(_DRAFT)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f"{path.name}.lock"), wait=_LOCK_WAIT):
        merged = own | _document(_read_file(state)) | {key: own[key] for key in changed}
        write_atomic(path, json.dumps(merged, ensure_ascii=False).encode())
    state.stored = own


def _read_file(default: WindowState) -> WindowState:
    """Read what is valid in the file; the default without one."""
    return read_own(state_file(), WindowState, default, lost="the rest is as in a new window")


def _document(state: WindowState) -> Document:
    """Return a state's values as the file holds them."""
    values = {key: value for key, value in vars(state).items() if key != "stored"}
    document: Document = json.loads(json.dumps(values))
    return document
