"""Answers questions about what is on the screen, for tests. Acting is left to the pointer."""

import gc
import json
import math
import os
import socket
import sys
import time
import tkinter as tk
import traceback
from collections.abc import Callable
from pathlib import Path
from tkinter import ttk
from typing import Any

from onetrainer.run.user_folder import user_folder
from tests.ui.inspected_lists import contents, lists, selected
from tests.ui.inspected_work import Timing, Work
from ui.app import App
from ui.background.dataset_preview import format_bucket
from ui.forms.amount import AmountEditor
from ui.forms.editors import EntryEditor
from ui.model.preset_origin import PresetOrigin
from ui.pages.presets.page import PresetsPage
from ui.pages.preview.page import PreviewPage
from ui.pages.run.page import RunPage
from ui.pages.samples.page import SamplesPage
from ui.pages.settings.cost_card import CostCard
from ui.pages.settings.memory_card import MemoryCard
from ui.pages.settings.page import SettingsPage
from ui.pages.settings.summary_card import SummaryCard
from ui.widgets import button as buttons
from ui.widgets.button import Button
from ui.widgets.widgets import focused

Answer = dict[str, object]
_MOST_BYTES = 65536


def inspect_through(app: App, descriptor: int) -> None:
    """Answers each line of JSON that comes in on a socket with one line."""
    channel = socket.socket(fileno=descriptor)
    timing, work = Timing(app.pump), Work(app.jobs)

    def handle(line: str) -> None:
        # What Tk does when it is idle, such as placing and drawing, a busy machine does late.
        app.root.update_idletasks()
        app.root.winfo_pointerxy()  # what was drawn has reached the screen
        try:
            answer = _answer(app, timing, work, json.loads(line))
        except Exception:  # noqa: BLE001 - whoever asked hears of it, and need not wait
            answer = {"raised": traceback.format_exc()}
        channel.sendall((json.dumps(answer, default=str) + "\n").encode())

    def readable(_: object, __: int) -> None:
        data = channel.recv(_MOST_BYTES)
        if not data:
            app.root.tk.deletefilehandler(channel)
            return
        for line in data.decode().splitlines():
            # Clicks and keys that came before the question go first. The server's answer comes
            # after all of them; the second turn of the loop comes after they were dealt with.
            app.root.winfo_pointerxy()
            app.root.after(1, lambda line=line: app.root.after(1, handle, line))

    app.root.tk.createfilehandler(channel, tk.READABLE, readable)


def _answer(app: App, timing: Timing, work: Work, question: dict[str, str]) -> Answer:
    questions: dict[str, Callable[[], Answer]] = {
        "state": lambda: _state(app, timing) | {"work": work.going_on(app.context.images)},
        "widget": lambda: _widget(app, question["name"]),
        "names": lambda: {"names": sorted(app.widgets.named)},
        "widgets": lambda: {name: _widget(app, name) for name in app.widgets.named},
        "counts": lambda: _counts(app),
        "seconds of a refresh": lambda: {"seconds": _refresh_seconds(app)},
        "value": lambda: _value(app, question["path"]),
        "unit": lambda: {"unit": _unit(app, question["path"])},
        "modules": lambda: {"modules": sorted(name.partition(".")[0] for name in sys.modules)},
        "models": lambda: {"models": [model.text for model in app.context.models.models]},
        "name models": lambda: _name_models(app, question["path"]),
        "load": lambda: _load(app, question["path"]),
        "begin": lambda: _begin(app, question["path"], question["mode"]),
        "mode": lambda: os.environ.update(FAKE_WORKER=question["mode"]) or {},
        "ignore clicks": lambda: _ignore_clicks(app, math.inf),
        "take clicks": lambda: _ignore_clicks(app, 0),
        "forget gaps": timing.forget,
        "forget errors": lambda: _forget_errors(app),
    }
    return questions[question["ask"]]()


def _ignore_clicks(app: App, seconds: float) -> Answer:
    """How long buttons that take another's place ignore clicks; those there begin again."""
    buttons._IGNORE_CLICKS_S = seconds
    for button in app.widgets.buttons.values():
        button._ignores_clicks_until = 0.0
    return {}


