"""The files of a table of images: one for each, and a grid of all."""

from pathlib import Path

from PIL import Image

from modules.sampling.grid import draw_grid
from modules.sampling.image_files import Settings
from modules.sampling.image_folder import BYTES_PER_PIXEL, next_number, write_image
from onetrainer.jobs.sample_table import Cell, SampleTable


class TableWriter:
    """Writes images as they are generated, in any order; nothing is overwritten.

    Attributes:
        written: All files so far.
    """

    def __init__(self, folder: Path, table: SampleTable, *, has_grid: bool) -> None:
        self.written: list[Path] = []
        self._folder, self._table, self._has_grid = folder, table, has_grid
        self._number = next_number(folder)
        self._images: dict[tuple[int, int], Image.Image] = {}

    def add(self, image: Image.Image, cell: Cell, settings: Settings) -> Path:
        """Write an image, with its settings in it. Raises UserError if that is impossible."""
        path = self._folder / f"{self._number:05d}-{cell.shot.prompt.seed}.png"
        write_image(image, path, settings)
        self._number += 1
        self.written.append(path)
        if self._has_grid:
            self._images[cell.row, cell.column] = image
        return path

    def finish(self) -> Path | None:
        """Write the grid of the images so far, if one is wanted; return its path.

        It ends with the last row and column that have an image.
        """
        if not self._images:
            return None
        last_row, last_column = map(max, zip(*self._images, strict=True))
        rows, columns = self._table.rows[: last_row + 1], self._table.columns[: last_column + 1]
        images = [
            [self._images.get((row, column)) for column in range(len(columns))]
            for row in range(len(rows))
        ]
        path = self._folder / f"{self._number:05d}-grid.png"
        write_image(draw_grid(images, rows=rows, columns=columns), path, None)
        self.written.append(path)
        return path


def bytes_of(table: SampleTable, *, has_grid: bool) -> int:
    """Return the bytes that the files of a table take at most."""
    prompts = [cell.shot.prompt for cell in table.cells]
    pixels = sum(prompt.width * prompt.height for prompt in prompts)
    return BYTES_PER_PIXEL * pixels * (2 if has_grid else 1)
