"""What the pages with lists show, for the inspection."""

from typing import Any

from ui.pages.monitor.page import MonitorPage
from ui.pages.queue.page import QueuePage
from ui.pages.runs.page import RunsPage
from ui.pages.tools.page import ToolsPage
from ui.pages.trial.page import TrialPage


def lists(page: Any) -> dict[str, object]:
    """What the pages of runs, of the queue, of trials and of tools show."""
    return {
        "runs": _runs(page) if isinstance(page, RunsPage) else {"names": []},
        "monitor": _monitor(page) if isinstance(page, MonitorPage) else {},
        "tool": page.report.text if isinstance(page, ToolsPage) else "",
        "trial": page.shown if isinstance(page, TrialPage) else {},
        "queue": page.rows if isinstance(page, QueuePage) else [],
        "queue_folders": list(page._entries) if isinstance(page, QueuePage) else [],
    }


def _monitor(page: MonitorPage) -> dict[str, object]:
    charts, log = page.charts.charts, page.log
    return {
        "titles": charts.titles,
        "values": charts.values,
        "span": charts.look.span,
        "frames": [
            (p.frame.left, p.frame.top, p.frame.right, p.frame.bottom) for p in charts._panels
        ],
        "rows": len(log.rows),
        "lines": log.list.shown,
        "built": log.list.built,
        "follows": log._follow.is_on,
        "count": log.count_text,
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
