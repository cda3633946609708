"""Dialogs for when something does not work: what the doctor found, and what a report holds."""

from typing import get_args

from onetrainer.support.findings import Finding, Level
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog, ask
from ui.widgets.clipboard import copy_text


def show_findings(context: Context, findings: list[Finding]) -> bool:
    """Show what the doctor found, to be copied; return whether to train five steps as well."""
    levels = get_args(Level)
    worst_first = sorted(findings, key=lambda finding: -levels.index(finding.level))
    text = "\n".join(map(str, worst_first))
    wrong = sum(finding.level == "problem" for finding in findings)
    title = {0: "This computer is ready", 1: "One problem with this computer"}
    dialog = Dialog(context, title.get(wrong, f"{wrong} problems with this computer"))
    dialog.add_code(text, hang=9)  # the width of the level

    def copy() -> None:
        copy_text(context.root, text)
        button.set_text("Copied")

    button = context.widgets.button(dialog.add_box(), "Copy", copy, name="answer copy")
    button.widget.pack(anchor="w")
    choices = [Choice("", "Close", "primary")]
    if not any(finding.area == "self-test" for finding in findings):
        choices.append(Choice("test", "Train five steps"))
    dialog.add_buttons(choices)
    return dialog.wait() == "test"


def ask_report(context: Context, name: str) -> str:
    """Ask what a report about a run is to hold; return "plain", "samples" or ""."""
    return ask(
        context,
        f"Make a report about “{name}”",
        "One archive to attach to a bug report: settings, events, log, and the state of this"
        " computer. Tokens, home folders and names of users are replaced. Images, prompts and"
        " captions are left out, unless you add prompts and samples.",
        [
            Choice("plain", "Make report", "primary"),
            Choice("samples", "With prompts and samples"),
            Choice("", "Cancel"),
        ],
    )
