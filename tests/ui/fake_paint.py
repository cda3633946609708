"""Images that a fake worker generates."""

import colorsys
import math

from PIL import Image, ImageDraw, ImageFilter


def paint(index: int, progress: float, *, size: int) -> Image.Image:
    """A shape on a sky that comes out of the noise as training goes on."""
    hue = (0.58 + 0.21 * index) % 1
    image = Image.new("RGB", (size * 2, size * 2))
    draw = ImageDraw.Draw(image)
    for y in range(size * 2):
        tone = colorsys.hsv_to_rgb(hue, 0.35, 0.95 - 0.3 * y / size / 2)
        draw.line((0, y, size * 2, y), fill=tuple(round(255 * part) for part in tone))
    body = tuple(round(255 * part) for part in colorsys.hsv_to_rgb(hue + 0.45, 0.75, 0.92))
    middle, radius = size, size * 0.55
    if index % 3 == 0:
        draw.ellipse((middle - radius, middle - radius, middle + radius, middle + radius), body)
    elif index % 3 == 1:
        corners = [
            (middle + radius * math.sin(turn), middle - radius * math.cos(turn))
            for turn in (math.tau * k / 3 for k in range(3))
        ]
        draw.polygon(corners, body)
    else:
        spikes = []
        for k in range(10):
            reach = radius if k % 2 == 0 else radius * 0.45
            turn = math.tau * k / 10
            spikes.append((middle + reach * math.sin(turn), middle - reach * math.cos(turn)))
        draw.polygon(spikes, body)
    image = image.resize((size, size), Image.Resampling.LANCZOS)
    blurred = image.filter(ImageFilter.GaussianBlur(14 * (1 - progress) ** 2))
    noise = Image.effect_noise((size, size), 90).convert("RGB")
    return Image.blend(blurred, noise, 0.45 * (1 - progress) ** 3)
