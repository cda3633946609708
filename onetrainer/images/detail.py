"""Measure how fine the detail of an image is, and detect upscaling.

Numbers and thresholds were measured; see docs/image-preview.md. numpy is imported on first use.
"""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

TILE = 128
"""Side of the analyzed squares in pixels."""

_TILES = 8  # at most, across and down
_MAX_SIDE = 2048  # pixels a side in which traces of upscaling are searched
_BINS = 32
_CONTRAST = 5.0  # of 255: tiles of less contrast are ignored
_FADED = 3 / 8  # contrast that the window leaves: root mean square of a Hann window, both ways
_NOISE = 1.5  # of 255: anything weaker may be grain or JPEG artifacts
_FAINT, _STRONG = 0.01, 0.05  # fraction of the highest power
_SHARPEST = 0.9  # quantile of the tiles' sharpness: backgrounds may be soft
_ONE_STEP = 0.01
_LARGEST_BLOCK = 16
_PACKED = struct.Struct(">dddB")


@dataclass(frozen=True)
class Detail:
    """How fine the detail of an image is.

    Attributes:
        finest: finest detail as a fraction of what its pixels can hold: 1 is all; an image of 0.5
            would lose nothing at half the size.
        strong: the same for clearly visible detail.
        trace: strength of the periodic pattern that upscaling leaves, relative to chance.
        block: side of the uniform squares that the image consists of; 1 if it does not.
    """

    finest: float
    strong: float
    trace: float
    block: int

    def pack(self) -> bytes:
        """Return the values as bytes, for `unpack`."""
        return _PACKED.pack(self.finest, self.strong, self.trace, self.block)

    @classmethod
    def unpack(cls, data: bytes) -> "Detail":
        """Return the values from packed bytes."""
        return cls(*_PACKED.unpack(data))


def detail_of(image: "Image") -> Detail | None:
    """Return the detail of a gray image ("L"); None if it is too small or low in contrast."""
    import numpy as np

    if min(image.size) < TILE:
        return None
    pixels = np.asarray(image)
    powers = _power_spectra(_windowed_tiles(pixels))
    if not len(powers):
        return None
    top, left = (max(0, (side - _MAX_SIDE) // 2) for side in pixels.shape)
    part = pixels[top : top + _MAX_SIDE, left : left + _MAX_SIDE].astype(np.float32)
    traces = [_upscaling_trace(part), _upscaling_trace(part.T)]
    return Detail(
        _finest_frequency(powers, _FAINT),
        _finest_frequency(powers, _STRONG),
        min(traces),
        _block_side(part),
    )


def _windowed_tiles(pixels: "NDArray[np.uint8]") -> "NDArray[np.float32]":
    """Return (n, TILE, TILE): windowed tiles spread evenly over the image.

    Their mean is removed, and those without contrast are left out, as an edge in a corner means
    nothing.
    """
    import numpy as np

    def starts(side: int) -> list[int]:
        count = min(_TILES, -(-side // TILE))
        return [round(place * (side - TILE) / max(1, count - 1)) for place in range(count)]

    rows, columns = map(starts, pixels.shape)
    tiles = [pixels[y : y + TILE, x : x + TILE] for y in rows for x in columns]
    fade = np.hanning(TILE + 2)[1:-1].astype(np.float32)
    window = np.outer(fade, fade)
    stacked = np.stack(tiles).astype(np.float32)
    means = (stacked * window).sum((1, 2), keepdims=True) / window.sum()
    windowed: NDArray[np.float32] = (stacked - means) * window
    contrasts = (windowed**2).mean((1, 2)) ** 0.5
    contrasted: NDArray[np.float32] = windowed[contrasts >= _CONTRAST * _FADED]
    return contrasted


def _power_spectra(tiles: "NDArray[np.float32]") -> "NDArray[np.float64]":
    """Return the mean power in each frequency band, times the squared frequency: (n, _BINS).

    The factor makes the values of a natural image about equal in all bands.
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


def _finest_frequency(powers: "NDArray[np.float64]", fraction: float) -> float:
    """Return the finest frequency with such a fraction of the power, in the sharpest tiles."""
    import numpy as np

    strongest = powers[:, 1 : _BINS // 2].max(1, keepdims=True)
    grain = (_FADED * _NOISE * _frequencies()) ** 2
    above = powers > np.maximum(fraction * strongest, grain)
    reaches = np.sort((_BINS - above[:, ::-1].argmax(1)) * above.any(1)) / _BINS
    return float(reaches[int((len(reaches) - 1) * _SHARPEST)])


def _upscaling_trace(pixels: "NDArray[np.float32]") -> float:
    """Return the strength of periodic patterns along rows; 1 is as strong as the median frequency.

    Between two pixels of the original, the curvature of interpolated pixels changes periodically.
    Periods of 8 pixels and their fractions are left out, as every JPEG has those; so enlarging by
    exactly 2, 4 and 8 is not found here.
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


def _block_side(pixels: "NDArray[np.float32]") -> int:
    """Return the side of the largest uniform squares an image consists of; 1 if it does not."""
    import numpy as np

    sides = []
    for part in (pixels, pixels.T):
        steps = np.abs(np.diff(part, axis=1)).mean(0)
        whole = float(steps.sum())
        between = (
            side
            for side in range(_LARGEST_BLOCK, 1, -1)
            if float(steps.sum() - steps[side - 1 :: side].sum()) < _ONE_STEP * whole
        )
        sides.append(next(between, 1))
    return min(sides)
