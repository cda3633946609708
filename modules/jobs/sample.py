"""The sampling job: images from a base model, LoRAs and embeddings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from time import monotonic

import torch
from PIL import Image

from modules.families.registry import load_family
from modules.formats.embeddings.embedding_file import (
    Embedding,
    parse_embedding,
    read_embeddings_by_token,
)
from modules.formats.files.files import require_space
from modules.formats.lora.lora_file import LoraFile, read_lora
from modules.interfaces import Family
from modules.jobs.base_model import local_model
from modules.memory.precision import choose_device, compute_dtype, usual_precision
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from modules.sampling import sampler
from modules.sampling.grid import draw_grid
from modules.sampling.image_files import Settings, UsedLora, base_name, to_image
from modules.sampling.image_folder import (
    BYTES_PER_PIXEL,
    next_number,
    require_writable,
    write_image,
)
from onetrainer.captions.prompt_weights import has_weights
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import SampleRequest, model_section, require_additions, rows_of
from onetrainer.run.events import Finished, Phase, Report, Sample, Warned

SECONDS_PER_PHASE = 1.0


def sample(request: SampleRequest, report: Report) -> Finished:
    """Generate an image for every prompt and seed; existing files are kept."""
    folder = Path(request.out)
    require_writable(folder)
    texts = [text for each in request.listed for text in (each.prompt, each.negative)]
    texts += [*request.prompts, request.negative]
    if request.guidance == 1 and request.negative:
        report(Warned("at guidance 1 the negative prompt has no effect"))
    if request.prompt_weights == "off" and any(map(has_weights, texts)):
        report(Warned("weights such as (word:1.3) are read as plain text: see --prompt-weights"))
    device = choose_device(request.device)
    precision = request.precision or usual_precision(device)
    family = _load(request, device, precision, texts, report)
    rows = rows_of(request, family.name, family.process.prediction)
    shots = [(number, shot) for number, row in enumerate(rows) for shot in row]
    pixels = sum(shot.prompt.width * shot.prompt.height for _, shot in shots)
    needed = BYTES_PER_PIXEL * pixels * (2 if request.grid else 1)
    require_space(folder / "*.png", needed, option=" (--out)")
    number = next_number(folder)
    grid_rows: list[list[Image.Image]] = [[] for _ in rows]
    outputs: list[str] = []
    contexts = sampler.SamplingContexts()  # all weights are in the compute dtype
    for image, (row, shot) in _sample_all(request, family, shots, contexts, report):
        prompt = shot.prompt
        if request.grid:
            grid_rows[row].append(image)
        path = folder / f"{number:05d}-{prompt.seed}.png"
        write_image(image, path, _settings(request, shot))
        report(Sample(0, row, str(path), prompt.prompt, prompt.seed))
        outputs.append(str(path))
        number += 1
    if request.grid:
        path = folder / f"{number:05d}-grid.png"
        titles = [row[0].title for row in rows]
        columns = [f"seed {seed}" for seed in request.seeds]
        write_image(draw_grid(grid_rows, rows=titles, columns=columns), path, None)
        outputs.append(str(path))
    return Finished(0, outputs)


def _load(
    request: SampleRequest,
    device: torch.device,
    precision: Precision,
    texts: Sequence[str],
    report: Report,
) -> Family:
    """Load the base model with the requested LoRAs, embeddings and VAE. texts: All prompts."""
    section = model_section(request, local_model(request.base, report, offline=request.offline))
    require_additions(request, section.family)
    report(Phase("loading", detail=f"loading the model {base_name(request.base)}"))
    family = load_family(section, compute_dtype=compute_dtype(precision), device=device)
    names = layer_names(family) if request.loras else None
    loras = [read_lora(Path(lora.path), names) for lora in request.loras if names]
    try:
        notes = merge_loras(
            family, [(file, one.strength) for file, one in zip(loras, request.loras, strict=True)]
        )
    except UserError as error:
        files = ", ".join(Path(lora.path).name for lora in request.loras)
        raise UserError(f"{files}: {error.what}", error.expected, error.remedy) from error
    for note in notes:
        report(Warned(note))
    embeddings: dict[str, Embedding] = {}
    for source, found in _embeddings(request, loras):
        embeddings |= found
        if not any(token.lower() in text.lower() for text in texts for token in found):
            placeholders = " or ".join(f'"{placeholder}"' for placeholder in found)
            report(Warned(f"{source}: no prompt contains {placeholders}"))
    family = family.with_embeddings(embeddings) if embeddings else family
    return family.with_prompt_weights(request.prompt_weights)


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
    shots: Sequence[tuple[int, Shot]],
    contexts: sampler.SamplingContexts,
    report: Report,
) -> Iterator[tuple[Image.Image, tuple[int, Shot]]]:
    """Yield every image with its row and shot, in batches; their order stays."""
    reported = 0.0

    def on_step(number: int, *, done: int, steps: int) -> None:
        """Report the current image and sampling step, at most once a second."""
        nonlocal reported
        if number == 0 or monotonic() - reported > SECONDS_PER_PHASE:
            reported = monotonic()
            detail = f"step {number + 1} of {steps}"
            report(Phase("sampling", done, len(shots), detail))

    done = 0
    for _, alike in groupby(shots, key=lambda each: _alike(each[1])):
        group = list(alike)
        for start in range(0, len(group), request.batch):
            batch = group[start : start + request.batch]
            first = batch[0][1]
            pixels = sampler.sample(
                family,
                [shot.prompt for _, shot in batch],
                steps=first.steps,
                guidance=first.guidance,
                sampler=first.sampler,
                guidance_rescale=request.guidance_rescale,
                contexts=contexts,
                on_step=partial(on_step, done=done, steps=first.steps),
            )
            yield from zip(map(to_image, pixels), batch, strict=True)
            done += len(batch)


def _alike(shot: Shot) -> tuple[object, ...]:
    """Return what images of one batch have in common."""
    prompt = shot.prompt
    looks = (prompt.width, prompt.height, prompt.image, prompt.mask)
    return (*looks, shot.steps, shot.guidance, shot.sampler)


def _settings(request: SampleRequest, shot: Shot) -> Settings:
    return Settings(
        shot.prompt,
        steps=shot.steps,
        guidance=shot.guidance,
        sampler=shot.sampler,
        guidance_rescale=request.guidance_rescale,
        model=base_name(request.base),
        loras=tuple(UsedLora(Path(lora.path).stem, lora.strength) for lora in request.loras),
        clip_skip=request.clip_skip,
        embeddings=tuple(Path(path).stem for path in request.embeddings),
        vae=base_name(request.vae) if request.vae else "",
        prompt_weights=request.prompt_weights,
    )
