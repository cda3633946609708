"""The buttons that the banner offers for a failure: from the catalog, and what the error names."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from onetrainer.errors import Fix, UserError
from onetrainer.json_file import read_json
from onetrainer.presets.presets import value_at
from onetrainer.run.events import Failed
from onetrainer.run.failures import FAILURES, Failure
from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.messages.problems import fix_label, settings_in
from ui.model.form_fields import find_setting

_MOST_SETTINGS = 2

_GUARD = "objective.evaluation.guard"


@dataclass(frozen=True)
class Remedy:
    """A button: its label, and what it does."""

    label: str
    do: Callable[[], object] = field(compare=False)


@dataclass(frozen=True)
class Remedies:
    """The main button for a failure, buttons that go to settings, and the first of these settings.

    main: None where the banner's own buttons are all there is. setting: Its path; "" for none.
    """

    main: Remedy | None = None
    places: tuple[Remedy, ...] = ()
    setting: str = ""


def remedies_of(
    context: Context, folder: RunFolder, name: str, failed: Failed | None = None
) -> Remedies:
    """Return the buttons for a kind of failure; also for one that is in no catalog.

    failed: The event of the failure; None for a worker that reported none.
    """
    known, document = FAILURES.get(name), config_of(folder)
    settings = list(_settings(known, failed, document))[:_MOST_SETTINGS]
    places = [go_to(context, path) for path in settings]
    main = None
    changes = _changes(known, failed, document)
    if changes:
        main = Remedy(_label_of(changes), partial(context.act.resume, changes))
    elif known is not None and known.button != "setting":
        main = _button(context, folder, known, failed)
        if known.button == "folder":  # what to do when that is done
            places.insert(0, _resume(context, folder))
    if main is None and places:
        main, *places = places
    return Remedies(main, tuple(places), settings[0] if settings else "")


def go_to(context: Context, path: str) -> Remedy:
    """Return the button that goes to a setting, and offers to apply it to the run."""
    setting = find_setting(path)
    label = setting.ui.label if setting else path
    return Remedy(f"Go to “{label}”", partial(context.act.mend, path))


def check_images(context: Context) -> Remedy:
    """Return the button that goes to what examines images."""
    return Remedy("Check the images", context.act.check_images)


def _button(
    context: Context, folder: RunFolder, known: Failure, failed: Failed | None
) -> Remedy | None:
    """Return the button that the catalog names, other than for a setting."""
    act = context.act
    match known.button:
        case "resume":
            return _resume(context, folder)
        case "folder":
            place = Path(failed.place) if failed and failed.place else folder.path
            existing = next(path for path in (place, *place.parents) if path.is_dir())
            return Remedy("Open folder", partial(act.open_path, existing))
        case "examine":
            return Remedy("Check this computer", act.examine)
        case "report" | "setting":
            return None


def past_the_guard(context: Context, folder: RunFolder) -> Remedy | None:
    """Return the button that goes on from where the guard stopped; None if it would not stop."""
    if value_at(config_of(folder), _GUARD) == "warn":
        return None
    return Remedy("Go on, and only warn", partial(context.act.resume, {_GUARD: "warn"}))


def _resume(context: Context, folder: RunFolder) -> Remedy:
    return Remedy(f"Resume from {folder.resume_place()}", context.act.resume)


def _settings(
    known: Failure | None, failed: Failed | None, document: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the settings to look at, the likeliest first."""
    found = [known.setting] if known else []
    if failed is not None:
        found += _with_value(failed, document)
        found += settings_in(" ".join((failed.remedy, failed.what, failed.expected)))
    yield from (path for path in dict.fromkeys(found) if path)


def _with_value(failed: Failed, document: Mapping[str, Any]) -> list[str]:
    """Return the setting whose value a failure is about, which the message begins with."""
    fitting = [
        (len(value), path)
        for path, value in _texts(document)
        if failed.what.startswith(f"{value}:")
        or (failed.place and Path(failed.place).is_relative_to(value))
    ]
    return [max(fitting)[1]] if fitting else []


def _texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield paths and values of all texts of a config."""
    if isinstance(value, str) and value:
        yield path, value
    inner: Mapping[str, object] = {}
    if isinstance(value, Mapping):
        inner = value
    elif isinstance(value, list):
        inner = {str(index): entry for index, entry in enumerate(value)}
    for key, each in inner.items():
        yield from _texts(each, f"{path}.{key}" if path else key)


def _changes(
    known: Failure | None, failed: Failed | None, document: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the changes that prevent the failure and that the run's config does not have yet."""
    changes = dict(failed.changes) if failed else {}
    for path, factor in known.scaled.items() if known else ():
        if isinstance(value := value_at(document, path), int | float):
            changes[path] = float(f"{value * factor:.6g}")
    return {path: value for path, value in changes.items() if value_at(document, path) != value}


def _label_of(changes: Mapping[str, Any]) -> str:
    if len(changes) > 1:
        return "Apply and resume"
    return f"{fix_label(Fix(*next(iter(changes.items()))), '')} and resume"


def config_of(folder: RunFolder) -> Mapping[str, Any]:
    """Return the config of a run; empty if it cannot be read."""
    try:
        return read_json(folder.config)
    except UserError:
        return {}
