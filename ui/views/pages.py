"""Which page is made by what."""

import tkinter as tk

from ui.context import Context, View
from ui.forms.fields import PagePlan, pages
from ui.views.keys import KeysPage
from ui.views.preview import PreviewPage
from ui.views.run import RunPage
from ui.views.runs import RunsPage
from ui.views.samples import SamplesPage
from ui.views.setup import SetupPage
from ui.views.welcome import WelcomePage

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
