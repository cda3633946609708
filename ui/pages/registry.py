"""Which page is made by what."""

import tkinter as tk

from ui.context import Context, View
from ui.model.form_fields import PagePlan, pages
from ui.pages.keys.page import KeysPage
from ui.pages.preview.page import PreviewPage
from ui.pages.run.page import RunPage
from ui.pages.runs.page import RunsPage
from ui.pages.samples.page import SamplesPage
from ui.pages.settings.page import SetupPage
from ui.pages.welcome.page import WelcomePage

SETUP = tuple(plan.name for plan in pages())


def make_view(context: Context, parent: tk.Misc, plans: tuple[PagePlan, ...], name: str) -> View:
    """Makes a page by its name."""
    match name:
        case "preview":
            return PreviewPage(context, parent)
        case "run":
            return RunPage(context, parent)
        case "samples":
            return SamplesPage(context, parent)
        case "runs":
            return RunsPage(context, parent)
        case "keys":
            return KeysPage(context, parent)
        case "welcome":
            return WelcomePage(context, parent)
    plan = next(plan for plan in plans if plan.name == name)
    return SetupPage(context, parent, plan)
