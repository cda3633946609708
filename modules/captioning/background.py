"""Background removal: networks in .onnx files that find the subject of any image.

U²-Net, IS-Net and BiRefNet take the whole image, stretched to a square, as red, green and blue that
are normalized, and give a value for each pixel. What differs is the normalization, which the
file itself does not say: it is read from a preprocessor_config.json, or told by the file's name.
Sources: Qin et al. 2020, arXiv:2005.09007 (U²-Net); Qin et al. 2022, arXiv:2203.03041 (IS-Net);
Zheng et al. 2024, arXiv:2401.03407 (BiRefNet); their authors' programs, and rembg's of all three.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from modules.captioning.describer import Found
from modules.captioning.onnx_model import OnnxModel
from onetrainer.captioning.kinds import onnx_file
from onetrainer.files.ordinary import read_ordinary
from onetrainer.files.own_json import NotOurs, parse_json, typed

_Colors = tuple[float, float, float]
_SIDE = 1024  # where neither the network nor its settings say it


@dataclass(frozen=True)
class Normalization:
    """What is subtracted from red, green and blue from 0 to 1, and what they are divided by."""

    mean: _Colors = (0.485, 0.456, 0.406)  # of ImageNet: U²-Net, BiRefNet
    deviation: _Colors = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class _Settings:
    """What a preprocessor_config.json says of it."""

    image_mean: _Colors
    image_std: _Colors


_OF_NAMES = {
    "isnet-anime": Normalization(deviation=(1.0, 1.0, 1.0)),
    "isnet": Normalization((0.5, 0.5, 0.5), (1.0, 1.0, 1.0)),
    "rmbg-1": Normalization((0.5, 0.5, 0.5), (1.0, 1.0, 1.0)),
}


class Background:
    """A network that finds the subject; see `Describer`."""

    def __init__(self, path: Path, device: torch.device) -> None:
        file = onnx_file(path)
        self._normalization = normalization_of(file)
        self._model = OnnxModel(file, device)
        self.notes = self._model.notes
        channels, height, width = self._model.shape
        if channels not in (3, None):
            what = "does not take images as U²-Net does"
            raise self._model.unfit(what, "3 colors × height × width")
        self._size = (width or _SIDE, height or _SIDE)

    def describe(self, images: Sequence[Image.Image]) -> list[Found]:
        """Return the mask of each image's subject."""
        pixels = [background_pixels(image, self._size, self._normalization) for image in images]
        values = self._model(np.stack(pixels), dimensions=4)[:, 0]  # (B, height, width)
        return [Found(mask=_gray(each)) for each in values]


def background_pixels(
    image: Image.Image, size: tuple[int, int], normalization: Normalization
) -> NDArray[np.float32]:
    """Return an image as the networks take it, (3, height, width)."""
    pixels = np.asarray(image.resize(size, Image.Resampling.LANCZOS), np.float32) / 255
    mean, deviation = (
        np.array(each, np.float32) for each in (normalization.mean, normalization.deviation)
    )
    return np.ascontiguousarray(((pixels - mean) / deviation).transpose(2, 0, 1))


def normalization_of(file: Path) -> Normalization:
    """Return how a network's input is normalized."""
    for folder in (file.parent, file.parent.parent):  # of "onnx/model.onnx" above it
        try:
            content = read_ordinary(folder / "preprocessor_config.json")
            settings = typed(parse_json(content), _Settings)
        except (OSError, NotOurs):
            continue
        if min(settings.image_std) > 0:
            return Normalization(settings.image_mean, settings.image_std)
    name = f"{file.parent.name}/{file.name}".lower().replace("_", "-")
    return next((each for part, each in _OF_NAMES.items() if part in name), Normalization())


def _gray(values: NDArray[np.float32]) -> Image.Image:
    """Return values as a mask from black for the lowest one to white for the highest.

    So the networks' authors do it. Those of BiRefNet are no probabilities yet.
    """
    if values.min() < 0 or values.max() > 1:
        values = (1 / (1 + np.exp(-values.clip(-60, 60)))).astype(np.float32)
    least, most = float(values.min()), float(values.max())
    share = (values - least) / max(most - least, 1e-6)
    return Image.fromarray((share * 255).round().astype(np.uint8))
