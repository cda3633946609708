"""Looks at the files and folders that the draft names, in a thread, a moment after a change."""

from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, UserError
from onetrainer.presets.presets import with_absolute_paths
from ui.context import Context
from ui.model.draft import Question
from ui.model.preset_fields import LOOKED_AT

LOOK_AFTER_MS = 400


class FileCheck:
    """Keeps the draft's problems true as far as files go."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting = ""
        self._asked: Question | None = None
        context.draft.listen(self._look_soon)
        self._look_soon()

    def _look_soon(self) -> None:
        """Looks when nothing has changed for a while; typing a path changes it with each key."""
        draft, root = self._context.draft, self._context.root
        if not draft.awaits_look or draft.question == self._asked:
            return
        self._asked = draft.question
        if self._waiting:
            root.after_cancel(self._waiting)
        self._waiting = root.after(LOOK_AFTER_MS, self._look)

    def _look(self) -> None:
        self._waiting = ""
        self._asked = None
        draft = self._context.draft
        if not draft.awaits_look:
            return
        self._asked = question = draft.question
        config = draft.files_config()
        self._context.kit.jobs.run(
            lambda: look_at_files(config),
            lambda found: self._looked(question, found),
            lambda error: self._failed(question, error),
        )

    def _looked(self, question: Question, found: list[Problem]) -> None:
        draft = self._context.draft
        self._asked = None
        # An answer to what is no longer asked; the next look is on its way.
        if question == draft.question:
            draft.add_problems(found, question)

    def _failed(self, question: Question, error: Exception) -> None:
        if not isinstance(error, UserError):
            raise error
        # Only a place in somebody's home that is not there gets here; it is told of by its text.
        paths = zip(LOOKED_AT, question, strict=True)
        path = next((path for path, value in paths if _begins(error.what, value)), "")
        self._looked(question, [Problem(path, error.what, error.expected, error.remedy)])


def look_at_files(config: TrainConfig) -> list[Problem]:
    """What is wrong with the files and folders of a config. Raises UserError for a wrong path."""
    # Loaded late: it looks into files, which a window that only opens does not need.
    from onetrainer.checks.preflight import check_environment

    return check_environment(with_absolute_paths(config))


def _begins(text: str, value: object) -> bool:
    return isinstance(value, str) and bool(value) and text.startswith(f"{value}:")
