"""What the window opens with: the last draft and run, a config file, or the demo."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from onetrainer.errors import UserError
from onetrainer.presets.find import locate
from ui.actions.preset_actions import PresetActions
from ui.context import Context
from ui.dialogs.dialogs import once_free, report_failure, show_error
from ui.model.form_fields import pages
from ui.model.held_draft import HeldDraft


class Opening(NamedTuple):
    """What the window is asked to open with.

    Attributes:
        preset: Name or path; "" for the last draft.
        demo: Folder of the demo.
        with_demo: Whether to create and load the demo at the first start.
        is_demo_named: Whether the user named the folder of the demo, so that it is always loaded.
    """

    preset: str
    demo: Path
    with_demo: bool = False
    is_demo_named: bool = False


class Opener:
    """Fills the draft before the first page is shown, and has it checked after that."""

    def __init__(
        self, context: Context, draft: HeldDraft, presets: PresetActions, opening: Opening
    ) -> None:
        self._context = context
        self._draft = draft
        self._presets = presets
        self._opening = opening
        self._refused: UserError | None = None

    def begin(self) -> str:
        """Fill the draft, attach the last run, and return the page to show."""
        context, opening, root = self._context, self._opening, self._context.root
        is_first = not context.window_state.draft
        context.window_state.restore_draft(self._draft)
        if opening.preset:
            try:
                self._draft.preview(locate(opening.preset))
            except UserError as error:
                report_failure(context, error)
        self._attach_last_run()
        # Edits made since the first start are kept.
        if opening.with_demo and (is_first or opening.is_demo_named):
            root.after(1, self._presets.load_demo)
        page = self._page()
        # The card of the time is there for a valid config only, and would push others down later.
        if any("cost" in plan.cards for plan in pages() if plan.name == page):
            self.finish()
        return page

    def finish(self) -> bool:
        """Have the draft checked, if it is not yet; nothing can be done with it before.

        Returns:
            Whether a person may have acted on it: not if a file that it showed was refused, until
            they are told so.
        """
        if not self._draft.is_held:
            return self._refused is None
        context, root = self._context, self._context.root
        try:
            replaced = self._draft.release()
        except UserError as error:
            self._refused = error
            once_free(root, partial(self._tell, error))
            root.after_idle(context.act.show_page, self._page())
            return False
        loaded = self._draft.last_change
        root.after(1, self._presets.report_replaced_changes, len(replaced), loaded)
        return True

    def _tell(self, error: UserError) -> None:
        self._refused = None
        show_error(self._context, error)

    def _page(self) -> str:
        if self._context.session.is_running:
            return "run"
        if not self._draft.value("model.path") and not self._draft.value("data.folder"):
            return "welcome"
        page = self._context.window_state.page
        return page if page in (plan.name for plan in pages()) else "model"

    def _attach_last_run(self) -> None:
        folder = self._context.window_state.run_folder
        if not folder:
            return
        try:
            self._context.session.attach(Path(folder))
        except UserError:
            return  # the folder was deleted
