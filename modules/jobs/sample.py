"""The sampling job: images from a base model, LoRAs and embeddings."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Protocol

from PIL import Image

from modules.formats.files.files import require_space
from modules.interfaces import Family
from modules.jobs.loaded_model import LoadedModel
from modules.memory.precision import choose_device, usual_precision
from modules.sampling import sampler
from modules.sampling.image_files import Settings, UsedLora, base_name, to_image
from modules.sampling.image_folder import require_writable
from modules.sampling.table_writer import TableWriter, bytes_of
from onetrainer.captions.prompt_weights import has_weights
from onetrainer.captions.sample_prompts import Shot
from onetrainer.jobs.sample_request import SampledLora, SampleRequest
from onetrainer.jobs.sample_table import Cell, SampleTable, table_of
from onetrainer.run.device_owner import expecting, owning_for
from onetrainer.run.events import Event, Finished, Phase, Report, Sample, Warned

SECONDS_PER_PHASE = 1.0


class OnStep(Protocol):
    """Called before each sampling step: its number, and the first image of its batch."""

    def __call__(self, number: int, *, first: Shot) -> None: ...


def sample(request: SampleRequest, report: Report) -> Finished:
    """Generate an image for every prompt and seed, or for every cell of a grid.

    Existing files are kept. Waits until the device is free.
    """
    with owning_for(request.device, "onetrainer sample", report) as expect:
        return sample_with(LoadedModel(), request, expecting(report, expect))


def sample_with(
    model: LoadedModel,
    request: SampleRequest,
    report: Report,
    check: Callable[[], None] = lambda: None,
) -> Finished:
    """Generate the images of a request with a model that may be loaded.

    check: Called before each sampling step; an exception ends the job, and the grid of the images
    so far is kept.
    """
    folder = Path(request.out)
    require_writable(folder)
    _warn(request, report)
    device = choose_device(request.device)
    precision = request.precision or usual_precision(device)
    base = model.base(request, device, precision, report)
    table = table_of(request, base.name, base.process.prediction)
    has_grid = request.grid or request.x is not None or request.y is not None
    require_space(folder / "*.png", bytes_of(table, has_grid=has_grid), option=" (--out)")
    prompts = [cell.shot.prompt for cell in table.cells]
    texts = [text for prompt in prompts for text in (prompt.prompt, prompt.negative)]
    reported = _Once(report)
    writer = TableWriter(folder, table, has_grid=has_grid)
    on_step = _Progress(report, writer, len(table.cells), check)
    places = {(cell.row, cell.column): index for index, cell in enumerate(table.cells)}
    try:
        for loras, cells in _by_loras(table):
            check()
            family = model.with_additions(request, loras, texts, reported)
            for image, cell in _sample_all(request, family, cells, on_step):
                path = writer.add(image, cell, _settings(request, cell))
                prompt, place = cell.shot.prompt, places[cell.row, cell.column]
                report(Sample(0, place, str(path), prompt.prompt, prompt.seed))
    finally:
        writer.finish()
    return Finished(0, [str(path) for path in writer.written])


def _warn(request: SampleRequest, report: Report) -> None:
    """Report settings that have no effect."""
    texts = [text for each in request.listed for text in (each.prompt, each.negative)]
    texts += [*request.prompts, request.negative]
    if request.guidance == 1 and request.negative:
        report(Warned("at guidance 1 the negative prompt has no effect"))
    if request.prompt_weights == "off" and any(map(has_weights, texts)):
        report(Warned("weights such as (word:1.3) are read as plain text: see --prompt-weights"))


class _Once:
    """Reports each warning once, however many cells it is about."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._warned = set[str]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            if event.text in self._warned:
                return
            self._warned.add(event.text)
        self._report(event)


class _Progress:
    """Reports the current image and sampling step, at most once a second."""

    def __init__(
        self, report: Report, writer: TableWriter, total: int, check: Callable[[], None]
    ) -> None:
        self._report, self._writer, self._total, self._check = report, writer, total, check
        self._reported = 0.0

    def __call__(self, number: int, *, first: Shot) -> None:
        self._check()
        if number == 0 or monotonic() - self._reported > SECONDS_PER_PHASE:
            self._reported = monotonic()
            detail = f"step {number + 1} of {first.steps}"
            self._report(Phase("sampling", len(self._writer.written), self._total, detail))


def _by_loras(table: SampleTable) -> Iterator[tuple[tuple[SampledLora, ...], list[Cell]]]:
    """Yield the cells with the same LoRAs together, so that these are merged once."""
    cells_by_loras: dict[tuple[SampledLora, ...], list[Cell]] = {}
    for cell in table.cells:
        cells_by_loras.setdefault(cell.loras, []).append(cell)
    yield from cells_by_loras.items()


def _sample_all(
    request: SampleRequest,
    family: Family,
    cells: Sequence[Cell],
    on_step: OnStep,
) -> Iterator[tuple[Image.Image, Cell]]:
    """Yield every image with its cell, in batches; their order stays."""
    contexts = sampler.SamplingContexts()  # all weights are in the compute dtype
    for _, alike in groupby(cells, key=lambda cell: _alike(cell.shot)):
        group = list(alike)
        for start in range(0, len(group), request.batch):
            batch = group[start : start + request.batch]
            first = batch[0].shot
            pixels = sampler.sample(
                family,
                [cell.shot.prompt for cell in batch],
                steps=first.steps,
                guidance=first.guidance,
                sampler=first.sampler,
                guidance_rescale=request.guidance_rescale,
                contexts=contexts,
                on_step=partial(on_step, first=first),
            )
            yield from zip(map(to_image, pixels), batch, strict=True)


def _alike(shot: Shot) -> tuple[object, ...]:
    """Return what images of one batch have in common."""
    prompt = shot.prompt
    looks = (prompt.width, prompt.height, prompt.image, prompt.mask)
    return (*looks, shot.steps, shot.guidance, shot.sampler)


def _settings(request: SampleRequest, cell: Cell) -> Settings:
    shot = cell.shot
    return Settings(
        shot.prompt,
        steps=shot.steps,
        guidance=shot.guidance,
        sampler=shot.sampler,
        guidance_rescale=request.guidance_rescale,
        model=base_name(request.base),
        loras=tuple(UsedLora(lora.name, lora.strength) for lora in cell.loras),
        clip_skip=request.clip_skip,
        embeddings=tuple(Path(path).stem for path in request.embeddings),
        vae=base_name(request.vae) if request.vae else "",
        prompt_weights=request.prompt_weights,
    )
