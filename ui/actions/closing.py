"""Closing of the window, and the question about a running training."""

from collections.abc import Callable

from onetrainer.errors import UserError
from ui.context import Context
from ui.dialogs.dialogs import Choice, ask, show_error

_POLL_MS = 100
_ENDED = "It has ended meanwhile. Close the window again to leave."


class Closing:
    """Closes the window after asking about a running training; saves the draft without asking."""

    def __init__(self, context: Context, end: Callable[[], None]) -> None:
        self._context = context
        self._close = end
        self._is_asking = False

    def ask(self) -> None:
        """Close the window unless the user cancels."""
        if self._is_asking:
            return
        self._is_asking = True
        try:
            self._ask()
        finally:
            self._is_asking = False

    def _ask(self) -> None:
        self._context.act.commit()
        act, session = self._context.act, self._context.session
        if (work := act.working()) and not self._is_to_end(work):
            if not act.working():
                act.show_message(_ENDED)
            return
        was_running = session.is_running
        answer = self._ask_about_run() if was_running else "keep"
        if answer == "":
            if was_running and not session.is_running:
                act.show_message(_ENDED)
            return
        if answer == "keep" or not session.is_running:
            self._close()
            return
        try:
            session.send("pause" if answer == "pause" else "stop")
        except UserError as error:
            show_error(self._context, error)
            return
        act.show_page("run")
        act.show_message("Saving the run; the window closes when it is done …")
        self._close_after_run()

    def _is_to_end(self, work: str) -> bool:
        choices = [Choice("", "Stay", "primary"), Choice("end", "Close and stop it")]
        text = f"{work} It ends with the window; what it has finished by now is kept."
        title, act = "Something is still at work", self._context.act
        answer = ask(self._context, title, text, choices, holds=lambda: bool(act.working()))
        return answer == "end"

    def _ask_about_run(self) -> str:
        context = self._context
        name = context.session.folder.name if context.session.folder else "The run"
        return ask(
            context,
            "Training is still running",
            f"“{name}” is at step {context.session.state.step}. It can continue without the "
            "window; the next window reconnects to it.",
            [
                Choice("keep", "Keep training in the background", "primary"),
                Choice("pause", "Pause"),
                Choice("stop", "Stop and save"),
                Choice("", "Cancel"),
            ],
            holds=lambda: context.session.is_running,
        )

    def _close_after_run(self) -> None:
        if self._context.session.is_running:
            self._context.root.after(_POLL_MS, self._close_after_run)
        else:
            self._close()
