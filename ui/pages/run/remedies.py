"""The button that the banner offers for a failure, from the catalog of failures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from onetrainer.errors import Fix, UserError
from onetrainer.json_file import read_json
from onetrainer.presets.presets import value_at
from onetrainer.run.events import Failed
from onetrainer.run.failures import FAILURES
from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.messages.problems import fix_label
from ui.model.form_fields import find_setting


@dataclass(frozen=True)
class Remedy:
    """A button: its label, and what it does."""

    label: str
    do: Callable[[], object] = field(compare=False)


def remedy_of(
    context: Context, folder: RunFolder, name: str, failed: Failed | None = None
) -> Remedy | None:
    """Return the button for a kind of failure; None for those that the banner has buttons for.

    failed: The event of the failure; None for a worker that reported none.
    """
    known, act = FAILURES.get(name), context.act
    if known is None:
        return None
    changes = _new_changes(folder, failed.changes if failed else {})
    if changes:
        label = "Apply and resume"
        if len(changes) == 1:
            label = f"{fix_label(Fix(*next(iter(changes.items()))), '')} and resume"
        return Remedy(label, partial(act.resume, changes))
    match known.button:
        case "resume":
            return Remedy(f"Resume from {folder.resume_place()}", act.resume)
        case "setting":
            setting = find_setting(known.setting)
            label = setting.ui.label if setting else known.setting
            return Remedy(f"Go to “{label}”", partial(act.jump, known.setting))
        case "folder":
            place = Path(failed.place) if failed and failed.place else folder.path
            existing = next(path for path in (place, *place.parents) if path.is_dir())
            return Remedy("Open folder", partial(act.open_path, existing))
        case "examine":
            return Remedy("Check this computer", act.examine)
        case "report":
            return None


def _new_changes(folder: RunFolder, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that the run's config does not have yet."""
    if not changes:
        return {}
    try:
        document = read_json(folder.config)
    except UserError:
        return {}
    return {path: value for path, value in changes.items() if value_at(document, path) != value}
