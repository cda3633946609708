"""The sampling job: images from a base model, LoRAs and embeddings."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import torch
from PIL import Image

from modules.families.hub import fetch
from modules.families.registry import load_family
from modules.formats.embeddings.embedding_file import (
    Embedding,
    parse_embedding,
    read_embeddings_by_token,
)
from modules.formats.lora.lora_file import LoraFile, read_lora
from modules.interfaces import Family
from modules.memory.precision import autocast, choose_device, compute_dtype
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from modules.sampling.grid import draw_grid
from modules.sampling.image_files import Settings, UsedLora, base_name, to_image
from modules.sampling.image_folder import next_number, require_room, require_writable, write_image
from modules.sampling.sampler import SamplingContexts, sample
from onetrainer.config.run.hardware import Precision
from onetrainer.config.run.sampling import Prompt
from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import SampleRequest, model_section, require_additions, size_of
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.events import Event, Finished, Phase, Sample, Warned

SECONDS_PER_PHASE = 1.0

Report = Callable[[Event], None]


def sample_job(request: SampleRequest, report: Report) -> Finished:
    """Generate an image for every prompt and seed; existing files are kept."""
    folder = Path(request.out)
    require_writable(folder)
    if request.guidance == 1 and request.negative:
        report(Warned("at guidance 1 the negative prompt has no effect"))
    device = choose_device(request.device)
    precision = request.precision or _usual_precision(device)
    family = _load(request, device, precision, report)
    prompts = _prompts(request, family)
    pixels = sum(prompt.width * prompt.height for prompt in prompts)
    require_room(folder, 2 * pixels if request.grid else pixels)
    number = next_number(folder)
    grid_rows: list[list[Image.Image]] = [[] for _ in request.prompts]
    outputs: list[str] = []
    context = partial(autocast, device, precision)
    for image, prompt in _sample_all(request, family, prompts, context, report):
        row = len(outputs) // len(request.seeds)
        if request.grid:
            grid_rows[row].append(image)
        path = folder / f"{number:05d}-{prompt.seed}.png"
        write_image(image, path, _settings(request, prompt))
        report(Sample(0, row, str(path), prompt.prompt, prompt.seed))
        outputs.append(str(path))
        number += 1
    if request.grid:
        path = folder / f"{number:05d}-grid.png"
        columns = [f"seed {seed}" for seed in request.seeds]
        write_image(draw_grid(grid_rows, rows=request.prompts, columns=columns), path, None)
        outputs.append(str(path))
    return Finished(0, outputs)


def _usual_precision(device: torch.device) -> Precision:
    if device.type != "cuda":
        return "fp32"
    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"


def _load(
    request: SampleRequest, device: torch.device, precision: Precision, report: Report
) -> Family:
    """Load the base model with the requested LoRAs, embeddings and VAE."""
    path = Path(request.base)
    if is_hub_name(request.base):
        path = fetch(
            request.base,
            offline=request.offline,
            report=lambda detail: report(Phase("loading", detail=detail)),
        )
    section = model_section(request, path)
    require_additions(request, section.family)
    report(Phase("loading", detail=f"loading the model {base_name(request.base)}"))
    family = load_family(section, compute_dtype=compute_dtype(precision), device=device)
    loras = _read_loras(request, family)
    for note in _merge(request, family, loras):
        report(Warned(note))
    embeddings: dict[str, Embedding] = {}
    for source, found in _embeddings(request, loras):
        embeddings |= found
        texts = (*request.prompts, request.negative)
        if not any(token.lower() in text.lower() for text in texts for token in found):
            placeholders = " or ".join(f'"{placeholder}"' for placeholder in found)
            report(Warned(f"{source}: no prompt contains {placeholders}"))
    if not embeddings:
        return family
    return family.with_embeddings(embeddings)


def _read_loras(request: SampleRequest, family: Family) -> list[LoraFile]:
    if not request.loras:
        return []
    names = layer_names(family)
    return [read_lora(Path(lora.path), names) for lora in request.loras]


def _merge(request: SampleRequest, family: Family, loras: list[LoraFile]) -> list[str]:
    """Merge the LoRAs; return notes for people."""
    strengths = [lora.strength for lora in request.loras]
    try:
        return merge_loras(family, list(zip(loras, strengths, strict=True)))
    except UserError as error:
        names = ", ".join(Path(lora.path).name for lora in request.loras)
        raise UserError(f"{names}: {error.what}", error.expected, error.remedy) from error


def _embeddings(
    request: SampleRequest, loras: list[LoraFile]
) -> Iterator[tuple[str, Mapping[str, Embedding]]]:
    """Yield each file's name with its embeddings by placeholder; those bundled with LoRAs last."""
    for path in map(Path, request.embeddings):
        by_placeholder = {}
        for name, embedding in read_embeddings_by_token(path).items():
            # Programs use the file's name as placeholder; its author may use the one inside.
            for token in (name, embedding.name):
                if re.search(r"\w", token):
                    by_placeholder[token] = embedding
        yield path.name, by_placeholder
    for used, lora in zip(request.loras, loras, strict=True):
        if lora.embeddings:
            yield (
                Path(used.path).name,
                {
                    token: parse_embedding(tensors, name=token, metadata={}, source=token)
                    for token, tensors in lora.embeddings.items()
                },
            )


def _sample_all(
    request: SampleRequest,
    family: Family,
    prompts: Sequence[Prompt],
    context: Callable[[], AbstractContextManager[object]],
    report: Report,
) -> Iterator[tuple[Image.Image, Prompt]]:
    """Yield every image with its prompt, in batches; images of one prompt are consecutive."""
    reporter = _Reporter(report, steps=request.steps, total=len(prompts))
    for start in range(0, len(prompts), request.batch):
        batch = prompts[start : start + request.batch]
        reporter.done = start
        pixels = sample(
            family,
            batch,
            steps=request.steps,
            guidance=request.guidance,
            sampler=request.sampler,
            guidance_rescale=request.guidance_rescale,
            contexts=SamplingContexts(autocast=context),
            on_step=reporter.on_step,
        )
        yield from zip(map(to_image, pixels), batch, strict=True)


def _prompts(request: SampleRequest, family: Family) -> list[Prompt]:
    """Return one prompt per image; those that differ only in their seeds are consecutive."""
    width, height = size_of(request, family.name, family.process.prediction)
    return [
        Prompt(prompt=text, negative=request.negative, seed=seed, width=width, height=height)
        for text in request.prompts
        for seed in request.seeds
    ]


@dataclass
class _Reporter:
    """Reports the current image and sampling step, at most once a second."""

    report: Report
    steps: int
    total: int
    done: int = 0
    last_report: float = 0.0

    def on_step(self, number: int) -> None:
        if number == 0 or monotonic() - self.last_report > SECONDS_PER_PHASE:
            self.last_report = monotonic()
            detail = f"step {number + 1} of {self.steps}"
            self.report(Phase("sampling", self.done, self.total, detail))


def _settings(request: SampleRequest, prompt: Prompt) -> Settings:
    return Settings(
        prompt,
        steps=request.steps,
        guidance=request.guidance,
        sampler=request.sampler,
        guidance_rescale=request.guidance_rescale,
        model=base_name(request.base),
        loras=tuple(UsedLora(Path(lora.path).stem, lora.strength) for lora in request.loras),
        clip_skip=request.clip_skip,
        embeddings=tuple(Path(path).stem for path in request.embeddings),
        vae=base_name(request.vae) if request.vae else "",
    )
