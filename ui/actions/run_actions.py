"""Actions of a run: check and start, command, resume, fork, attach, open."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem, UserError
from onetrainer.files.programs import find_program
from onetrainer.presets.presets import (
    change_config,
    load_document,
    resolve,
    value_at,
    with_absolute_paths,
)
from onetrainer.run.commands import LEAVING, CommandName, Leaving
from onetrainer.run.run_folder import RunFolder
from ui.actions.file_check import FileCheck, check_files, startable
from ui.context import Context, Offer, View
from ui.dialogs.dialogs import Choice, ask, once_free, report_failure, show_error, show_problems
from ui.model.draft import FileSettings
from ui.model.form_fields import find_setting


class RunActions:
    """Passes actions to the session, and shows errors.

    Args:
        page: Returns the page that is shown, if there is one yet.

    What only some of them need is imported there, to keep the start of the window fast.
    """

    def __init__(self, context: Context, page: Callable[[], View | None]) -> None:
        self._context, self._page = context, page
        self.is_checking = False
        self.files = FileCheck(context)

    def start_blocked_reason(self) -> str:
        """Return why no run can be started now; "" if one can."""
        session = self._context.session
        if self.is_checking:
            return "The settings are being checked."
        # Also while a run goes on: these are not the settings to add to the queue.
        if self._page_reason:
            return self._page_reason
        if session.is_running and session.folder is not None:
            return f"“{session.folder.name}” is running. Stop or pause it first."
        return ""

    @property
    def _page_reason(self) -> str:
        """Why the page that is shown lets no run be started; "" if it does."""
        page = self._page()
        return page.start_blocked_reason if page is not None else ""

    def start(self) -> None:
        """Check everything, then start a run or list the errors."""
        if not self._context.act.commit():
            return
        if self.start_blocked_reason():
            self._say_why_not()
        elif self._has_no_value_errors() and not (
            self._context.session.state.status == "paused" and not self._confirm_new_run()
        ):
            self._check(self._start)

    def _say_why_not(self) -> None:
        """Say why no run can be started, and offer to let these settings follow one that is."""
        session = self._context.session
        offer = Offer(
            "Add to the queue",
            "enqueue instead",
            self._context.act.enqueue,
            lambda: session.is_running,
        )
        is_meant = not (self.is_checking or self._page_reason)
        self._context.act.show_message(self.start_blocked_reason(), offer if is_meant else None)

    def enqueue(self, sweeps: Sequence[str] = ()) -> None:
        """Check everything, then add a run to the queue, or one for each value; or list errors."""
        is_meant = self._context.act.commit()
        if is_meant and not self.is_checking and self._has_no_value_errors():
            self._check(partial(self._enqueue, sweeps))

    def _has_no_value_errors(self) -> bool:
        """Return whether every value is allowed; show the problems if one is not.

        Files may have been fixed since their last check; they are checked again.
        """
        self._context.draft.leave()
        errors = self._context.draft.value_errors
        if errors:
            show_problems(self._context, errors)
        return not errors

    def _check(self, then: Callable[[TrainConfig], None]) -> None:
        """Check the draft's files and code in a thread, then do something with it."""
        from ui.dialogs.trust_dialog import confirm_draft

        context = self._context
        config, file_settings = context.draft.config(), context.draft.file_settings
        if not confirm_draft(context, config):
            context.act.show_message("Training was not started, and none of this code was run.")
            return
        self.is_checking = True
        context.act.refresh()
        context.widgets.jobs.run(
            lambda: check_files(config),
            lambda found: self._checked(config, file_settings, found, then),
            self._check_failed,
        )

    def send(self, command: CommandName) -> None:
        """Send a command to the worker; one that ends the run may ask first."""
        if command == "save" or command == "sample" or command == "cancel":
            self._send(command)
        elif self._context.session.is_running:
            self._leave(command)

    def kill(self) -> None:
        """Kill the worker."""
        self._context.session.kill()
        self._context.act.refresh()

    def resume(self, changes: Mapping[str, Any] | None = None) -> None:
        """Resume the displayed run. changes: Settings to change in its config first, by path."""
        session = self._context.session
        try:
            if not self._confirm_resumed_code():
                return
            if changes and session.folder is not None and not session.has_worker:
                change_config(session.folder.config, changes)
            session.resume()
        except UserError as error:
            show_error(self._context, error)
        self._context.act.show_page("run")
        self._context.act.save_state_soon()

    def mend(self, path: str) -> None:
        """Go to a setting, and offer to resume the displayed run with what it is set to."""
        from onetrainer.rules.changes import may_change

        context, session = self._context, self._context.session
        context.act.jump(path)
        run, folder = session.run, session.folder
        if folder is None or not (folder.newest_step() and may_change(path)):
            return
        label = setting.ui.label if (setting := find_setting(path)) else path
        context.act.show_message(
            f"Change “{label}”, then go on from {folder.resume_place()} with it.",
            Offer(
                "Apply and resume",
                "apply and resume",
                partial(self._apply, path),
                lambda: session.run is run and session.can_resume,
                lasts=True,
            ),
        )

    def _apply(self, path: str) -> None:
        """Resume the displayed run with the draft's value of a setting."""
        from ui.dialogs.rate_dialog import changes_with_chosen_rate

        context = self._context
        if not context.act.commit():
            return
        if context.draft.value_errors:
            show_problems(context, context.draft.value_errors)
            return
        values = with_absolute_paths(context.draft.config()).model_dump(mode="json")
        changes = changes_with_chosen_rate(context, {path: value_at(values, path)})
        if changes is not None:
            self.resume(changes)

    def fork(self) -> None:
        """Ask for a checkpoint of the displayed run, and start a new run that goes on from it."""
        from onetrainer.run.fork import state_at
        from ui.dialogs.fork_dialog import FORM, ask_fork

        context, source = self._context, self._context.session.folder
        if not context.act.commit():
            return
        if source is None or self.start_blocked_reason():
            context.act.show_message(self.start_blocked_reason())
            return
        try:
            state_at(source, None)  # says that there is no checkpoint
            step, answer = ask_fork(context, source)
            if answer == FORM and context.draft.value_errors:
                show_problems(context, context.draft.value_errors)
            elif answer:
                self._fork(source, step, context.draft.config() if answer == FORM else None)
        except UserError as error:
            show_error(context, error)

    def _fork(self, source: RunFolder, step: int, config: TrainConfig | None) -> None:
        """Check a fork in a thread, and start it. config: None for the run's own."""
        from ui.actions.forking import prepared_fork

        context = self._context
        if (copy := prepared_fork(context, source, step, config)) is None:
            return
        self.is_checking = True
        context.act.refresh()
        context.widgets.jobs.run(copy, self._forked, self._check_failed)

    def attach(self, folder: Path) -> None:
        """Show a run of the runs folder."""
        session = self._context.session
        if session.is_running and session.folder is not None and session.folder.path != folder:
            self._context.act.show_message(self.start_blocked_reason())
            return
        try:
            session.attach(folder)
        except UserError as error:
            show_error(self._context, error)
            return
        self._context.act.show_page("run")
        self._context.act.save_state_soon()

    def open_path(self, path: Path) -> None:
        """Open a folder or a file with the desktop's own program."""
        import subprocess

        from ui.widgets.clipboard import copy_text

        # With its path: Windows would look for a program in the current folder first.
        explorer = str(Path(os.environ.get("SYSTEMROOT", "C:/Windows"), "explorer.exe"))
        name = "open" if sys.platform == "darwin" else "xdg-open"
        opener = explorer if sys.platform == "win32" else find_program(name)
        try:
            if not opener:
                raise FileNotFoundError(name)
            subprocess.Popen(
                [opener, str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            copy_text(self._context.root, str(path))
            self._context.act.show_message(
                f"No file manager was found. The path was copied: {path}"
            )

    def _send(self, command: CommandName) -> None:
        try:
            self._context.session.send(command)
        except UserError as error:
            show_error(self._context, error)
        self._context.act.refresh()

    def _leave(self, leaving: Leaving) -> None:
        """End the run, also where it is to end already; ask what may be lost."""
        from ui.dialogs.stop_dialogs import ask_before_discard, ask_to_end

        pending = self._context.session.pending_command
        chosen: Leaving | Literal["end", ""] = leaving
        if pending is not None and leaving in LEAVING[: LEAVING.index(pending.name) + 1]:
            chosen = ask_to_end(self._context)
        elif leaving == "discard":
            chosen = ask_before_discard(self._context)
        if chosen == "end":
            self.kill()
        elif chosen:
            self._send(chosen)

    def _confirm_resumed_code(self) -> bool:
        """Return whether all functions of the user that the displayed run needs may be run.

        Raises:
            UserError: If its config cannot be read.
        """
        from ui.dialogs.trust_dialog import confirm_run

        context, folder = self._context, self._context.session.folder
        if folder is None or context.session.has_worker:
            return True
        config = resolve(load_document(folder.config, goes_on=True), source=str(folder.config))
        return confirm_run(context, folder, config, is_new=False)

    def _confirm_new_run(self) -> bool:
        """Ask whether to start a new run or resume the paused one; return whether to start."""
        context = self._context
        name = context.session.folder.name if context.session.folder else "the run"
        answer = ask(
            context,
            f"Resume “{name}” or start a new run?",
            f"“{name}” is paused at step {context.session.state.step:,}. Resume continues with the "
            "settings it was started with; a new run uses the current settings.",
            [
                Choice("resume", "Resume", "primary"),
                Choice("new", "Start a new run"),
                Choice("", "Cancel"),
            ],
        )
        if answer == "resume":
            self.resume()
        return answer == "new"

    def _checked(
        self,
        config: TrainConfig,
        file_settings: FileSettings,
        found: list[Problem],
        then: Callable[[TrainConfig], None],
    ) -> None:
        self.is_checking = False
        context = self._context
        context.draft.set_file_problems(found, file_settings)
        errors = [problem for problem in found if problem.severity == "error"]
        if errors:
            context.act.refresh()
            once_free(context.root, partial(show_problems, context, errors))
            return
        try:
            then(config)
        except UserError as error:
            context.act.refresh()
            report_failure(context, error)
            return
        context.window_state.remember_model(context.draft.value("model.path"))
        context.act.save_state_soon()

    def _start(self, config: TrainConfig) -> None:
        self._context.session.start(config)
        self._context.act.show_page("run")

    def _enqueue(self, sweeps: Sequence[str], config: TrainConfig) -> None:
        """Add runs of a checked config to the queue.

        The forecast of one is the form's. With other values than the form's each of them is checked
        too, in a thread, and the page of the queue forecasts each.
        """
        from onetrainer.queue.freeze import freeze
        from onetrainer.queue.queue import Queue

        context = self._context
        forecasts = context.forecasts
        answer = None if forecasts.is_outdated else forecasts.answer
        seconds = answer.time.get("run_seconds", 0.0) if answer else 0.0

        def add(runs: list[RunFolder], seconds: float) -> list[RunFolder]:
            Queue().add(runs, seconds)
            return runs

        def added(runs: list[RunFolder]) -> None:
            self.is_checking = False
            context.act.refresh()
            context.act.show_page("queue")
            what = f"“{runs[0].name}” was" if len(runs) == 1 else f"{len(runs):,} runs were"
            # Also in place of the offer to add it, which would do so again.
            context.act.show_message(f"{what} added to the page Queue.")

        if not sweeps:
            added(add(freeze(config), seconds))
            return
        self.is_checking = True
        context.act.refresh()
        context.widgets.jobs.run(
            lambda: add(freeze(config, sweeps, check=startable), 0.0), added, self._check_failed
        )

    def _forked(self, folder: RunFolder) -> None:
        self.is_checking = False
        try:
            self._context.session.start_in(folder)
        except UserError as error:
            report_failure(self._context, error)
        self._context.act.show_page("run")
        self._context.act.save_state_soon()

    def _check_failed(self, error: Exception) -> None:
        self.is_checking = False
        self._context.act.refresh()
        report_failure(self._context, error)