def _state(app: App, timing: Timing) -> Answer:
    session, state = app.session, app.session.state
    samples = app._views.get("samples")
    run = app._views.get("run")
    page = app._views.get(app.page)
    focus = focused(app.root)
    return {
        "page": app.page,
        "focus": next(
            (name for name, w in app.widgets.named.items() if _holds(w, focus)), str(focus)
        ),
        "status": state.status if session.folder else "",
        "is_running": session.is_running,
        "pending": session.pending_command.name if session.pending_command else "",
        "folder": str(session.folder.path) if session.folder else "",
        "step": state.step,
        "points": len(state.curve),
        "samples": len(state.samples),
        "is_dragging": app.widgets.is_dragging,
        "validation": _validation(run) if isinstance(run, RunPage) else "",
        "rewards": _rewards(run) if isinstance(run, RunPage) else "",
        "sample_place": [samples._prompt, samples._step]
        if isinstance(samples, SamplesPage)
        else [],
        "sample_shown": samples.viewer.shown_step if isinstance(samples, SamplesPage) else -1,
        "cost": _texts(_card(page, CostCard), "_time", "_note", "_passes")
        if isinstance(page, SettingsPage)
        else [],
        "summary": _summary(page) if isinstance(page, SettingsPage) else [],
        "help": page._help.path if isinstance(page, SettingsPage) else "",
        "presets": _presets(page) if isinstance(page, PresetsPage) else {},
        "preview": _preview(page) if isinstance(page, PreviewPage) else {},
        "forecast": app.context.forecasts.answer is not None,
        "memory": _memory(page) if isinstance(page, SettingsPage) else [],
        "banner": run.banner.text if isinstance(run, RunPage) else "",
        "banner_buttons": run.banner.buttons if isinstance(run, RunPage) else [],
        "run_line": str(app.shell.footer._run.cget("text")),
        "message": _message(app),
        "problems": [str(problem) for problem in app.draft.problems],
        "preset": app.draft.origin.name,
        "changed": app.draft.changed(),
        "marks": _marks(app),
        "gap_ms": timing.gap_ms,
        "turn_ms": timing.tick_ms,
        "turns": app.pump.ticks,
        "mode": app.widgets.theme.mode,
        "scale": app.widgets.theme.scale,
        "resizing": app._is_resizing,
        "place": [
            app.root.winfo_rootx(),
            app.root.winfo_rooty(),
            app.root.winfo_width(),
            app.root.winfo_height(),
        ],
        "errors": app.error_log.tracebacks,
        "checking": app.runs.is_checking,
        **lists(page),
        "is_prepared": app.preparations.is_done,
    }


def _texts(part: Any, *names: str) -> list[str]:
    """The texts of those labels of a part that are shown; none where it is hidden itself."""
    is_shown = part is not None and part._outer.winfo_manager()
    labels = [getattr(part, name) for name in names] if is_shown else []
    return [label.text for label in labels if label.winfo_manager()]


def _card(page: SettingsPage, kind: type) -> Any:
    return next((card for card in page._cards if isinstance(card, kind)), None)


def _summary(page: SettingsPage) -> list[str]:
    card = _card(page, SummaryCard)
    return card._lines.text.splitlines() if card is not None else []


def _memory(page: SettingsPage) -> list[str]:
    card = _card(page, MemoryCard)
    lines = _texts(card, "_verdict", "_about", "_fixes_title", "_note")
    fixes = [row._fix for row in card._fixes] if card else []
    return lines + [text for fix in fixes if fix for text in (fix.text, fix.details)]


def _message(app: App) -> str:
    return app.shell._message.text if app.shell._bar.winfo_manager() else ""


def _marks(app: App) -> dict[str, str]:
    marks = {name: item.mark for name, item in app.shell.nav._items.items()}
    return {name: f"{tone} {text}" for name, (text, tone) in marks.items() if text}


def _validation(run: RunPage) -> str:
    card = run._validation
    lines = _texts(card, "_verdict", "_summary")
    if lines and card._details.winfo_manager():
        lines += card._facts.lines
    return "\n".join(lines)


def _rewards(run: RunPage) -> str:
    part = run._rewards
    if not part._grid_card.winfo_manager():
        return ""
    labels = (part._verdict, part._summary, part._scores)
    lines = [label.text for label in labels if label.winfo_manager()]
    titles = [column.title for column in part._columns]
    return "\n".join([run._chart._chart_name, *lines, *titles])


def _presets(page: PresetsPage) -> Answer:
    chosen, details = page.table.chosen, page.details
    return {
        "rows": [row.preset.name for row in page.table.rows],
        "chosen": chosen.preset.name if chosen else "",
        "needs": details._needs.text,
        "title": details._title.text,
        "changes": details._list.get("1.0", "end"),
        "is_compared": not page._timer,
    }


def _preview(page: PreviewPage) -> Answer:
    plan, check, image = page.plan, page.check, page.plan.image
    return {
        "plan": {
            "message": plan._message.text,
            "facts": [f"{fact.label}: {fact.text}" for fact in plan._overview.facts],
            "buckets": [
                f"{format_bucket(bucket.bucket)}: {len(bucket.images)}" for bucket in plan._buckets
            ],
            "title": f"{plan._title.text}: {plan._bucket_summary.text}",
            "image": [image._name.text, image._done.text],
        },
        "check": {
            "message": check._message.text if check else "",
            "groups": [f"{each.title}: {each.count}" for each in (check._groups if check else ())],
            "findings": [
                f"{each.path.name}: {each.kind}" for each in (check._findings if check else ())
            ],
        },
    }


