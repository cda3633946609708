"""The pages of the window: add a page by one folder below `ui/pages` and one line here."""

import tkinter as tk
from collections.abc import Callable
from importlib import import_module

from ui.context import Context, Page, View
from ui.model.form_fields import pages

_SETTINGS, _DATASET, _TRAINING = "SET UP", "DATASET", "TRAINING"


class _In:
    """Builds the page of a folder, whose modules are imported when it is first needed."""

    def __init__(self, folder: str, view: str, **options: object) -> None:
        """options: What else the page's class is given."""
        self._module, self._view, self._options = f"ui.pages.{folder}.page", view, options

    def load(self) -> Callable[..., View]:
        """Import the modules and return the page's class."""
        found: Callable[..., View] = vars(import_module(self._module))[self._view]
        return found

    def __call__(self, context: Context, parent: tk.Misc) -> View:
        """Build the page."""
        return self.load()(context, parent, **self._options)


# In the order of the navigation, which Alt+1 to Alt+0 follow.
PAGES = (
    *(
        Page(plan.name, plan.title, _In("settings", "SettingsPage", plan=plan), _SETTINGS)
        for plan in pages()
    ),
    Page("images", "Images", _In("images", "ImagesPage"), _DATASET, key="Shift-F6"),
    Page("captioning", "Captioning", _In("captioning", "CaptioningPage"), _DATASET, key="Shift-F7"),
    Page("preview", "Preview", _In("preview", "PreviewPage"), _DATASET, key="F6"),
    Page("run", "Run", _In("run", "RunPage"), _TRAINING, key="F2"),
    Page("monitor", "Monitor", _In("monitor", "MonitorPage"), _TRAINING, key="F12"),
    Page("samples", "Samples", _In("samples", "SamplesPage"), _TRAINING, key="F3"),
    Page("runs", "Runs", _In("runs", "RunsPage"), _TRAINING, key="F4"),
    Page("queue", "Queue", _In("queue", "QueuePage"), _TRAINING, key="F7"),
    Page("trial", "Try model", _In("trial", "TrialPage"), _TRAINING, key="F9"),
    Page("tools", "Model tools", _In("tools", "ToolsPage"), _TRAINING, key="F11"),
    Page("presets", "Presets", _In("presets", "PresetsPage")),
    Page("keys", "Help", _In("keys", "KeysPage")),
    Page("welcome", "Welcome", _In("welcome", "WelcomePage")),
    Page("start", "Train on my images", _In("start", "StartPage")),
)
# Esc leaves them.
PASSING_PAGES = ("presets", "keys")
SETTINGS_PAGES = tuple(page.name for page in PAGES if page.group == _SETTINGS)


def make_view(context: Context, parent: tk.Misc, name: str) -> View:
    """Build the page with a name."""
    return next(page for page in PAGES if page.name == name).make(context, parent)


def load_all() -> None:
    """Import the modules of all pages; takes a while, for a thread."""
    for page in PAGES:
        if isinstance(page.make, _In):
            page.make.load()
