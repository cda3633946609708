"""Questions about captions and masks: what a batch would change, and what changed outside."""

from collections.abc import Sequence

from onetrainer.captions.caption_file import decode_text
from onetrainer.edits.saving import Saved
from onetrainer.errors import some_of
from onetrainer.files.lines import split_lines
from onetrainer.messages.formatting import counted, format_moment
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog, ask
from ui.editing.caption_batch import BatchPlan, PlannedChange, differences
from ui.editing.saver import Version

WRITE = "write"
_MOST = 400
_SIZE = 84, 22  # characters, lines
_EXAMPLES = 3
_VERSION_WIDTH = 360
_MOST_SHOWN = 200  # bytes


def ask_batch(context: Context, about: str, plan: BatchPlan) -> bool:
    """Show what a batch would change, caption by caption; return whether to write it."""
    count = counted(len(plan.changes), "caption file")
    dialog, widgets = Dialog(context, about), context.widgets
    if not plan.changes:
        dialog.add_text("No caption would change.", style="")
    else:
        dialog.add_text(f"{count} would change. Nothing is written yet.")
    if plan.skipped:
        reasons = dict.fromkeys(reason for _, reason in plan.skipped)
        names = some_of([name for name, _ in plan.skipped], _EXAMPLES)
        dialog.add_text(f"Left out: {names}. {' '.join(list(reasons)[:2])}", style="Warning")
    if plan.changes:
        frame = dialog.add_box()
        width, height = _SIZE
        box = widgets.text_box(frame, width=width, height=height)
        theme = widgets.theme
        box.tag_configure("name", font="OneTrainerBold", spacing1=widgets.px(8))
        box.tag_configure("removed", foreground=theme.palette["danger"], overstrike=True)
        box.tag_configure("added", foreground=theme.palette["good"])
        for change in plan.changes[:_MOST]:
            for text, tag in _shown(change):
                box.insert("end", text, tag)
        dialog.pack_scrolled(box, "answer changes")
        dialog.add_rest(len(plan.changes), _MOST)
        dialog.add_buttons([Choice(WRITE, f"Write {count}", "primary"), Choice("", "Cancel")])
    else:
        dialog.add_buttons([Choice("", "Close", "primary")])
    return dialog.wait() == WRITE


def ask_overwrite(context: Context, saved: Saved) -> bool:
    """Ask whether to write over files that have changed outside; return whether to."""
    names = [change.path.name for change in saved.conflicts]
    are = "has" if len(names) == 1 else "have"
    return (
        ask(
            context,
            "Changed by another program",
            f"{some_of(names, _EXAMPLES)} {are} changed since they were read here. Your change is"
            " not written yet.",
            [
                Choice("", "Keep theirs", "primary"),
                Choice("mine", "Write mine over it"),
            ],
        )
        == "mine"
    )


def ask_version(context: Context, name: str, versions: Sequence[Version]) -> Version | None:
    """Show what a file held before each saving; return the chosen version, or None."""
    dialog, widgets = Dialog(context, f"Earlier versions of {name}"), context.widgets
    if not versions:
        dialog.add_text("This file was not changed here yet.")
    box = dialog.add_box()
    for line, (batch, before) in enumerate(versions):
        when = format_moment(batch.time)
        button = dialog.add_button(box, f"{line}", when, name=f"version {line}")
        button.widget.grid(row=line, column=0, sticky="nw", pady=widgets.px(2))
        shown = widgets.label(box, _version_text(before), wrap=_VERSION_WIDTH)
        shown.grid(row=line, column=1, sticky="w", padx=widgets.px(12))
    dialog.add_buttons([Choice("", "Close", "primary")])
    answer = dialog.wait()
    return versions[int(answer)] if answer else None


def _version_text(content: bytes | None) -> str:
    """Return the beginning of a caption file, or what else it was."""
    decoded = None if content is None else decode_text(content[:_MOST_SHOWN])
    if content is None:
        return "(no file)"
    if decoded is None or "\0" in decoded[0]:
        return f"(an image of {len(content):,} bytes)"
    return " / ".join(split_lines(decoded[0])).strip(" /") or "(empty)"


def _shown(change: PlannedChange) -> Sequence[tuple[str, str]]:
    """Return the texts of a change with their tags."""
    parts = [(f"{change.name}\n", "name")]
    lines = max(len(change.before), len(change.after))
    before = change.before + ("",) * (lines - len(change.before))
    after = change.after + ("",) * (lines - len(change.after))
    for old, new in zip(before, after, strict=True):
        parts += [(f"{text} ", kind) for kind, text in differences(old, new)]
        parts.append(("\n", "same"))
    return parts
