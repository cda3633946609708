"""Check of the draft's files and folders, in a thread shortly after each change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, UserError
from onetrainer.json_file import Document
from onetrainer.presets.presets import value_at, with_absolute_paths
from ui.background.apart import apart
from ui.background.background_query import CancelToken
from ui.context import Context
from ui.model.draft import FileSettings
from ui.model.preset_fields import checked_settings

if TYPE_CHECKING:
    from onetrainer.dataset.items import Skipped

CHECK_AFTER_MS = 400


class FileCheck:
    """Keeps the draft's problems of files up to date."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting = ""
        self._scheduled: FileSettings | None = None
        self._found: list[Problem] = []
        self._is_running = self._is_outdated = False
        # The first check is of whatever the window opens with, once that is on the screen.
        self._is_first = True
        self._left_out: Sequence[Skipped] = ()
        context.draft.listen(self._schedule)
        context.preview.query.listen(self._hear_of_images)
        context.widgets.jobs.post(self._check)

    def _schedule(self) -> None:
        """Check after a pause in changes, because typing changes a path with each key."""
        draft, root = self._context.draft, self._context.root
        if self._is_first or not draft.needs_file_check or draft.file_settings == self._scheduled:
            return
        self._scheduled = draft.file_settings
        if self._waiting:
            root.after_cancel(self._waiting)
        self._waiting = root.after(CHECK_AFTER_MS, self._check)

    def _check(self) -> None:
        self._waiting = ""
        self._is_first, self._scheduled = False, None
        if self._context.draft.needs_file_check:
            self._run()

    def look_again(self) -> None:
        """Check what is checked already once more: the files may have changed meanwhile."""
        if self._is_running:
            self._is_outdated = True
        elif not self._context.draft.needs_file_check:
            self._run()

    def _hear_of_images(self) -> None:
        """Check again once all images were decoded: the fields name those that cannot be used."""
        answer = self._context.preview.query.answer
        if answer is None or answer.preview.unexamined:
            return
        before, self._left_out = self._left_out, answer.preview.skipped
        if self._left_out != before:
            self.look_again()

    def _run(self) -> None:
        draft = self._context.draft
        self._is_running, self._is_outdated = True, False
        self._scheduled = file_settings = draft.file_settings
        config = draft.files_config()
        self._context.widgets.jobs.run(
            lambda: check_files(config),
            lambda found: self._store(file_settings, found),
            lambda error: self._failed(file_settings, error),
        )

    def _store(self, file_settings: FileSettings, found: list[Problem]) -> None:
        draft = self._context.draft
        self._is_running, self._scheduled = False, None
        is_news = draft.needs_file_check or found != self._found
        # Drop the result of outdated settings; the next check is scheduled.
        if file_settings == draft.file_settings and is_news:
            self._found = found
            draft.set_file_problems(found, file_settings)
        if self._is_outdated:
            self.look_again()

    def _failed(self, file_settings: FileSettings, error: Exception) -> None:
        self._is_running = False
        if not isinstance(error, UserError):
            raise error
        # Only the home of an unknown user fails; the message begins with the path.
        values = zip(checked_settings(), file_settings, strict=True)
        paths = (path for path, value in values if value and error.what.startswith(f"{value}:"))
        path = next(paths, "")
        self._store(file_settings, [Problem(path, error.what, error.expected, error.remedy)])


def check_files(config: TrainConfig) -> list[Problem]:
    """Return the problems of the files and folders of a config.

    Raises:
        UserError: If a path is in the home of an unknown user.
    """
    return apart(_problems)(with_absolute_paths(config), CancelToken(lambda *_: None))


def _problems(config: TrainConfig, _: CancelToken[list[Problem]]) -> list[Problem]:
    # Imported late to keep the start of the window fast.
    from onetrainer.checks.preflight import check_environment

    return check_environment(config)


def startable(document: Document) -> TrainConfig:
    """Return the config of a document. Raises ProblemsError if a run cannot start with it."""
    from onetrainer.checks.preflight import document_problems, require_startable

    config, problems = document_problems(document, source="")
    require_startable(problems, source=str(value_at(document, "output.name")))
    return config
