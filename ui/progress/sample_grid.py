"""A grid of samples as an image: a column for each step, a row for each prompt, with labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import open_inside
from onetrainer.images.image_file import ImageError, open_image
from onetrainer.run.events import Sample
from ui.progress.samples import SampleBook
from ui.theme.fonts import label_font
from ui.theme.palette import Palette

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

MOST_STEPS = 24
_CELL, _GAP, _MARGIN, _LINE, _FONT_SIZE = 256, 8, 16, 24, 16
_LEAST_PITCH = 100  # which "step 100,000" needs
# Of all images together: RAM for a while. The images of more become smaller.
_MOST_PIXELS = 24_000_000


@dataclass(frozen=True)
class GridPlan:
    """What a grid shows. left_out: How many steps are not in it."""

    steps: tuple[int, ...]
    rows: tuple[tuple[Sample | None, ...], ...]
    left_out: int = 0


def grid_plan(book: SampleBook, prompts: Sequence[int]) -> GridPlan:
    """Return the grid of some prompts, with the first step, the last, and evenly some between."""
    steps = book.steps
    count = min(MOST_STEPS, len(steps))
    chosen = [steps[round(at * (len(steps) - 1) / max(1, count - 1))] for at in range(count)]
    rows = tuple(tuple(book.at(prompt, step) for step in chosen) for prompt in prompts)
    return GridPlan(tuple(chosen), rows, len(steps) - count)


def save_grid(plan: GridPlan, folder: Path, path: Path, palette: Palette) -> None:
    """Paint a grid and write it as PNG. Raises OSError; an image that is gone leaves a gap."""
    from PIL import Image, ImageDraw

    font, columns = label_font(_FONT_SIZE), len(plan.steps)
    cell = min(_CELL, int((_MOST_PIXELS / max(1, columns * len(plan.rows))) ** 0.5))
    pitch = max(cell, _LEAST_PITCH) + _GAP
    width = pitch * columns - _GAP
    labels = [_lines(_prompt(row), width, font) for row in plan.rows]
    heights = [_LINE * len(lines) + cell + 2 * _GAP for lines in labels]
    size = (width + 2 * _MARGIN, sum(heights) + _LINE + 2 * _MARGIN)
    grid = Image.new("RGB", size, palette["card"])
    brush = ImageDraw.Draw(grid)
    for column, step in enumerate(plan.steps):
        brush.text((_MARGIN + column * pitch, _MARGIN), f"step {step:,}", palette["dim"], font)
    top = _MARGIN + _LINE
    for row, lines, height in zip(plan.rows, labels, heights, strict=True):
        for number, line in enumerate(lines):
            brush.text((_MARGIN, top + number * _LINE), line, palette["text"], font)
        for column, sample in enumerate(row):
            picture = _thumbnail(folder / sample.path, cell) if sample is not None else None
            if picture is not None:
                left = _MARGIN + column * pitch + (cell - picture.width) // 2
                grid.paste(picture, (left, top + _LINE * len(lines) + (cell - picture.height) // 2))
        top += height
    file = BytesIO()
    grid.save(file, "PNG")
    write_atomic(path, file.getvalue())


def _prompt(row: Sequence[Sample | None]) -> str:
    prompt = next((sample.prompt for sample in row if sample is not None), "")
    return " ".join(prompt.split()) or "(no prompt)"


def _thumbnail(path: Path, side: int) -> "Image | None":
    from PIL import Image

    try:
        with open_inside(path) as file, open_image(file, path) as opened:
            image = opened.convert("RGB")
    except (OSError, ImageError):
        return None
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def _lines(text: str, room: float, font: "FreeTypeFont") -> list[str]:
    """Return a text in lines; a word that is longer than one is broken."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= room:
            lines[-1] = longer
            continue
        lines.append("")
        for sign in word:
            if font.getlength(lines[-1] + sign) > room:
                lines.append("")
            lines[-1] += sign
    return [line for line in lines if line]
