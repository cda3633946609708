"""Questions about a run that is to end: what would be lost, and whether to wait longer.

They close without an answer when the run has ended meanwhile.
"""

from typing import Literal

from ui.context import Context
from ui.dialogs.dialogs import Choice, ask
from ui.messages.problems import capitalized


def ask_before_discard(context: Context) -> Literal["discard", "stop", ""]:
    """Ask whether the steps since the newest checkpoint may be lost, if there are any."""
    session = context.session
    if session.folder is None or session.state.step <= session.folder.newest_step():
        return "discard"
    text, kept = f"The run is at step {session.state.step:,}.", [Choice("", "Cancel")]
    safe = Choice("stop", "Stop and save", "primary")
    if session.pending_command is not None:
        text += " It is stopping already, and saves after the current step."
        safe, kept = Choice("", "Keep waiting", "primary"), []
    answer = ask(
        context,
        "Stop without saving?",
        f"{text} Without saving no file is written, and {session.folder.lost_text()} is lost; "
        f"“Resume” continues from {session.folder.resume_place()}.",
        [safe, Choice("discard", "Stop without saving", "danger"), *kept],
        holds=lambda: session.is_running,
    )
    return "discard" if answer == "discard" else "stop" if answer == "stop" else ""


def ask_to_end(context: Context) -> Literal["discard", "end", ""]:
    """Ask whether to wait for a run that is stopping already."""
    session = context.session
    pending, folder = session.pending_command, session.folder
    if pending is None or folder is None:
        return ""
    is_saved = pending.name != "discard"
    discard = [Choice("discard", "Stop without saving")] if is_saved else []
    how = "It finishes the current step and ends."
    if is_saved:
        how = (
            "It finishes the current step, saves, and ends. “Stop without saving” leaves the "
            "saving out."
        )
    what = folder.lost_text()
    answer = ask(
        context,
        "The run is already stopping",
        f"{how} “End the process” ends it within the step, if it does not answer. "
        + (f"With either, {what} is lost." if is_saved else f"{capitalized(what)} is lost."),
        [
            Choice("", "Keep waiting", "primary"),
            *discard,
            Choice("end", "End the process", "danger"),
        ],
        holds=lambda: session.is_running,
    )
    return "discard" if answer == "discard" else "end" if answer == "end" else ""
