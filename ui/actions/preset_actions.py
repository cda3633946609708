"""Actions on the preset of the draft: load, save, save as, reset, and the demo."""

from functools import partial
from pathlib import Path

from onetrainer.errors import ProblemsError, UserError
from onetrainer.files.names import name_problem
from onetrainer.presets.find import BUILT_IN, Preset
from onetrainer.run.user_folder import user_folder
from ui.context import Context, Offer
from ui.dialogs.dialogs import Choice, ask, ask_name, list_changes, show_error, show_problems
from ui.model.draft import Draft, Snapshot
from ui.model.form_fields import display_text, edit_text
from ui.model.preset_origin import PresetOrigin


class PresetActions:
    """Loads and saves presets, and shows errors."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_making_demo = False

    def show_all(self) -> None:
        """Show the page of presets."""
        self._context.act.show_page("presets")

    def load(self, path: Path, preset: Preset | None = None) -> list[str]:
        """Load a preset and report replaced changes.

        Returns:
            The settings whose changes were replaced.
        """
        act = self._context.act
        act.commit()
        try:
            replaced = self._context.draft.load(path, preset=preset)
        except UserError as error:
            show_error(self._context, error)
            return []
        act.save_state_soon()
        act.leave_page()
        # A page of settings already shows the values of the preset.
        if not act.is_on_settings() and not self._context.session.is_running:
            act.show_page("model")
        self.report_replaced_changes(len(replaced), self._context.draft.last_change)
        return replaced

    def report_replaced_changes(self, count: int, loaded: Snapshot | None) -> None:
        """Report that a preset has replaced changes, and offer to undo it while nothing followed.

        loaded: The last change once it was loaded.
        """
        if not count:
            return
        draft = self._context.draft
        offer = Offer("Undo", "undo open", draft.undo, lambda: draft.last_change is loaded)
        changes = f"{count} changes were" if count != 1 else "change was"
        self._context.act.show_message(
            f"Opened {draft.origin.name}; your {changes} replaced.",
            offer if offer.holds() else None,
        )

    def save(self) -> bool:
        """Save changes over the preset, or ask for a name; return whether nothing is unsaved."""
        if not self._context.act.commit():
            return False
        draft = self._context.draft
        origin = draft.origin
        if origin.path is None or not origin.can_overwrite:
            return self.save_as()
        if not draft.is_dirty and origin.path.is_file():
            # Also the form of the file is its owner's: relative paths, defaults that are written.
            self._context.act.show_message("There are no changes to save.")
            return True
        return self._save(origin.path, origin.description)

    def save_as(self) -> bool:
        """Ask for a name and save; return whether the preset was saved."""
        context = self._context
        if not context.act.commit():
            return False
        try:
            context.draft.config()
        except ProblemsError as error:
            show_problems(context, error.problems)
            return False
        folder = user_folder() / "presets"
        origin = context.draft.origin
        name, description = suggested_name(origin)
        hint = f"Saved in {folder}"
        while True:
            name, description = ask_name(context, name=name, hint=hint, description=description)
            if not name:
                return False
            wrong = name_error(name)
            path = folder / f"{name.removesuffix('.json').strip('/')}.json"
            if wrong:
                hint = wrong
            elif path.exists() and path != origin.path and not self._may_replace(path):
                hint = "A preset with this name already exists."
            else:
                return self._save(path, description)

    def reset(self) -> None:
        """Reset every value to the preset's; can be undone."""
        self._context.act.commit()
        self._context.draft.reset_all()

    def show_changes(self) -> None:
        """List the changes to the preset; each leads to its setting."""
        context = self._context
        if not context.act.commit():
            return
        draft = context.draft
        lines = [
            (path, _value_text(draft, path, draft.base_value(path)), now)
            for path in draft.changed()
            for now in [_value_text(draft, path, draft.value(path))]
        ]
        answer = list_changes(context, draft.origin.name, lines)
        if answer == "reset":
            self.reset()
        elif answer:
            context.act.jump(answer)

    def load_demo(self) -> None:
        """Load the demo, creating it if it is missing."""
        if self._is_making_demo:
            return
        config = self._context.demo / "demo.json"
        if config.is_file():
            self.load(config)
            return
        self._is_making_demo = True
        self._context.act.show_message("Creating the demo: a small model and some images …")
        self._context.widgets.jobs.run(
            partial(_make_demo, self._context.demo), self._demo_written, self._demo_failed
        )

    def _demo_written(self, config: Path) -> None:
        self._is_making_demo = False
        if not self.load(config):
            act = self._context.act
            guide = Offer(
                "Train on my images",
                "offer guide",
                lambda: act.show_page("start"),
                lambda: not act.start_blocked_reason(),
            )
            act.show_message("The demo is ready: Start trains it. Or begin with your own:", guide)

    def _demo_failed(self, error: Exception) -> None:
        self._is_making_demo = False
        if not isinstance(error, UserError | OSError | ImportError):
            raise error
        what = error if isinstance(error, UserError) else UserError(f"The demo: {error}")
        show_error(self._context, what)

    def _may_replace(self, path: Path) -> bool:
        choices = [Choice("yes", "Replace", "danger"), Choice("", "Cancel")]
        text = f"{path} already exists."
        context = self._context
        return ask(context, "Replace the preset?", text, choices) == "yes"

    def _save(self, path: Path, description: str) -> bool:
        try:
            self._context.draft.save(path, description=description)
            # What a person saves is their own, wherever the file is: nothing in it is asked for.
            from onetrainer.checks.effects import confirm_effects, new_effects

            confirm_effects(new_effects(self._context.draft.config(), path.absolute().parent))
        except ProblemsError as error:
            context = self._context
            show_problems(context, error.problems)
            return False
        except UserError as error:
            show_error(self._context, error)
            return False
        self._context.act.show_message(f"Saved: {path}")
        return True


def suggested_name(origin: PresetOrigin) -> tuple[str, str]:
    """Return a name and a description for a new preset; the loaded one's if it is the user's."""
    if origin.can_overwrite and origin.name:
        return origin.name, origin.description
    is_built_in = origin.path is not None and origin.path.is_relative_to(BUILT_IN)
    if is_built_in:
        return f"my-{origin.name.rpartition('/')[2]}", ""
    return origin.name or "my-preset", ""


def name_error(name: str) -> str:
    """Return why a preset cannot have a name; "" if it can."""
    for part in name.removesuffix(".json").strip("/").split("/"):
        if problem := name_problem(part):
            return f"Not every system can have the name “{part}”: {problem}."
    return ""


def _make_demo(folder: Path) -> Path:
    # Imported late to keep the start of the window fast.
    from onetrainer.demo.write import write_demo

    return write_demo(folder)


def _value_text(draft: Draft, path: str, value: object) -> str:
    setting = draft.setting(path)
    return display_text(value, setting) if setting else edit_text(value)
