"""How fine the detail of a picture is, and whether it was enlarged.

Numbers and thresholds were measured; they stand in docs/pictures.md. numpy is imported when a
picture is looked at.
"""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

TILE = 128
"""The side of the squares that are looked at, in pixels."""

_TILES = 8  # of them across and down, at most
_MOST = 2048  # pixels a side in which traces of enlarging are looked for
_BINS = 32
_CONTRAST = 5.0  # of 255: a plainer tile tells nothing
_FADED = 3 / 8  # what the window leaves of it: the root of a Hann window's mean square, both ways
_NOISE = 1.5  # of 255: what is weaker may be grain, or what a JPEG leaves
_FAINT, _STRONG = 0.01, 0.05  # of the strongest, in power
_SHARPEST = 0.9  # the tile than which nine tenths are less sharp: backgrounds may be soft
_ONE_STEP = 0.01
_LARGEST_BLOCK = 16
_PACKED = struct.Struct(">dddB")


@dataclass(frozen=True)
class Detail:
    """How fine the detail of a picture is.

    finest: down to which size it has any, as a share of what its pixels could hold: 1 is all, 0.5
    means that it would lose nothing at half the size. strong: the same of detail that is clearly
    visible. trace: how much stronger than chance the rhythm is that enlarging leaves behind.
    block: the side of the equal squares that it consists of, 1 if it does not.
    """

    finest: float
    strong: float
    trace: float
    block: int

    def pack(self) -> bytes:
        """As bytes, for `unpacked`."""
        return _PACKED.pack(self.finest, self.strong, self.trace, self.block)

    @classmethod
    def unpack(cls, data: bytes) -> "Detail":
        """What was packed."""
        return cls(*_PACKED.unpack(data))


def detail_of(image: "Image") -> Detail | None:
    """The detail of a grey picture ("L"); None if it is too small or too plain to tell."""
    import numpy as np

    if min(image.size) < TILE:
        return None
    pixels = np.asarray(image)
    powers = _powers(_windowed(pixels))
    if not len(powers):
        return None
    top, left = (max(0, (side - _MOST) // 2) for side in pixels.shape)
    part = pixels[top : top + _MOST, left : left + _MOST].astype(np.float32)
    traces = [_trace(part), _trace(part.T)]
    return Detail(_reach(powers, _FAINT), _reach(powers, _STRONG), min(traces), _block(part))


def _windowed(pixels: "NDArray[np.uint8]") -> "NDArray[np.float32]":
    """(n, TILE, TILE): tiles spread evenly over the picture that fade out towards their edges.

    Without their mean, and without those that are plain then: an edge in a corner tells nothing.
    """
    import numpy as np

    rows, columns = (_starts(side) for side in pixels.shape)
    tiles = [pixels[y : y + TILE, x : x + TILE] for y in rows for x in columns]
    fade = np.hanning(TILE + 2)[1:-1].astype(np.float32)
    window = np.outer(fade, fade)
    stacked = np.stack(tiles).astype(np.float32)
    means = (stacked * window).sum((1, 2), keepdims=True) / window.sum()
    windowed: NDArray[np.float32] = (stacked - means) * window
    contrasted: NDArray[np.float32] = windowed[_root_mean_square(windowed) >= _CONTRAST * _FADED]
    return contrasted


def _root_mean_square(tiles: "NDArray[np.float32]") -> "NDArray[np.float32]":
    roots: NDArray[np.float32] = (tiles**2).mean((1, 2)) ** 0.5
    return roots


def _starts(side: int) -> list[int]:
    count = min(_TILES, -(-side // TILE))
    return [round(place * (side - TILE) / max(1, count - 1)) for place in range(count)]


def _powers(tiles: "NDArray[np.float32]") -> "NDArray[np.float64]":
    """(n, _BINS): the mean power at each frequency up to the finest, times its square.

    Pictures of the world have about the same at every frequency then.
    Source: Field 1987, "Relations between the statistics of natural images and the response
    properties of cortical cells".
    """
    import numpy as np

    across, down = np.fft.rfftfreq(TILE), np.fft.fftfreq(TILE)
    bins = (np.hypot(down[:, None], across[None]) * 2 * _BINS).astype(int).ravel()
    counts = np.bincount(bins)[:_BINS]
    power = np.abs(np.fft.rfft2(tiles)) ** 2 / TILE**2
    sums = [np.bincount(bins, one.ravel())[:_BINS] / counts for one in power]
    return np.array(sums).reshape(-1, _BINS) * _frequencies() ** 2


def _frequencies() -> "NDArray[np.float64]":
    import numpy as np

    return (np.arange(_BINS) + 0.5) / (2 * _BINS)


def _reach(powers: "NDArray[np.float64]", share: float) -> float:
    """The finest frequency with so large a share of the power, of the sharpest tiles."""
    import numpy as np

    strongest = powers[:, 1 : _BINS // 2].max(1, keepdims=True)
    grain = (_FADED * _NOISE * _frequencies()) ** 2
    above = powers > np.maximum(share * strongest, grain)
    reaches = np.sort((_BINS - above[:, ::-1].argmax(1)) * above.any(1)) / _BINS
    return float(reaches[int((len(reaches) - 1) * _SHARPEST)])


def _trace(pixels: "NDArray[np.float32]") -> float:
    """How far the rhythm along a row stands out: 1 is as strong as the middle one.

    Between two pixels of the original, the curvature of what was filled in changes in their rhythm.
    Rhythms of 8 pixels and their fractions are left out, as every JPEG has those; so enlarging by
    exactly 2, 4 and 8 leaves nothing to find here.
    Source: Gallagher 2005, "Detection of linear and cubic interpolation in JPEG compressed images".
    """
    import numpy as np

    curvature = np.abs(pixels[:, :-2] - 2 * pixels[:, 1:-1] + pixels[:, 2:]).mean(0)
    smooth = np.convolve(curvature, np.ones(33) / 33, "same")
    rest = (curvature - smooth)[20:-20]  # the edges have no full mean
    size = 4096
    strength = np.abs(np.fft.rfft(rest * np.hanning(len(rest)), size))
    frequency = np.arange(len(strength)) / size
    off_grid = np.abs(frequency * 8 - np.round(frequency * 8)) >= 0.03
    middle = float(np.median(strength))
    if middle < 1e-6:
        return 0.0
    return float(strength[off_grid & (frequency > 0.1)].max()) / middle


def _block(pixels: "NDArray[np.float32]") -> int:
    """The largest square of which a picture consists, all of one value each; 1 if it does not."""
    import numpy as np

    found = []
    for part in (pixels, pixels.T):
        steps = np.abs(np.diff(part, axis=1)).mean(0)
        whole = float(steps.sum())
        sides = range(_LARGEST_BLOCK, 1, -1)
        within = (side for side in sides if _inside(steps, side) < _ONE_STEP * whole)
        found.append(next(within, 1) if whole else 1)
    return min(found)


def _inside(steps: "NDArray[np.float32]", side: int) -> float:
    """The sum of the steps that are not from one block to the next."""
    return float(steps.sum() - steps[side - 1 :: side].sum())
