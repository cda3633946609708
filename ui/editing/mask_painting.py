"""A mask being painted: white where its image is trained, black where it is not."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw

from onetrainer.images.image_file import (
    DEEP_MODES,
    apply_orientation,
    open_image,
    orientation,
)

TRAINED, IGNORED = 255, 0
MAX_SIDE = 4096
"""Longest side of a new mask in pixels; training stretches it to its image."""

_MAX_UNDO_BYTES = 100_000_000
_TOLERANCE = 32
"""Largest difference in brightness to a filled point: soft edges are filled up to their middle."""
_DEEP_TO_8 = 257  # 65535 / 255

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Step:
    """A changed part of the mask, with what was there before and after."""

    box: Box
    before: Image.Image
    after: Image.Image

    @property
    def size(self) -> int:
        return self.before.width * self.before.height * 2


class MaskPainting:
    """The mask of one image. Positions and lengths are in pixels of the mask.

    Args:
        path: Names the mask in errors.
        size: Of its image, upright.
        content: Of its file; None if it has none, which trains the whole image.

    Raises ImageError if the file is no readable image.
    """

    def __init__(self, path: Path, size: tuple[int, int], content: bytes | None) -> None:
        self.image = (
            Image.new("L", _new_size(size), TRAINED) if content is None else _read(path, content)
        )
        self._steps: list[_Step] = []
        self._done = 0  # steps that are not undone
        self._saved = 0
        self._before: Image.Image | None = None
        self._coverage: Image.Image | None = None
        self._box: Box | None = None
        self._last: tuple[float, float] | None = None

    @property
    def is_changed(self) -> bool:
        """Whether it differs from what was read or saved last."""
        return self._done != self._saved

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo."""
        return self._done > 0

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to redo."""
        return self._done < len(self._steps)

    def taken(self) -> Image.Image:
        """Return it as it is now, and take it as saved."""
        self._saved = self._done
        return self.image.copy()

    def stroke(self, x: float, y: float, radius: float, value: int, opacity: float) -> None:
        """Continue a stroke of a round brush to a point, or begin one.

        A stroke that crosses itself covers no more there. opacity: From 0 to 1.
        """
        if self._before is None:
            self._begin()
        assert self._before is not None and self._coverage is not None, "a stroke has begun"
        last = self._last or (x, y)
        self._last = (x, y)
        box = self._inside(
            min(last[0], x) - radius - 1,
            min(last[1], y) - radius - 1,
            max(last[0], x) + radius + 2,
            max(last[1], y) + radius + 2,
        )
        if box is None:
            return
        draw = ImageDraw.Draw(self._coverage)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=255)
        if last != (x, y):
            draw.line((*last, x, y), fill=255, width=max(1, round(2 * radius)))
        covered = self._coverage.crop(box)
        self._blend(box, covered, value, opacity)
        self._box = box if self._box is None else _union(self._box, box)

    def end_stroke(self) -> None:
        """End a stroke, which is one step to undo."""
        before, box = self._before, self._box
        self._before = self._coverage = self._box = self._last = None
        if before is not None and box is not None:
            self._add(box, before)

    def fill(self, x: float, y: float, value: int, opacity: float = 1.0) -> None:
        """Fill the connected area around a point that is about as bright as it."""
        place = (int(x), int(y))
        if not (0 <= place[0] < self.image.width and 0 <= place[1] < self.image.height):
            return
        found = self.image.getpixel(place)
        assert isinstance(found, int), "it has one channel"
        similar = self.image.point(
            [255 * (abs(found - other) <= _TOLERANCE) for other in range(256)]
        )
        area = connected_area(similar, place)
        box = area.getbbox()
        if box is not None:
            self._begin()
            self._blend(box, area.crop(box), value, opacity)
            self._box = box
            self.end_stroke()

    def fill_all(self, value: int) -> None:
        """Give all of it one value."""
        self._replace(Image.new("L", self.image.size, value))

    def invert(self) -> None:
        """Exchange what is trained and what is not."""
        self._replace(ImageChops.invert(self.image))

    def undo(self) -> None:
        """Undo the last step."""
        if self.can_undo:
            self._done -= 1
            step = self._steps[self._done]
            self.image.paste(step.before, step.box)

    def redo(self) -> None:
        """Redo the step that was undone last."""
        if self.can_redo:
            step = self._steps[self._done]
            self._done += 1
            self.image.paste(step.after, step.box)

    def _begin(self) -> None:
        self._before = self.image.copy()
        self._coverage = Image.new("L", self.image.size, 0)

    def _blend(self, box: Box, covered: Image.Image, value: int, opacity: float) -> None:
        """Put a value over a part of what was there before the step, where it is covered."""
        assert self._before is not None, "a step has begun"
        weight = covered.point([round(cover * opacity) for cover in range(256)])
        before = self._before.crop(box)
        over = Image.new("L", before.size, value)
        self.image.paste(Image.composite(over, before, weight), box)

    def _replace(self, image: Image.Image) -> None:
        before, self.image = self.image, image
        self._add((0, 0, *image.size), before)

    def _add(self, box: Box, before: Image.Image) -> None:
        step = _Step(box, before.crop(box), self.image.crop(box))
        if step.before.tobytes() == step.after.tobytes():
            return
        if self._saved > self._done:
            self._saved = -1  # what was saved cannot be reached again
        self._steps = [*self._steps[: self._done], step]
        self._done += 1
        while sum(each.size for each in self._steps) > _MAX_UNDO_BYTES and len(self._steps) > 1:
            self._steps.pop(0)
            self._done -= 1
            self._saved -= 1

    def _inside(self, left: float, top: float, right: float, bottom: float) -> Box | None:
        """Return the part of a box that is inside the mask; None if there is none."""
        box = (
            max(0, int(left)),
            max(0, int(top)),
            min(self.image.width, int(right) + 1),
            min(self.image.height, int(bottom) + 1),
        )
        return box if box[0] < box[2] and box[1] < box[3] else None


def png(image: Image.Image) -> bytes:
    """Return a mask as a file; takes a fifth of a second for a large one."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def connected_area(similar: Image.Image, start: tuple[int, int]) -> Image.Image:
    """Return the area of 255 around a point in an image of 0 and 255, as 255 on 0.

    Whole runs of a row are searched at once, since Pillow's own fill takes seconds for a photo.
    """
    width, height = similar.size
    rows = [bytearray(row) for row in _rows(similar)]
    area = [bytearray(width) for _ in range(height)]
    x, y = start
    waiting = [(y, x, x + 1)] if rows[y][x] else []
    while waiting:
        y, first, last = waiting.pop()
        row, at = rows[y], first
        while (found := row.find(255, at, last)) >= 0:
            left = row.rfind(0, 0, found) + 1
            right = row.find(0, found)
            right = width if right < 0 else right
            row[left:right] = bytes(right - left)  # done with
            area[y][left:right] = b"\xff" * (right - left)
            waiting += [(near, left, right) for near in (y - 1, y + 1) if 0 <= near < height]
            at = right
            if at >= last:
                break
    return Image.frombytes("L", similar.size, b"".join(area))


def _rows(image: Image.Image) -> Iterator[bytes]:
    data, width = image.tobytes(), image.width
    return (data[at : at + width] for at in range(0, len(data), width))


def _new_size(size: tuple[int, int]) -> tuple[int, int]:
    scale = min(1.0, MAX_SIDE / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _read(path: Path, content: bytes) -> Image.Image:
    """Return the brightness of a mask file in 8 bits, as training reads it."""
    file = io.BytesIO(content)
    with open_image(file, path) as opened:
        turned = orientation(opened, file)
        if opened.mode in DEEP_MODES:
            gray = opened.convert("I").point(lambda value: value / _DEEP_TO_8).convert("L")
        else:
            gray = opened.convert("L")
        return apply_orientation(gray, turned)


def _union(one: Box, two: Box) -> Box:
    return (
        min(one[0], two[0]),
        min(one[1], two[1]),
        max(one[2], two[2]),
        max(one[3], two[3]),
    )
