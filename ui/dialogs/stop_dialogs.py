"""Questions about a run that is to end: what would be lost, and whether to wait longer."""

from typing import Literal

from ui.context import Context
from ui.dialogs.dialogs import Choice, ask


def ask_before_discard(context: Context) -> Literal["discard", "stop", ""]:
    """Ask whether the steps since the newest checkpoint may be lost, if there are any."""
    session = context.session
    if session.folder is None or session.state.step <= session.folder.newest_step():
        return "discard"
    answer = ask(
        context,
        "Stop without saving?",
        f"The run is at step {session.state.step:,}. No file is written, and what was trained "
        f"since {session.folder.resume_place()} is lost; “Resume” continues from there.",
        [
            Choice("stop", "Stop and save", "primary"),
            Choice("discard", "Stop without saving", "danger"),
            Choice("", "Cancel"),
        ],
    )
    return "discard" if answer == "discard" else "stop" if answer == "stop" else ""


def ask_to_end(context: Context) -> Literal["discard", "end", ""]:
    """Ask whether to wait for a run that is stopping already."""
    session = context.session
    pending, folder = session.pending_command, session.folder
    if pending is None or folder is None:
        return ""
    discard = [Choice("discard", "Stop without saving")] if pending.name != "discard" else []
    then = "" if pending.name == "discard" else ", saves,"
    answer = ask(
        context,
        "The run is already stopping",
        f"It finishes the current step{then} and ends. If it does not, its process can be ended "
        f"at once; what was trained since {folder.resume_place()} is lost then.",
        [
            Choice("", "Keep waiting", "primary"),
            *discard,
            Choice("end", "End the process", "danger"),
        ],
    )
    return "discard" if answer == "discard" else "end" if answer == "end" else ""
