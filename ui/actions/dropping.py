"""What happens to files that are dropped on the window: each goes to its setting, or is shown."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetrainer.errors import UserError
from onetrainer.families.registry import base_of
from onetrainer.presets.find import expanded
from ui.context import Context, Offer
from ui.dialogs.dialogs import Choice, ask, once_free, show_error
from ui.model.dropped import Dropped, recognize_all
from ui.model.new_entries import new_entry

if TYPE_CHECKING:
    from ui.shell.drop_highlight import DropHighlight

# Once the window is on the screen and rests.
_ENABLE_AFTER_MS = 600
_FOLDER, _CONCEPTS = "data.folder", "data.concepts"


def take_drops(root: tk.Tk, dropping: Callable[[], "Dropping"]) -> None:
    """Let files be dropped on a window, once. dropping: Returns what applies them by then."""

    def enable() -> None:
        # Imported late to keep the start of the window fast.
        from ui.widgets.drop_target import DropTarget

        target = DropTarget(
            root,
            lambda: dropping().is_open(),
            lambda is_over: dropping().highlight(is_over),
            lambda paths: dropping().take(paths),
        )
        target.enable()

    root.after(_ENABLE_AFTER_MS, enable)


class Dropping:
    """Applies dropped files to the draft, one after another."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._highlight: DropHighlight | None = None

    def highlight(self, is_over: bool) -> None:
        """Show what the window takes while files are over it."""
        from ui.shell.drop_highlight import DropHighlight

        self._highlight = self._highlight or DropHighlight(self._context)
        self._highlight.show(is_over)

    def is_open(self) -> bool:
        """Return whether files are taken: not while a dialog or a menu is open, nor our own."""
        root = self._context.root
        return not (self._context.widgets.is_dragging or root.tk.call("grab", "current", root))

    def take(self, paths: list[Path]) -> None:
        """Recognize files in a thread, because a model's header is read, and apply them."""
        context = self._context

        def recognized(found: tuple[list[Dropped], list[UserError]]) -> None:
            once_free(context.root, lambda: self._apply(*found))

        context.widgets.jobs.run(partial(recognize_all, paths), recognized)

    def _apply(self, found: list[Dropped], errors: list[UserError]) -> None:
        self._context.act.commit()
        for dropped in found:
            self._use(dropped)
        if errors:
            show_error(self._context, errors[0])

    def _use(self, dropped: Dropped) -> None:
        act, path = self._context.act, dropped.path
        if act.take_path(dropped.kind, str(path)):
            return
        match dropped.kind:
            case "preset":
                act.load_file(path)
            case "run":
                act.attach(path)
            case "images":
                self._use_images(path, is_nested=dropped.is_nested)
            case "model":
                self._use_model(dropped)
            case "lora":
                self._use_addition(dropped, "method.start_from", "a LoRA")
            case "vae":
                self._use_addition(dropped, "model.vae", "a VAE")

    def _use_images(self, folder: Path, *, is_nested: bool) -> None:
        draft = self._context.draft
        before = draft.value(_FOLDER)
        known = [before, *(entry.get("folder") for entry in self._concepts())]
        if any(each and _is_same(str(each), folder) for each in known):
            self._context.act.show_message(f"“{folder.name}” is already trained on.")
            return
        answer = "replace"
        if before:
            answer = ask(
                self._context,
                f"Train on the images in “{folder.name}”?",
                f"The images of “{Path(str(before)).name}” are chosen now.",
                [
                    Choice("add", "Train on both", "primary"),
                    Choice("replace", "Use only these"),
                    Choice("", "Cancel"),
                ],
            )
        if answer == "replace":
            nested = {"data.include_subfolders": True} if is_nested else {}
            self._set({_FOLDER: str(folder), **nested}, f"Images: {folder}")
        elif answer == "add":
            self._add_concept(folder, is_nested=is_nested)

    def _add_concept(self, folder: Path, *, is_nested: bool) -> None:
        setting, entries = self._context.draft.setting(_CONCEPTS), self._concepts()
        if setting is not None:
            initial = {"folder": str(folder), "include_subfolders": is_nested}
            entry = new_entry(setting, entries, initial)
            self._set({_CONCEPTS: [*entries, entry]}, f"Images of {folder}, too")

    def _concepts(self) -> list[dict[str, Any]]:
        entries = self._context.draft.value(_CONCEPTS)
        known = entries if isinstance(entries, list) else []
        return [each for each in known if isinstance(each, dict)]

    def _use_model(self, dropped: Dropped) -> None:
        draft, values = self._context.draft, {"model.path": str(dropped.path)}
        text = f"Base model: {dropped.path.name}"
        if dropped.family != draft.value("model.family"):
            values["model.family"] = dropped.family
            text = f"{text}. “Model family” was set to {dropped.title}, which it is"
        self._set(values, text)

    def _use_addition(self, dropped: Dropped, setting: str, what: str) -> None:
        """Set the file that training continues from, or another VAE."""
        draft, name = self._context.draft, dropped.path.name
        family = str(draft.value("model.family"))
        if draft.setting(setting) is None:
            show_error(
                self._context,
                UserError(
                    f"{name}: this is {what}, and the chosen method does not start from one",
                    "",
                    "Choose the method LoRA, then drop it again.",
                ),
            )
            return
        # A LoRA for a base model also works on the models made from it.
        if dropped.family not in ("", family, base_of(family)):
            show_error(
                self._context,
                UserError(
                    f"{name}: this is {what} for {dropped.title}, which the base model is not",
                    "",
                    "Choose a base model that it was made for, then drop it again.",
                ),
            )
            return
        self._set({setting: str(dropped.path)}, f"{name} is used")

    def _set(self, values: dict[str, Any], text: str) -> None:
        """Set values, show the first one, and offer to undo it."""
        act, draft = self._context.act, self._context.draft
        draft.set_all(values)
        made = draft.last_change
        act.jump(next(iter(values)))
        act.show_message(
            f"{text}.", Offer("Undo", "undo drop", draft.undo, lambda: draft.last_change is made)
        )


def _is_same(text: str, folder: Path) -> bool:
    try:
        return Path(expanded(text)).absolute() == folder
    except UserError:  # the home of an unknown user
        return False
