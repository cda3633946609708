"""Find near-duplicates: images scaled, recompressed, cropped, brightened or mirrored.

In two steps: the 64-bit hash of each image is compared with those of all others, then candidates
are confirmed by thumbnails. The thresholds were measured; see docs/image-preview.md.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.dataset.items import Item
from onetrainer.dataset.prefetch import prefetch
from onetrainer.images.features import (
    MIN_CONTRAST,
    THUMB,
    Features,
    image_features,
)
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_BITS = 12
"""Most bits in which the hashes of candidates may differ."""

MIN_CORRELATION = 0.95
"""Lowest correlation of the thumbnails of near-duplicates."""

MIN_CROP_CORRELATION = 0.97
"""The same for crops: correlation of blurred thumbnails, highest of many crops."""

SAME_COLOR = 3.0
"""Images without contrast are near-duplicates if their colors differ by less, of 255."""

THREADS = 4
_AT_ONCE = 4_000_000  # comparisons of bits: 64 MB
_CHUNK = 2048  # comparisons of thumbnails: 50 MB
_MAX_CROP_TRIES = 20  # pairs of an image for which crops are tried: of 10,000 alike, not all
_QUEUED = 4  # images queued for each thread, so that few are in memory
_MIN_CANDIDATE_CORRELATION = 0.55  # pairs of less correlation are not compared as crops
_CROP_FRACTIONS = (0.0, 0.025, 0.05, 0.075)  # fractions of a side that one may be cropped closer

Progress = Callable[[int, int], None]


class AnalysisCancelled(Exception):
    """The analysis of images was canceled."""


def near_duplicate_groups(
    items: Sequence[Item],
    image_index: ImageIndex | None = None,
    progress: Progress | None = None,
    *,
    should_stop: Callable[[], bool] | None = None,
    threads: int = THREADS,
) -> list[int]:
    """Return the number of each item's group; near-duplicates share one.

    Groups are numbered in the order of their first items. An unreadable image has its own group.

    progress is called with (done, total). Raises AnalysisCancelled if should_stop returns True.
    """
    paths = [item.path for item in items]
    found = extract_features(paths, image_index, progress, should_stop=should_stop, threads=threads)
    features = [None if isinstance(one, ImageError) else one for one in found]
    return group_features(features, should_stop=should_stop)


def extract_features(
    paths: Sequence[Path],
    image_index: ImageIndex | None = None,
    progress: Progress | None = None,
    *,
    should_stop: Callable[[], bool] | None = None,
    threads: int = THREADS,
) -> list[Features | ImageError]:
    """Return the features of each image, or why it cannot be read.

    progress is called with (done, total). Raises AnalysisCancelled if should_stop returns True.
    """

    def extract(path: Path) -> Features | ImageError:
        try:
            return image_features(path, image_index)
        except ImageError as error:
            return error

    result: list[Features | ImageError] = []
    found = prefetch(extract, paths, threads=threads, most=_QUEUED * threads)
    try:
        with closing(found):
            for one in found:
                if should_stop and should_stop():
                    raise AnalysisCancelled
                result.append(one)
                if progress:
                    progress(len(result), len(paths))
    finally:
        if image_index:
            image_index.save()
    return result


def group_features(
    features: Sequence[Features | None], *, should_stop: Callable[[], bool] | None = None
) -> list[int]:
    """Return the group number of each image; None is a group of its own."""
    places = [index for index, one in enumerate(features) if one is not None]
    known = [one for one in features if one is not None]
    pairs = similar_pairs(known, should_stop=should_stop)
    return groups_from_pairs(len(features), [(places[a], places[b]) for a, b in pairs])


def groups_from_pairs(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the group numbers of images of which some pairs are linked."""
    leaders = list(range(count))
    for first, second in pairs:
        _join(leaders, first, second)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(_leader(leaders, index), len(numbers)) for index in range(count)]


