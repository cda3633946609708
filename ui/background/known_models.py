"""Base models used before and those in folders that a person has named, found in a thread."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetrainer.families.registry import FAMILIES
from ui.background.threads import Jobs
from ui.model.window_state import WindowState

if TYPE_CHECKING:
    from onetrainer.model_files.find import FoundModel, ModelFinder


class KnownModel(NamedTuple):
    """A base model in the list.

    Attributes:
        text: What chooses it: a path, or a name on the Hub.
        family: "" if it is not known before the model is downloaded.
        size: In bytes; 0 if it is not on this computer.
        was_used: Whether it was used before.
        is_proposed: Whether it is a published model that was not used before.
    """

    text: str
    family: str = ""
    precision: str = ""
    size: int = 0
    was_used: bool = False
    is_proposed: bool = False


class KnownModels:
    """The list of base models; it grows while folders are read.

    Attributes:
        models: Those found so far: used ones first, then by folder and name, published ones last.
        is_working: Whether folders are being read.
    """

    def __init__(self, jobs: Jobs, state: WindowState) -> None:
        self._jobs = jobs
        self._state = state
        self._finder: ModelFinder | None = None
        self._listeners: list[Callable[[], None]] = []
        self._stopped = threading.Event()
        self.models: list[KnownModel] = []
        self.is_working = False
        jobs.on_close.append(lambda: self._stopped.set())

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after each change."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Call a function no longer."""
        self._listeners.remove(listener)

    def add_folder(self, folder: str) -> None:
        """Add a folder that has base models, and read it."""
        if folder not in self._state.model_folders:
            self._state.model_folders = [*self._state.model_folders, folder]
        self.read()

    def forget_folder(self, folder: str) -> None:
        """Leave a folder out from now on."""
        folders = self._state.model_folders
        self._state.model_folders = [one for one in folders if one != folder]
        self.read()

    def read(self) -> None:
        """Read all folders anew; headers of unchanged files are known."""
        # Imported late to keep the start of the window fast.
        from onetrainer.model_files.find import ModelFinder

        self._stopped.set()
        self._stopped = stopped = threading.Event()
        finder = self._finder = self._finder or ModelFinder()
        self.models, self.is_working = [], True
        used, folders = list(self._state.models), list(self._state.model_folders)

        def work() -> None:
            seen: set[str] = set()
            for model in _found(finder, used, folders):
                if stopped.is_set():
                    return
                if model.text not in seen:
                    seen.add(model.text)
                    self._jobs.post(partial(self._take, stopped, model))
            published = [spec for spec in FAMILIES if spec.hub and not spec.base]
            for spec in published:
                if spec.hub in seen:
                    continue
                model = KnownModel(spec.hub, spec.name, is_proposed=True)
                self._jobs.post(partial(self._take, stopped, model))

        self._jobs.run(work, lambda _: self._take(stopped, None))
        self._notify()

    def _take(self, token: threading.Event, model: KnownModel | None) -> None:
        if token.is_set():
            return
        if model is None:
            self.is_working = False
        else:
            self.models.append(model)
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()


def _found(finder: "ModelFinder", used: list[str], folders: list[str]) -> Iterator[KnownModel]:
    from onetrainer.guide.base_model import look_at_model
    from onetrainer.model_files.hub import is_hub_name

    for text in used:
        if is_hub_name(text):
            model = look_at_model(text)
            family = "" if model.problem else model.family
            yield KnownModel(text, family, model.precision, model.size, was_used=True)
        elif found := finder.look_at(Path(text)):
            yield _known(found)._replace(was_used=True)
    for folder in folders:
        yield from map(_known, finder.find(Path(folder)))


def _known(found: "FoundModel") -> KnownModel:
    return KnownModel(str(found.path), found.family, found.precision, found.size)
