"""Image grids: rows and columns with labels, such as prompts by seeds."""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

GAP = 8  # px, around every image
TEXT_SIZE = 20  # px
LABEL_LINES = 3  # a longer prompt is shortened
BACKGROUND, INK = "white", "black"

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw_grid(
    images: Sequence[Sequence[Image.Image | None]], *, rows: Sequence[str], columns: Sequence[str]
) -> Image.Image:
    """Draw a grid of images, with a label above each row and column; None stays empty."""
    sizes = [image.size for row in images for image in row if image is not None]
    width, height = (max(side) for side in zip(*sizes, strict=True))
    font = ImageFont.load_default(TEXT_SIZE)
    line = round(TEXT_SIZE * 1.3)
    page_width = len(columns) * (width + GAP) + GAP
    labels = [shorten(text, font, page_width - 2 * GAP) for text in rows]
    heights = [len(label) * line + height + 2 * GAP for label in labels]
    page = Image.new("RGB", (page_width, GAP + line + sum(heights)), BACKGROUND)
    draw = ImageDraw.Draw(page)
    for column, text in enumerate(columns):
        left = GAP + column * (width + GAP)
        _write(draw, (left, GAP // 2), fit(text, font, width), font)
    top = GAP + line
    for label, row, row_height in zip(labels, images, heights, strict=True):
        for number, text in enumerate(label):
            _write(draw, (GAP, top + number * line), text, font)
        place = top + len(label) * line + GAP // 2
        for column, image in enumerate(row):
            if image is not None:
                page.paste(image, (GAP + column * (width + GAP), place))
        top += row_height
    return page


def shorten(text: str, font: Font, width: int) -> list[str]:
    """Wrap a text into lines of at most `width` pixels; what exceeds three lines becomes "…"."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < LABEL_LINES:
        count = 1  # at least one word, however long it is
        while count < len(words) and _length(" ".join(words[: count + 1]), font) <= width:
            count += 1
        is_last = len(lines) == LABEL_LINES - 1 and count < len(words)
        lines.append(fit(" ".join(words if is_last else words[:count]), font, width))
        words = words[count:]
    return lines


def fit(text: str, font: Font, width: int) -> str:
    """Return the text, cut off with "…" if it is wider than `width` pixels."""
    if _length(text, font) <= width:
        return text
    while text and _length(text + "…", font) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def _length(text: str, font: Font) -> float:
    return font.getlength(_drawable(text, font))


def _write(draw: ImageDraw.ImageDraw, position: tuple[int, int], text: str, font: Font) -> None:
    draw.text(position, _drawable(text, font), fill=INK, font=font)


def _drawable(text: str, font: Font) -> str:
    """Replace characters that the font of a Pillow without FreeType, Latin-1 only, cannot draw."""
    if isinstance(font, ImageFont.FreeTypeFont):
        return text
    return text.replace("…", "...").encode("latin-1", "replace").decode("latin-1")
