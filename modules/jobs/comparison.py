"""Images from before and after a file was made of others, and how far they are apart."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy
import torch
from PIL import Image

from modules.jobs.loaded_model import LoadedModel
from modules.jobs.sample import sample_with
from onetrainer.captions.sample_prompt_file import prompt_of_line
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.jobs.lora_requests import ExtractRequest, MergeRequest, images_beside
from onetrainer.jobs.sample_request import SampledLora, SampleRequest
from onetrainer.run.device_owner import owning_for
from onetrainer.run.events import Event, Phase, Report, Sample
from onetrainer.run.run_folder import cannot_write

_DEVICE = "auto"
_Side = tuple[str, Sequence[SampledLora]]
"""A model, and the LoRAs that are added to it."""


def compare(request: MergeRequest | ExtractRequest, report: Report) -> tuple[list[str], list[str]]:
    """Generate the images that a request asks for; return their paths, and lines for people.

    OUT is complete by now, so that what goes wrong here is said and does not fail the job. Waits
    until the device is free.
    """
    if not request.picture:
        return [], []
    report(Phase("sampling"))
    paths: list[Path] = []
    images: list[Image.Image] = []
    try:
        with (
            owning_for(_DEVICE, "the images to compare", report),
            TemporaryDirectory(prefix="onetrainer-images-") as folder,
        ):
            model = LoadedModel()
            for index, side in enumerate(_sides(request)):
                path = list(images_beside(Path(request.target)).values())[index]
                images.append(_generate(model, request, side, Path(folder), path, report))
                paths.append(path)
                prompt = prompt_of_line(request.picture, place="--picture")
                report(Sample(0, index, str(path), prompt.prompt, prompt.seed))
    except (UserError, OSError, torch.OutOfMemoryError) as error:
        return [str(path) for path in paths], [f"The images could not be compared: {error}"]
    return [str(path) for path in paths], [_distances(*images)]


def _sides(request: MergeRequest | ExtractRequest) -> tuple[_Side, _Side, _Side]:
    """Return the base model, what there was before, and what was written, as `SIDES` has them."""
    result = [SampledLora(path=request.target)]
    if isinstance(request, ExtractRequest):
        return (request.base, []), (request.tuned, []), (request.base, result)
    base = request.into or request.base
    after: _Side = (request.target, []) if request.into else (base, result)
    return (base, []), (base, request.loras), after


def _generate(
    model: LoadedModel,
    request: MergeRequest | ExtractRequest,
    side: _Side,
    folder: Path,
    path: Path,
    report: Report,
) -> Image.Image:
    base, loras = side

    def forward(event: Event) -> None:
        if not isinstance(event, Sample):  # whose path is that of the temporary folder
            report(event)

    sampling = SampleRequest(
        base=base,
        family=request.family,
        listed=(prompt_of_line(request.picture, place="--picture"),),
        loras=tuple(loras),
        device=_DEVICE,
        offline=True,
        out=str(folder),
    )
    (written,) = sample_with(model, sampling, forward).outputs
    try:
        write_atomic(path, Path(written).read_bytes())
    except OSError as error:
        raise cannot_write(path, error, "OUT") from error
    with Image.open(path) as image:
        return image.convert("RGB")


def _distances(base: Image.Image, before: Image.Image, after: Image.Image) -> str:
    effect, lost = _distance(base, before), _distance(before, after)
    return (
        f"The image after differs from the one before by {lost:.2f} of 255 on average, and the one"
        f" before from the base model's by {effect:.2f}."
    )


def _distance(one: Image.Image, other: Image.Image) -> float:
    if one.size != other.size:
        raise UserError("the images have different sizes")
    pair = [numpy.asarray(image, dtype=float) for image in (one, other)]
    return float(numpy.abs(pair[0] - pair[1]).mean())