def _widget(app: App, name: str) -> Answer:
    widget = app.widgets.named.get(name)
    if widget is None or not widget.winfo_exists():
        return {"exists": False}
    button: Button | None = app.widgets.buttons.get(name)
    has_text = button is not None or isinstance(widget, ttk.Label)
    return {
        "exists": True,
        "shown": bool(widget.winfo_viewable()),
        "x": widget.winfo_rootx(),
        "y": widget.winfo_rooty(),
        "width": widget.winfo_width(),
        "height": widget.winfo_height(),
        "wanted_width": widget.winfo_reqwidth(),
        "on_page": _holds(app.shell.stage.outer, widget),
        "enabled": button.is_enabled if button else True,
        # A dialog that has it is where it stays: the window manager may move it until then.
        "has_keyboard": _holds(widget.winfo_toplevel(), focused(app.root) or app.root),
        "reason": button.reason if button else "",
        "kind": button._kind if button else "",
        "text": str(widget.cget("text")) if has_text else contents(widget),
        "selected": selected(widget),
    }


def _value(app: App, path: str) -> Answer:
    problem = app.draft.problem(path)
    error = ""
    for view in app._views.values():
        row = view.form.row(path) if isinstance(view, SettingsPage) else None
        if row is not None:
            error = row.error
    return {
        "value": app.draft.value(path),
        "problem": str(problem) if problem else "",
        "error": error,
    }


def _unit(app: App, path: str) -> str:
    """The text behind the number at a path."""
    views = (view for view in app._views.values() if isinstance(view, SettingsPage))
    editors = (row.editor for view in views if (row := view.form.row(path)) is not None)
    for editor in editors:
        if isinstance(editor, AmountEditor):
            return editor.unit.get() if editor.read() else str(editor._label.cget("text"))
        if isinstance(editor, EntryEditor):
            return editor._unit.cget("text")
    return ""


def _refresh_seconds(app: App) -> float:
    """Processor time of showing a change on the current page, the mean of several."""
    start, times = time.process_time(), 20
    for steps in range(times):
        app.draft.set("training.steps", 1000 + steps)
        app.refresh()
        app.root.update_idletasks()
    app.draft.undo()
    return (time.process_time() - start) / times


def _counts(app: App) -> Answer:
    gc.unfreeze()
    gc.collect()
    objects = [each for each in gc.get_objects() if isinstance(each, tk.Misc | tk.Variable)]
    shown = [each for each in objects if isinstance(each, tk.Misc) and each.winfo_exists()]
    commands = int(app.root.tk.eval("llength [info commands]"))
    return {"widgets": len(shown), "commands": commands, "objects": len(objects)}


def _load(app: App, path: str) -> Answer:
    # The one thing that is done for a test, not only reported: the file chooser is Tk's, not ours.
    app.presets.load(Path(path))
    app.root.update()
    return {}


def _name_models(app: App, path: str) -> Answer:
    app.context.models.add_folder(path)  # what a file chooser does, which may be the desktop's
    return {}


def _forget_errors(app: App) -> Answer:
    errors = list(app.error_log.tracebacks)
    app.error_log.tracebacks.clear()
    return {"errors": errors}


def _begin(app: App, path: str, mode: str) -> Answer:
    """Make the window what it is when it has just been opened with a config: for another test."""
    os.environ["FAKE_WORKER"] = mode
    app.session.kill()
    generation = app.session.generation + 1
    app.session.__init__()  # type: ignore[misc]  # others hold this very session
    app.session.generation = generation
    for end in set(app.jobs.on_close) - {app.context.images._close}:  # whose widgets stay
        end()
    app.context.forecasts.answer = app.context.forecasts.failed = None
    for kept in ("advanced", "models", "model_folders"):
        getattr(app.window_state, kept).clear()
    (user_folder() / "run-folders.json").unlink(missing_ok=True)
    for view in app._views.values():
        if isinstance(view, SettingsPage):
            view.form._revealed.clear()
            view.form.with_advanced = False
            view._switch.show(False)
            view._help.clear()
        if isinstance(view, PreviewPage):
            app.context.check.answer = view.plan.query.answer = view.plan._shown = None
            grids = [view.plan._bucket_list, view.plan._thumbnails]
            if (check := view.check) is not None:
                check._groups, check._shown = [], None
                grids += [check._group_list, check._list]
            for grid in grids:
                grid.show(0, -1)  # what is hidden is drawn, too
    app.draft.restore({}, {}, PresetOrigin())
    app.draft.load(Path(path))
    app.shell._hide_bar()
    app.root.geometry(app._default_size())
    app.show_page("model")
    app.root.focus_force()
    app.root.update()
    return {}


def _holds(widget: tk.Misc, focus: tk.Misc | None) -> bool:
    while focus is not None:
        if focus is widget:
            return True
        focus = focus.master
    return False
