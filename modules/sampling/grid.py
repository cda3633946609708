"""Many pictures as one: a row for each prompt, a column for each seed, with labels."""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

GAP = 8  # px, around every picture
TEXT_SIZE = 20  # px
LABEL_LINES = 3  # a longer prompt is shortened
BACKGROUND, INK = "white", "black"

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw_grid(
    images: Sequence[Sequence[Image.Image]], *, rows: Sequence[str], columns: Sequence[str]
) -> Image.Image:
    """The pictures, row by row and all of one size, with a label above each row and column."""
    width, height = images[0][0].size
    font = ImageFont.load_default(TEXT_SIZE)
    line = round(TEXT_SIZE * 1.3)
    whole = len(columns) * (width + GAP) + GAP
    labels = [shorten(text, font, whole - 2 * GAP) for text in rows]
    heights = [len(label) * line + height + 2 * GAP for label in labels]
    page = Image.new("RGB", (whole, GAP + line + sum(heights)), BACKGROUND)
    draw = ImageDraw.Draw(page)
    for place, text in enumerate(columns):
        left = GAP + place * (width + GAP)
        _write(draw, (left, GAP // 2), fit(text, font, width), font)
    top = GAP + line
    for label, row, step in zip(labels, images, heights, strict=True):
        for number, text in enumerate(label):
            _write(draw, (GAP, top + number * line), text, font)
        for place, image in enumerate(row):
            page.paste(image, (GAP + place * (width + GAP), top + len(label) * line + GAP // 2))
        top += step
    return page


def shorten(text: str, font: Font, width: int) -> list[str]:
    """The text in lines of at most so many pixels; three lines at most, the rest is "…"."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < LABEL_LINES:
        count = _how_many_fit(words, font, width)
        is_last = len(lines) == LABEL_LINES - 1 and count < len(words)
        lines.append(fit(" ".join(words if is_last else words[:count]), font, width))
        words = words[count:]
    return lines


def fit(text: str, font: Font, width: int) -> str:
    """The text, or as much of its beginning as fits with "…" behind it."""
    if _length(text, font) <= width:
        return text
    while text and _length(text + "…", font) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def _how_many_fit(words: Sequence[str], font: Font, width: int) -> int:
    """At least one, however long it is."""
    count = 1
    while count < len(words) and _length(" ".join(words[: count + 1]), font) <= width:
        count += 1
    return count


def _length(text: str, font: Font) -> float:
    return font.getlength(_drawable(text, font))


def _write(draw: ImageDraw.ImageDraw, place: tuple[int, int], text: str, font: Font) -> None:
    draw.text(place, _drawable(text, font), fill=INK, font=font)


def _drawable(text: str, font: Font) -> str:
    """Pillow built without FreeType has a font of Latin-1 only, and raises at other characters."""
    if isinstance(font, ImageFont.FreeTypeFont):
        return text
    return text.replace("…", "...").encode("latin-1", "replace").decode("latin-1")