def similar_pairs(
    features: Sequence[Features], *, should_stop: Callable[[], bool] | None = None
) -> list[tuple[int, int]]:
    """Return pairs of near-duplicates, the earlier image first.

    Only as many as link each group: one fewer than it has images. Raises AnalysisCancelled if
    should_stop returns True.
    """
    import numpy as np

    if not features:
        return []
    hashes = np.array([one.hash for one in features], dtype=np.uint64)
    others = (hashes, np.array([one.mirrored for one in features], dtype=np.uint64))
    thumbs = np.frombuffer(b"".join(one.thumb for one in features), np.uint8)
    thumbs = thumbs.reshape(-1, THUMB, THUMB, 3)
    rows = max(1, _AT_ONCE // len(features))
    leaders = list(range(len(features)))
    result = []
    for start in range(0, len(features), rows):
        if should_stop and should_stop():
            raise AnalysisCancelled
        some = hashes[start : start + rows, None]
        for is_mirrored, other in enumerate(others):
            # Only later ones: earlier ones have been compared already.
            near = np.argwhere(np.bitwise_count(some ^ other[None, start:]) <= MAX_BITS) + start
            near = near[near[:, 1] > near[:, 0]]
            for pair in _matching_pairs(thumbs, near, leaders, is_mirrored=bool(is_mirrored)):
                _join(leaders, *pair)
                result.append(pair)
    return result


def _join(leaders: list[int], first: int, second: int) -> None:
    """Merge two groups; modifies leaders."""
    a, b = _leader(leaders, first), _leader(leaders, second)
    leaders[max(a, b)] = min(a, b)


def _leader(leaders: list[int], index: int) -> int:
    """Return the first image of an image's group; shortens paths in leaders."""
    while leaders[index] != index:
        leaders[index] = leaders[leaders[index]]
        index = leaders[index]
    return index


def _matching_pairs(
    thumbs: "NDArray[np.uint8]", near: "NDArray[np.int64]", leaders: list[int], *, is_mirrored: bool
) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose thumbnails match, also if one is a little closer crop.

    Without those that are in one group already. thumbs: (n, THUMB, THUMB, 3). near: (m, 2), indices
    of thumbs. leaders: read again for each pair, as it changes meanwhile.
    """
    import numpy as np

    tries: dict[int, int] = {}
    for part in range(0, len(near), _CHUNK):
        pairs = near[part : part + _CHUNK]
        is_new = [_leader(leaders, a) != _leader(leaders, b) for a, b in pairs.tolist()]
        pairs = pairs[np.array(is_new, dtype=bool)]
        first, second = (thumbs[places].astype(np.float32) for places in pairs.T)
        if is_mirrored:
            second = second[:, :, ::-1]
        contrasts = (each.std((1, 2)).max(1) for each in (first, second))  # the highest of a color
        are_plain = np.logical_and(*(contrast < MIN_CONTRAST for contrast in contrasts))
        distance = np.abs(first - second).max((1, 2, 3))
        correlation = _correlations(first, second)
        tries.clear()
        for index, (a, b) in enumerate(pairs.tolist()):
            if _leader(leaders, a) == _leader(leaders, b):
                continue
            is_like = correlation[index] >= MIN_CORRELATION
            if are_plain[index]:
                is_like = distance[index] < SAME_COLOR
            elif not is_like and correlation[index] >= _MIN_CANDIDATE_CORRELATION:
                tries[a] = tries.get(a, 0) + 1
                is_like = tries[a] <= _MAX_CROP_TRIES and _is_part(first[index], second[index])
            if is_like:
                yield a, b


def _is_part(a: "NDArray[np.float32]", b: "NDArray[np.float32]") -> bool:
    """Return whether one of two thumbnails, (THUMB, THUMB, 3), is a slightly closer crop."""
    import numpy as np

    crops = _crop_matrices()
    a, b = (_blur(each) for each in (a, b))
    for whole, part in ((a, b), (b, a)):
        ways = np.einsum("ryx,xkc,sqk->rsyqc", crops, whole, crops, optimize=True)
        ways = ways.reshape(-1, THUMB, THUMB, 3)
        if _correlations(ways, part[None]).max() >= MIN_CROP_CORRELATION:
            return True
    return False


def _blur(image: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return the image blurred, so that details between two pixels of a crop count less."""
    import numpy as np

    for _ in range(2):
        wide = np.pad(image, ((1, 1), (0, 0), (0, 0)), mode="edge")
        image = (0.25 * wide[:-2] + 0.5 * wide[1:-1] + 0.25 * wide[2:]).transpose(1, 0, 2)
    return image


def _correlations(a: "NDArray[np.float32]", b: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return (n,): the correlation of images with others, without their mean brightness."""
    import numpy as np

    first, second = (each - each.mean((1, 2, 3), keepdims=True) for each in (a, b))
    strength = np.sqrt((first**2).mean((1, 2, 3)) * (second**2).mean((1, 2, 3)))
    correlation: NDArray[np.float32] = (first * second).mean((1, 2, 3)) / np.maximum(strength, 1.0)
    return correlation


@cache
def _crop_matrices() -> "NDArray[np.float32]":
    """Return (n, THUMB, THUMB): matrices that scale a part of a row or column to its full size."""
    import numpy as np

    edges = np.arange(THUMB + 1.0)
    made = []
    for fraction in _CROP_FRACTIONS:
        for start in sorted({0.0, fraction / 2, fraction}):
            at = (start + edges / THUMB * (1 - fraction)) * THUMB
            # The fraction of each pixel that lies between two of the new edges.
            low, high = np.maximum(at[:-1, None], edges[:-1]), np.minimum(at[1:, None], edges[1:])
            part = np.maximum(high - low, 0)
            made.append(part / part.sum(1, keepdims=True))
    return np.array(made, dtype=np.float32)
