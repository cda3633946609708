from PIL import Image

from modules.sampling.grid import draw_grid
from modules.sampling.image_files import Settings
from modules.sampling.table_writer import TableWriter
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.run.sampling import Prompt
from onetrainer.jobs.sample_table import Cell, SampleTable

PROMPT = Prompt(prompt="a cat")
SHOT = Shot(PROMPT, 20, 7.0, "ddim", 1.0, "a cat")


def test_a_grid_that_was_canceled_ends_with_its_last_row_and_column(tmp_path):
    """Labels alone would take a second for each thousand of them; images come in any order."""
    rows, columns = (
        tuple(f"{what} {number}" for number in range(30)) for what in ("row", "column")
    )
    writer = TableWriter(tmp_path, SampleTable(rows, columns, ()), has_grid=True)
    assert writer.finish() is None
    made = {
        place: Image.new("RGB", (64, 64), color)
        for place, color in (((1, 0), "red"), ((0, 2), "blue"), ((0, 1), "green"))
    }
    for (row, column), image in made.items():
        writer.add(image, Cell(row, column, SHOT, ()), Settings(PROMPT, steps=20, guidance=7.0))
    whole = [[made.get((row, column)) for column in range(3)] for row in range(2)]
    expected = draw_grid(whole, rows=rows[:2], columns=columns[:3])
    with Image.open(writer.finish()) as grid:
        assert (grid.size, grid.tobytes()) == (expected.size, expected.tobytes())
