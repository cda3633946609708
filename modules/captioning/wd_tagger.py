"""WD taggers: networks that score ten thousand tags of anime drawings.

Input, as their author's own program prepares it: the image on a white square, resized by the
bicubic filter, as blue, green and red from 0 to 255, height × width × channel. Output: a
probability for each line of selected_tags.csv. Source: SmilingWolf's wd-tagger and its model cards,
v1.4 to v3.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from modules.captioning.describer import Found
from modules.captioning.onnx_model import OnnxModel
from onetrainer.captioning.kinds import TAGS_FILE, onnx_file
from onetrainer.errors import UserError
from onetrainer.files.ordinary import read_ordinary
from onetrainer.jobs.caption_request import LEAST_SCORE

_GENERAL, _CHARACTER, _RATING = "0", "4", "9"  # categories of the tags file
_SIDE = 448


class WdTagger:
    """A tagger; see `Describer`."""

    def __init__(self, path: Path, device: torch.device) -> None:
        file = onnx_file(path)
        self._tags = _read_tags(file.with_name(TAGS_FILE))
        self._model = OnnxModel(file, device)
        self.notes = self._model.notes
        if self._model.shape[2] not in (3, None):
            what = "does not take images as a WD tagger does"
            raise self._model.unfit(what, "height × width × 3 colors")
        for count in self._model.output_shape[-1:]:
            self._require_tags(len(self._tags) if count is None else count)
        self._side = self._model.shape[0] or _SIDE

    def describe(self, images: Sequence[Image.Image]) -> list[Found]:
        """Return the tags of each image."""
        pixels = np.stack([tagger_pixels(image, self._side) for image in images])
        scores = self._model(pixels, dimensions=2)
        self._require_tags(scores.shape[1])
        return [self._found(row) for row in scores]

    def _require_tags(self, count: int) -> None:
        if count != len(self._tags):
            raise UserError(
                f"{TAGS_FILE} has {len(self._tags):,} tags; the network knows {count:,}",
                "Expected the file that belongs to the network",
                "Download both again",
            )

    def _found(self, scores: NDArray[np.float32]) -> Found:
        by_category: dict[str, dict[str, float]] = {_GENERAL: {}, _CHARACTER: {}, _RATING: {}}
        for (name, category), score in zip(self._tags, scores.tolist(), strict=True):
            if category in by_category and (score >= LEAST_SCORE or category == _RATING):
                by_category[category][name] = round(score, 4)
        return Found(
            tags=by_category[_GENERAL],
            characters=by_category[_CHARACTER],
            rating=_surest(by_category[_RATING]),
        )


def tagger_pixels(image: Image.Image, side: int) -> NDArray[np.float32]:
    """Return an image as the network takes it, (side, side, 3)."""
    longer = max(image.size)
    square = Image.new("RGB", (longer, longer), "white")
    square.paste(image, ((longer - image.width) // 2, (longer - image.height) // 2))
    small = square.resize((side, side), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(np.asarray(small, np.float32)[:, :, ::-1])


def _surest(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda name: scores[name], default="")


def _read_tags(path: Path) -> list[tuple[str, str]]:
    """Return the names of tags with their categories, in the order of the network's outputs."""
    try:
        text = read_ordinary(path).decode("utf-8")
        with io.StringIO(text, newline="") as file:
            rows = [(row["name"], row["category"]) for row in csv.DictReader(file)]
        if not all(map(all, rows)):
            raise ValueError("a line is cut off")
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise UserError(
            f"{path}: this list of tags cannot be read ({error})",
            "Expected the columns name and category",
            "Download it again",
        ) from error
    return rows
