"""Writing the charts of runs as an image, and their figures as a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onetrainer.files.atomic import write_atomic
from onetrainer.run.figures_table import figures_table
from onetrainer.run.run_folder import RunFolder, cannot_write
from ui.charts.figure_charts import draw_figures, legend_height
from ui.charts.figure_kinds import ChartData
from ui.charts.figure_panels import Look, height_for
from ui.charts.picture import Picture
from ui.context import Context, Offer
from ui.dialogs.dialogs import report_failure

_WIDTH, _ALONE, _MARGIN = 1100, 420, 16


@dataclass(frozen=True)
class FigureFiles:
    """Writes into the folder "exported" of the first run, in a thread."""

    context: Context

    def save_picture(self, folder: RunFolder, data: ChartData, look: Look) -> None:
        """Write what is seen of charts as PNG."""
        palette = self.context.widgets.theme.palette
        count = len(data.only(look.only))
        ruler = Picture((_WIDTH, 1), palette)
        height = legend_height(ruler, data.names, _WIDTH)
        height += _ALONE if count == 1 else height_for(_WIDTH, count, ruler.px)
        picture = Picture((_WIDTH, height), palette, margin=_MARGIN)
        draw_figures(picture, data, look, _WIDTH, height)
        self._write(folder, "charts", ".png", picture.save)

    def save_table(self, runs: Sequence[RunFolder]) -> None:
        """Write all figures of runs as CSV."""

        def write(path: Path) -> None:
            write_atomic(path, figures_table(runs).encode("utf-8-sig"))  # for spreadsheets

        self._write(runs[0], "figures", ".csv", write)

    def _write(
        self, folder: RunFolder, name: str, suffix: str, write: Callable[[Path], None]
    ) -> None:
        def work() -> Path:
            path = folder.next_exported(name, suffix)
            try:
                write(path)
            except OSError as error:
                raise cannot_write(path, error) from error
            return path

        self.context.widgets.jobs.run(work, self._written, partial(report_failure, self.context))

    def _written(self, path: Path) -> None:
        show = partial(self.context.act.open_path, path.parent)
        self.context.act.show_message(
            f"Written: {path}", Offer("Open folder", "open written", show, path.exists, lasts=True)
        )
