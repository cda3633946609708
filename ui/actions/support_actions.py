"""Actions for when something does not work: examine this computer, and make a report."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ui.context import Context
from ui.dialogs.dialogs import once_free, report_failure

if TYPE_CHECKING:
    from onetrainer.support.findings import Finding
    from onetrainer.support.report import Report


class SupportActions:
    """Works in threads, and shows what came of it; what does the work is imported there."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def examine(self) -> None:
        """Examine this computer and show the findings."""
        self._context.act.show_message("Examining this computer, which takes some seconds …")
        self._context.widgets.jobs.run(_examine, self._found)

    def report(self, folder: Path) -> None:
        """Ask what a report about a run is to hold, make it, and open its folder."""
        from ui.dialogs.support_dialogs import ask_report

        answer = ask_report(self._context, folder.name)
        if not answer:
            return
        self._context.act.show_message("Making the report …")
        self._context.widgets.jobs.run(
            lambda: _write_report(folder, with_samples=answer == "samples"),
            self._show_report,
            partial(report_failure, self._context),
        )

    def _found(self, findings: "list[Finding]") -> None:
        once_free(self._context.root, partial(self._show_findings, findings))

    def _show_findings(self, findings: "list[Finding]") -> None:
        from ui.dialogs.support_dialogs import show_findings

        if show_findings(self._context, findings):
            # Late, as its jobs take a while to import.
            from onetrainer.support.self_test import run_self_test

            self._context.act.show_message("Training five steps, which takes about ten seconds …")
            self._context.widgets.jobs.run(
                partial(run_self_test, device="auto", precision="auto"),
                lambda finding: self._found([*findings, finding]),
            )

    def _show_report(self, report: "Report") -> None:
        self._context.act.open_path(report.path.parent)
        self._context.act.show_message(f"The report is {report.path}")


def _examine() -> "list[Finding]":
    from onetrainer.support.doctor import examine

    return list(examine())


def _write_report(folder: Path, *, with_samples: bool) -> "Report":
    from onetrainer.support.report import write_report

    return write_report(folder, _examine(), with_samples=with_samples)
