"""What fields, lists, and the pages with lists show, for the inspection."""

import tkinter as tk
from tkinter import ttk
from typing import Any

from ui.pages.captioning.page import CaptioningPage
from ui.pages.images.page import ImagesPage
from ui.pages.monitor.page import MonitorPage
from ui.pages.queue.page import QueuePage
from ui.pages.runs.page import RunsPage
from ui.pages.tools.page import ToolsPage
from ui.pages.trial.page import TrialPage


def contents(widget: tk.Misc) -> str:
    """What is typed in a field, the rows of a table, or how many images a canvas shows."""
    match widget:
        case tk.Text():
            return widget.get("1.0", "end-1c")
        case tk.Entry():
            return widget.get()
        case ttk.Treeview():
            rows = (widget.item(row, "values") for row in widget.get_children())
            return "\n".join(str(row[0]) for row in rows if row)
        case ttk.Scale():
            return f"{widget.get():g}"
        case tk.Canvas():
            return str(sum(widget.type(item) == "image" for item in widget.find_all()))
    return ""


def selected(widget: tk.Misc) -> list[str]:
    """The selected rows of a table."""
    if not isinstance(widget, ttk.Treeview):
        return []
    return [str(widget.item(row, "values")[0]) for row in widget.selection()]


def lists(page: Any) -> dict[str, object]:
    """What the pages of runs, of the queue, of trials and of tools show."""
    return {
        "runs": _runs(page) if isinstance(page, RunsPage) else {"names": []},
        "monitor": _monitor(page) if isinstance(page, MonitorPage) else {},
        "images": _images(page) if isinstance(page, ImagesPage) else {"shown": []},
        "tool": page.report.text if isinstance(page, ToolsPage) else "",
        "trial": page.shown if isinstance(page, TrialPage) else {},
        "captioning": page.shown if isinstance(page, CaptioningPage) else {},
        "queue": page.rows if isinstance(page, QueuePage) else [],
        "queue_devices": page.devices if isinstance(page, QueuePage) else [],
        "queue_folders": list(page._entries) if isinstance(page, QueuePage) else [],
    }


def _monitor(page: MonitorPage) -> dict[str, object]:
    charts, log = page.charts.charts, page.log
    return {
        "titles": charts.titles,
        "values": charts.values,
        "span": charts.look.span,
        "is_dragging": bool(charts.canvas.find_withtag("drag")),
        "frames": [
            (p.frame.left, p.frame.top, p.frame.right, p.frame.bottom) for p in charts._panels
        ],
        "rows": len(log.rows),
        "lines": log.list.shown,
        "built": log.list.built,
        "follows": log._follow.is_on,
        "count": log.count_text,
    }


def _images(page: ImagesPage) -> dict[str, object]:
    rows, panels, mask = page.thumbnails.images.rows, page.panels, page.painting.view
    caption, marks = panels.caption, page.thumbnails.marks
    return {
        "shown": [rows[index].name for index in page.thumbnails.shown],
        "marked": [rows[page.thumbnails.shown[at]].name for at in sorted(marks)],
        "is_read": page.images.is_complete and not page.query.is_working,
        "message": page._message.text,
        "count": page.filter_bar._count.text,
        "name": caption._name.text,
        "about": caption._about.text,
        "caption": caption.box.get("1.0", "end").rstrip("\n"),
        "tokens": caption._tokens.text,
        "note": caption._note.text,
        "tags": [f"{t}: {n}" for t, n in panels.tags.counts] if panels.tab == "tags" else [],
        "scope": panels._scope.text,
        "undo": page.writing.steps.undo.about if page.writing.steps.undo else "",
        "redo": page.writing.steps.redo.about if page.writing.steps.redo else "",
        "mask": mask._note.text if mask is not None and mask.outer.winfo_manager() else "",
        "is_painted": bool(mask and mask.painting and mask.painting.is_changed),
        "is_stroking": bool(mask and mask.painting and mask.painting._before),
        "ready": bool(mask and mask._masked and mask.painting),
        "kinds": list(page.filter_bar._show.cget("values")),
    }


def _runs(page: RunsPage) -> dict[str, object]:
    return {
        "names": [row.record.name for row in page.table.shown],
        "chosen": [row.record.name for row in page.table.chosen],
        "images": len(page.table._photos),
        "tab": page.comparison.shown if page.comparison.outer.winfo_manager() else "",
        "settings": page.comparison.setting_rows,
        "samples": [[c and c.path.parts[-3] for c in row] for row in page.comparison._cells],
    }
