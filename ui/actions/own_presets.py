"""What is done to a user's preset files: notes, rename, delete with a way back."""

from collections.abc import Callable
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.presets import own_presets
from onetrainer.presets.find import Preset, preset_name
from ui.context import Context, Offer
from ui.dialogs.dialogs import ask_name, show_error
from ui.model.preset_origin import PresetOrigin


def rename_preset(context: Context, preset: Preset) -> Path:
    """Ask for another name and description of a preset; return its path, which may be the same."""
    name, description, hint = preset.path.stem, preset.description, f"In {preset.path.parent}"
    while True:
        name, description = ask_name(
            context, name=name, hint=hint, description=description, title="Rename preset"
        )
        if not name:
            return preset.path
        try:
            path = own_presets.rename(preset.path, name)
            if description != preset.description:
                own_presets.describe(path, description=description)
        except UserError as error:
            hint = f"{error.what}."
            continue
        _follow(context, preset.path, path, description)
        return path


def delete_preset(context: Context, preset: Preset, restored: Callable[[], object]) -> bool:
    """Move a preset to the deleted ones, and offer to undo it; return whether it was moved.

    restored: Called when it was undone.
    """
    draft, origin = context.draft, context.draft.origin
    try:
        deleted = own_presets.delete(preset.path)
    except UserError as error:
        show_error(context, error)
        return False
    if origin.path == preset.path:
        # Its values stay; Save asks for a name again.
        draft.set_origin(PresetOrigin(origin.name, None, False, origin.description))
    without_file = draft.origin

    def restore() -> None:
        try:
            own_presets.restore(deleted, preset.path)
        except UserError as error:
            show_error(context, error)
            return
        if draft.origin is without_file:
            draft.set_origin(origin)
        context.act.show_message(f"“{preset.name}” is back.")
        draft.notify()
        restored()

    context.act.show_message(
        f"Deleted “{preset.name}”. It is kept as {deleted}.",
        Offer("Undo", "undo delete", restore, deleted.exists),
    )
    return True


def write_notes(context: Context, preset: Preset, notes: str) -> Preset:
    """Write the notes of a preset and return it with them."""
    try:
        own_presets.describe(preset.path, notes=notes)
    except UserError as error:
        context.act.show_message(f"The notes were not saved: {error.what}")
        return preset
    return preset._replace(notes=notes)


def _follow(context: Context, before: Path, path: Path, description: str) -> None:
    """Let the draft follow the file that it was loaded from."""
    origin = context.draft.origin
    if origin.path == before:
        context.draft.set_origin(
            origin._replace(name=preset_name(path), path=path, description=description)
        )
