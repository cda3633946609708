"""What the preset menu does: open, save, save as, reset, and the demo."""

import tkinter as tk
from functools import partial
from pathlib import Path

from onetrainer.errors import ProblemsError, UserError
from onetrainer.presets.presets import BUILT_IN, Preset
from onetrainer.run.user_folder import user_folder
from ui.context import Context, Offer
from ui.dialogs.dialogs import Choice, ask, ask_name, list_changes, show_error, show_problems
from ui.dialogs.file_dialogs import choose_preset
from ui.dialogs.preset_list import MenuActions, PresetMenu
from ui.model.document_source import Source
from ui.model.draft import Draft
from ui.model.form_fields import display_text, edit_text

_FORBIDDEN = '\\:*?"<>|'


class PresetActions:
    """Asks before anything is lost, and shows a person what cannot be read or written."""

    def __init__(self, context: Context, demo: Path) -> None:
        self._context = context
        self._demo = demo
        actions = MenuActions(
            self.open_file, self.save, self.save_as, self.reset, self.load, self.load_demo
        )
        self.menu = PresetMenu(context, demo, actions)
        self._is_making_demo = False

    def show_menu(self, anchor: tk.Misc | None = None) -> None:
        """Opens the menu below the header's button."""
        self.menu.show(anchor or self._context.kit.named["presets"])

    def open_file(self) -> None:
        """Lets a person choose a preset file."""
        source = self._context.draft.source.path
        path = choose_preset(str(source) if source else "")
        if path:
            self.load(Path(path))

    def load(self, path: Path, preset: Preset | None = None) -> list[str]:
        """Takes a preset over, and tells what was set aside for it; undo brings that back.

        Gives the settings that were set aside.
        """
        act = self._context.act
        act.commit()
        try:
            replaced = self._context.draft.load(path, preset=preset)
        except UserError as error:
            show_error(self._context.kit, self._context.root, error)
            return []
        act.save_state_soon()
        # Whoever looks at settings sees there what the preset says of them.
        if not act.is_on_settings and not self._context.session.is_running:
            act.show_page("model")
        self.report_replaced_changes(len(replaced))
        return replaced

    def report_replaced_changes(self, count: int) -> None:
        """Says that another preset has taken the place of changes, and offers them back."""
        if not count:
            return
        draft = self._context.draft
        loaded = draft.last_change
        changes = f"{count} changes were" if count != 1 else "change was"
        self._context.act.show_message(
            f"{draft.source.name} is open; your {changes} set aside.",
            Offer("Undo", "undo open", draft.undo, lambda: draft.last_change is loaded),
        )

    def save(self) -> bool:
        """Saves over the preset, or asks for a name; whether it has been saved."""
        self._context.act.commit()
        source = self._context.draft.source
        if source.path is None or not source.can_overwrite:
            return self.save_as()
        return self._save(source.path, source.description)

    def save_as(self) -> bool:
        """Asks for a name and saves; whether it has been saved."""
        context = self._context
        context.act.commit()
        try:
            context.draft.config()
        except ProblemsError as error:
            show_problems(context.kit, context.root, error.problems, context.act.jump)
            return False
        folder = user_folder() / "presets"
        source = context.draft.source
        name, description = suggested_name(source)
        words = f"Kept in {folder}"
        while True:
            name, description = ask_name(
                context.kit, context.root, name=name, place=words, description=description
            )
            if not name:
                return False
            wrong = name_error(name)
            path = folder / f"{name.removesuffix('.json').strip('/')}.json"
            if wrong:
                words = f"⚠ {wrong}"
            elif path.exists() and path != source.path and not self._may_replace(path):
                words = "⚠ A preset of this name is there already."
            else:
                return self._save(path, description)

    def reset(self) -> None:
        """Takes every value back to the preset's; can be undone."""
        self._context.act.commit()
        self._context.draft.reset_all()

    def show_changes(self) -> None:
        """Lists what differs from the preset; each change leads to its setting."""
        context = self._context
        context.act.commit()
        draft = context.draft
        lines = [
            (path, _value_text(draft, path, draft.base_value(path)), now)
            for path in draft.changed()
            for now in [_value_text(draft, path, draft.value(path))]
        ]
        answer = list_changes(context.kit, context.root, draft.source.name, lines)
        if answer == "reset":
            self.reset()
        elif answer:
            context.act.jump(answer)

    def load_demo(self) -> None:
        """Makes the demo where it is not there yet, and loads it."""
        if self._is_making_demo:
            return
        config = self._demo / "demo.json"
        if config.is_file():
            self.load(config)
            return
        self._is_making_demo = True
        self._context.act.show_message("The demo is being made: a small model and some pictures …")
        self._context.kit.jobs.run(
            partial(_make_demo, self._demo), self._demo_written, self._demo_failed
        )

    def _demo_written(self, config: Path) -> None:
        self._is_making_demo = False
        if not self.load(config):
            self._context.act.show_message("The demo is ready. Press Start to train it.")

    def _demo_failed(self, error: Exception) -> None:
        self._is_making_demo = False
        if not isinstance(error, UserError | OSError | ImportError):
            raise error
        what = error if isinstance(error, UserError) else UserError(f"The demo: {error}")
        show_error(self._context.kit, self._context.root, what)

    def _may_replace(self, path: Path) -> bool:
        choices = [Choice("yes", "Replace", "danger"), Choice("", "Cancel")]
        text = f"{path} is there already."
        context = self._context
        return ask(context.kit, context.root, "Replace the preset?", text, choices) == "yes"

    def _save(self, path: Path, description: str) -> bool:
        try:
            self._context.draft.save(path, description=description)
        except ProblemsError as error:
            context = self._context
            show_problems(context.kit, context.root, error.problems, context.act.jump)
            return False
        except UserError as error:
            show_error(self._context.kit, self._context.root, error)
            return False
        self._context.act.show_message(f"Saved: {path}")
        return True


def suggested_name(source: Source) -> tuple[str, str]:
    """A name and a description for a preset made of a source; its own only if it is yours."""
    if source.can_overwrite and source.name:
        return source.name, source.description
    is_built_in = source.path is not None and source.path.is_relative_to(BUILT_IN)
    if is_built_in:
        return f"my-{source.name.rpartition('/')[2]}", ""
    return source.name or "my-preset", ""


def name_error(name: str) -> str:
    """Why a preset cannot have a name; "" if it can."""
    wrong = [sign for sign in _FORBIDDEN if sign in name]
    if wrong:
        return f"A preset's name cannot contain {' '.join(wrong)}"
    parts = name.removesuffix(".json").strip("/").split("/")
    if any(not part.strip() or part.strip() != part or part.endswith(".") for part in parts):
        return "A preset's name, and that of a folder before it, is text that ends without a dot."
    return ""


def _make_demo(folder: Path) -> Path:
    # Loaded late: only the first start needs it.
    from onetrainer.demo.write import write_demo

    return write_demo(folder).config


def _value_text(draft: Draft, path: str, value: object) -> str:
    setting = draft.setting(path)
    return display_text(value, setting) if setting else edit_text(value)
