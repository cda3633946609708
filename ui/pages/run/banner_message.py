"""What the banner of the run page says: how the run ended and what to do next, or its warnings."""

from dataclasses import dataclass

from onetrainer.config.methods.adapters import WITH_ADAPTERS
from onetrainer.errors import sentence
from onetrainer.presets.presets import value_at
from onetrainer.run.commands import SILENCE
from onetrainer.run.events import Failed, Finished, Stopped
from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.messages.problems import capitalized, settings_in, with_labels
from ui.pages.run.remedies import (
    Remedy,
    check_images,
    config_of,
    go_to,
    past_the_guard,
    remedies_of,
)
from ui.progress.run_state import RunState
from ui.theme.palette import Role

_MOST_WARNINGS = 3
_LEFT_OUT = "left out: "  # as the worker begins what it says of an image
MOST_PLACES = 3


@dataclass(frozen=True)
class Message:
    """Content of the banner.

    Attributes:
        has_log: Whether the worker's log may say more.
        remedy: Its main button.
        places: Buttons that go to settings.
    """

    tone: Role
    title: str
    text: str = ""
    can_open_output: bool = False
    has_log: bool = False
    can_end: bool = False
    remedy: Remedy | None = None
    places: tuple[Remedy, ...] = ()


def message_of(context: Context) -> Message | None:
    """Return the message about the displayed run; None if there is nothing to say."""
    session = context.session
    state, folder = session.state, session.folder
    if folder is None:
        return None
    if state.unexpected_exit is not None:
        left = state.unexpected_exit
        where = f"continues from {folder.resume_place()}"
        resume = f"“Resume” {where if folder.newest_step() else 'starts from the beginning'}."
        found = remedies_of(context, folder, left.failure)
        if left.was_ended_here:
            return Message("warning", "The process was ended", resume, remedy=found.main)
        return Message(
            "danger",
            "The worker stopped unexpectedly",
            f"{capitalized(sentence(left.what))} {resume}",
            has_log=True,
            remedy=found.main,
            places=found.places,
        )
    match state.ending:
        case Failed() as failed:
            return _failed_message(context, folder, failed)
        case Finished() as done:
            return _finished_message(context, done, folder)
        case Stopped() as stopped:
            return stopped_message(stopped, folder)
    if session.can_kill:
        return Message(
            "warning",
            f"The worker has not answered for {SILENCE:.0f} s",
            "It may be in a long step, or it hangs. “End the process” ends it at once; "
            f"{folder.lost_text()} is lost then, and “Resume” continues from "
            f"{folder.resume_place()}.",
            has_log=True,
            can_end=True,
        )
    if (stall := session.stall) is not None:
        return Message("warning", stall.title, stall.advice, has_log=True)
    return warnings_message(context, state)


def _failed_message(context: Context, folder: RunFolder, failed: Failed) -> Message:
    """Describe a failure, with the labels of the settings that it names."""
    found = remedies_of(context, folder, failed.failure, failed)
    parts = (failed.what, failed.expected, failed.remedy)
    title, *rest = [
        sentence(capitalized(with_labels(part, found.setting))) for part in parts if part
    ]
    return Message(
        "danger", title, " ".join(rest), has_log=True, remedy=found.main, places=found.places
    )


def warnings_message(context: Context, state: RunState) -> Message | None:
    """Return the newest warnings as sentences, each with the button of the setting it names."""
    guard = _guard_warning(state)
    texts = state.warnings[-(_MOST_WARNINGS - bool(guard)) :]
    if not (guard or texts):
        return None
    lines = [sentence(capitalized(with_labels(text))) for text in texts]
    paths = dict.fromkeys(path for text in texts for path in settings_in(text))
    places = [*_places_of_images(context, state), *(go_to(context, path) for path in paths)]
    title = "Warning from the guard" if guard else "Warnings" if len(lines) > 1 else "Warning"
    text = "\n".join([guard, *lines] if guard else lines)
    return Message("warning", title, text, places=tuple(places[:MOST_PLACES]))


def _finished_message(context: Context, done: Finished, folder: RunFolder) -> Message:
    """Describe a run that ended by itself: its outputs and the verdict of the guard."""
    state, places = context.session.state, []
    remedy = past_the_guard(context, folder) if state.is_guarded_end else None
    guard = _guard_warning(state)
    lines, title = [guard, *done.summary], "Training finished"
    if state.is_guarded_end:
        title = "Training stopped by the guard"
    elif state.is_early_end:
        title = "Training ended early"
        lines.append("“Early stopping after” was reached. Raise it to train the remaining steps.")
        places.append(go_to(context, "validation.patience"))
    places += [*_trials_of(context, folder, done), *_places_of_images(context, state)]
    lines += [str(folder.path / output) for output in done.outputs]
    # The summary repeats the verdict of the guard.
    text = "\n".join(line for line in dict.fromkeys(lines) if line)
    tone: Role = "warning" if guard else "good"
    return Message(tone, title, text, can_open_output=True, remedy=remedy, places=tuple(places))


def _trials_of(context: Context, folder: RunFolder, done: Finished) -> list[Remedy]:
    """Return the button that generates images with what was trained, if that is a LoRA."""
    (setting, kinds), outputs = next(iter(WITH_ADAPTERS.items())), done.outputs
    if not outputs or value_at(config_of(folder), setting) not in kinds:
        return []

    def show() -> None:
        context.act.show_page("trial")
        context.act.take_path("lora", str(folder.path / outputs[0]))

    return [Remedy("Try it", show)]


def _places_of_images(context: Context, state: RunState) -> list[Remedy]:
    """Return the button that examines images, if some were left out."""
    is_left_out = any(text.startswith(_LEFT_OUT) for text in state.warnings)
    return [check_images(context)] if is_left_out else []


def _guard_warning(state: RunState) -> str:
    """Return the warning of the guard; "" if it sees no problem."""
    newest = state.rewards.newest
    return newest.message if newest is not None and newest.verdict == "hacking" else ""


def stopped_message(stopped: Stopped, folder: RunFolder) -> Message:
    """Describe a run that was stopped or paused: what is saved and where."""
    text = "No step was trained. “Resume” starts from the beginning."
    title = "Paused" if stopped.reason == "pause" else "Stopped"
    if stopped.reason == "discard":
        title = f"Stopped after step {stopped.step:,}, without saving"
        text = f"“Resume” continues from {folder.resume_place()}."
    elif stopped.step:
        text = f"Saved up to step {stopped.step:,}. “Resume” continues from there."
    because = [sentence(capitalized(stopped.because))] if stopped.because else []
    lines = [*because, text, *(str(folder.path / output) for output in stopped.outputs)]
    has_output = folder.output.is_dir() and any(folder.output.iterdir())
    return Message("warning", title, "\n".join(lines), can_open_output=has_output)
