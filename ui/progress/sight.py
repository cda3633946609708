"""Which part of an image is seen in a room, when it is zoomed and moved."""

from dataclasses import dataclass, replace

MOST_ZOOM = 16.0
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Sight:
    """A part of any image, so that two can be seen alike.

    Attributes:
        zoom: How many times larger than an image that just fits.
        x, y: The middle of what is seen, in fractions of the image.
    """

    zoom: float = 1.0
    x: float = 0.5
    y: float = 0.5

    def crop(self, size: tuple[int, int], room: tuple[int, int]) -> tuple[Box, tuple[int, int]]:
        """Return the part of an image that is seen, in its pixels, and how large it is then."""
        scale = self.zoom * min(room[0] / size[0], room[1] / size[1])
        spans = [min(1.0, wide / (side * scale)) for wide, side in zip(room, size, strict=True)]
        starts = [
            min(max(0.0, middle - span / 2), 1.0 - span)
            for middle, span in zip((self.x, self.y), spans, strict=True)
        ]
        left, top = (start * side for start, side in zip(starts, size, strict=True))
        across, down = (span * side for span, side in zip(spans, size, strict=True))
        shown = max(1, round(across * scale)), max(1, round(down * scale))
        return (left, top, left + across, top + down), shown

    def zoomed(
        self, factor: float, at: tuple[float, float], size: tuple[int, int], room: tuple[int, int]
    ) -> "Sight":
        """Zoom by a factor. at: The place in the room that stays, in fractions of it."""
        zoom = min(max(1.0, self.zoom * factor), MOST_ZOOM)
        if zoom == 1.0:
            return Sight()
        place = self.place(at, size, room)
        (left, top, right, bottom), _ = replace(self, zoom=zoom).crop(size, room)
        spans = ((right - left) / size[0], (bottom - top) / size[1])
        now = replace(self, zoom=zoom).place(at, size, room)
        moved = Sight(zoom, self.x + place[0] - now[0], self.y + place[1] - now[1])
        return moved._within(spans)

    def moved(
        self, by: tuple[float, float], size: tuple[int, int], room: tuple[int, int]
    ) -> "Sight":
        """See what is further right and down, by fractions of what is seen."""
        (left, top, right, bottom), _ = self.crop(size, room)
        spans = ((right - left) / size[0], (bottom - top) / size[1])
        return replace(self, x=self.x + by[0] * spans[0], y=self.y + by[1] * spans[1])._within(
            spans
        )

    def place(
        self, at: tuple[float, float], size: tuple[int, int], room: tuple[int, int]
    ) -> tuple[float, float]:
        """Return what is at a place in the room, in fractions of the image; may be beside it."""
        (left, top, right, bottom), shown = self.crop(size, room)
        found = []
        for part, whole, seen, start, end, side in (
            (at[0], room[0], shown[0], left, right, size[0]),
            (at[1], room[1], shown[1], top, bottom, size[1]),
        ):
            within = (part * whole - (whole - seen) / 2) / seen
            found.append((start + within * (end - start)) / side)
        return found[0], found[1]

    def _within(self, spans: tuple[float, float]) -> "Sight":
        """Return the same without a middle that is too near to an edge."""
        x, y = (
            min(max(span / 2, middle), 1 - span / 2)
            for middle, span in zip((self.x, self.y), spans, strict=True)
        )
        return replace(self, x=x, y=y)
