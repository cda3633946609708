"""The pages of the window: add a page by one folder below `ui/pages` and one line here."""

import tkinter as tk
from functools import partial

from ui.context import Context, Page, View
from ui.model.form_fields import pages
from ui.pages.keys.page import KeysPage
from ui.pages.presets.page import PresetsPage
from ui.pages.preview.page import PreviewPage
from ui.pages.queue.page import QueuePage
from ui.pages.run.page import RunPage
from ui.pages.runs.page import RunsPage
from ui.pages.samples.page import SamplesPage
from ui.pages.settings.page import SettingsPage
from ui.pages.start.page import StartPage
from ui.pages.tools.page import ToolsPage
from ui.pages.trial.page import TrialPage
from ui.pages.welcome.page import WelcomePage

_SETTINGS, _TRAINING = "SET UP", "TRAINING"


# In the order of the navigation, which Alt+1 to Alt+0 follow.
PAGES = (
    *(Page(plan.name, plan.title, partial(SettingsPage, plan=plan), _SETTINGS) for plan in pages()),
    Page("preview", "Preview", PreviewPage, _TRAINING, key="F6"),
    Page("run", "Run", RunPage, _TRAINING, key="F2"),
    Page("samples", "Samples", SamplesPage, _TRAINING, key="F3"),
    Page("runs", "Runs", RunsPage, _TRAINING, key="F4"),
    Page("queue", "Queue", QueuePage, _TRAINING, key="F7"),
    Page("trial", "Try model", TrialPage, _TRAINING, key="F9"),
    Page("tools", "Model tools", ToolsPage, _TRAINING, key="F11"),
    Page("presets", "Presets", PresetsPage),
    Page("keys", "Help", KeysPage),
    Page("welcome", "Welcome", WelcomePage),
    Page("start", "Train on my images", StartPage),
)
# Esc leaves them.
PASSING_PAGES = ("presets", "keys")
SETTINGS_PAGES = tuple(page.name for page in PAGES if page.group == _SETTINGS)


def make_view(context: Context, parent: tk.Misc, name: str) -> View:
    """Build the page with a name."""
    return next(page for page in PAGES if page.name == name).make(context, parent)
