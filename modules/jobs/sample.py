"""The job of drawing pictures: from a base model, LoRAs and embeddings to files."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

import torch
from PIL import Image

from modules.families.hub import fetch
from modules.families.registry import load_family
from modules.formats.embeddings.embedding_file import Embedding, parse_embedding, read_by_word
from modules.formats.lora.lora_file import LoraFile, read_lora
from modules.interfaces import Family
from modules.memory.precision import autocast, choose_device, compute_dtype
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from modules.sampling.grid import draw_grid
from modules.sampling.image_files import Settings, UsedLora, base_name, to_image
from modules.sampling.image_folder import first_free, require_room, require_writable, write_image
from modules.sampling.sampler import Around, sample
from onetrainer.config.run.hardware import Precision
from onetrainer.config.run.sampling import Prompt
from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import SampleRequest, model_section, require_additions, size_of
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.events import Event, Finished, Phase, Sample, Warned

SECONDS_PER_PHASE = 1.0

Tell = Callable[[Event], None]


def sample_job(request: SampleRequest, tell: Tell) -> Finished:
    """Draws every prompt with every seed; files that are there already stay as they are."""
    folder = Path(request.out)
    require_writable(folder)
    if request.guidance == 1 and request.negative:
        tell(Warned("with a guidance of 1 the negative prompt has no effect"))
    device = choose_device(request.device)
    precision = request.precision or _usual_precision(device)
    family = _load(request, device, precision, tell)
    prompts = _prompts(request, family)
    pixels = sum(prompt.width * prompt.height for prompt in prompts)
    require_room(folder, 2 * pixels if request.grid else pixels)
    number = first_free(folder)
    drawn: list[list[Image.Image]] = [[] for _ in request.prompts]
    outputs: list[str] = []
    context = partial(autocast, device, precision)
    for image, prompt in _draw(request, family, prompts, context, tell):
        row = len(outputs) // len(request.seeds)
        if request.grid:
            drawn[row].append(image)
        path = folder / f"{number:05d}-{prompt.seed}.png"
        write_image(image, path, _settings(request, prompt))
        tell(Sample(0, row, str(path), prompt.prompt, prompt.seed))
        outputs.append(str(path))
        number += 1
    if request.grid:
        path = folder / f"{number:05d}-grid.png"
        columns = [f"seed {seed}" for seed in request.seeds]
        write_image(draw_grid(drawn, rows=request.prompts, columns=columns), path, None)
        outputs.append(str(path))
    return Finished(0, outputs)


def _usual_precision(device: torch.device) -> Precision:
    if device.type != "cuda":
        return "fp32"
    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"


def _load(request: SampleRequest, device: torch.device, precision: Precision, tell: Tell) -> Family:
    """The base model with everything that is asked to be on it."""
    path = Path(request.base)
    if is_hub_name(request.base):
        path = fetch(
            request.base,
            offline=request.offline,
            tell=lambda words: tell(Phase("loading", detail=words)),
        )
    section = model_section(request, path)
    require_additions(request, section.family)
    tell(Phase("loading", detail=f"loading the model {base_name(request.base)}"))
    family = load_family(section, compute_dtype=compute_dtype(precision), device=device)
    loras = _read_loras(request, family)
    for note in _merge(request, family, loras):
        tell(Warned(note))
    words: dict[str, Embedding] = {}
    for source, found in _embeddings(request, loras):
        words |= found
        if not _is_used(found, (*request.prompts, request.negative)):
            told = " or ".join(f'"{word}"' for word in found)
            tell(Warned(f"{source}: no prompt has its word {told}"))
    return replace(family, prompts=family.prompts.with_embeddings(words)) if words else family


def _read_loras(request: SampleRequest, family: Family) -> list[LoraFile]:
    if not request.loras:
        return []
    names = layer_names(family)
    return [read_lora(Path(lora.path), names) for lora in request.loras]


def _merge(request: SampleRequest, family: Family, loras: list[LoraFile]) -> list[str]:
    """Notes for people. Messages number several LoRAs in their order, and name a single one."""
    strengths = [lora.strength for lora in request.loras]
    try:
        return merge_loras(family, list(zip(loras, strengths, strict=True)))
    except UserError as error:
        names = ", ".join(Path(lora.path).name for lora in request.loras)
        raise UserError(f"{names}: {error.what}", error.expected, error.remedy) from error


def _embeddings(
    request: SampleRequest, loras: list[LoraFile]
) -> Iterator[tuple[str, Mapping[str, Embedding]]]:
    """Each file's name with its embeddings by all their words; then those that came with LoRAs."""
    for path in map(Path, request.embeddings):
        found = {}
        for name, embedding in read_by_word(path).items():
            # Programs call it by the file's name; who trained it, perhaps by the one inside.
            for word in (name, embedding.name):
                if re.search(r"\w", word):
                    found[word] = embedding
        yield path.name, found
    for used, lora in zip(request.loras, loras, strict=True):
        if lora.embeddings:
            yield (
                Path(used.path).name,
                {
                    word: parse_embedding(tensors, name=word, metadata={}, source=word)
                    for word, tensors in lora.embeddings.items()
                },
            )


def _is_used(words: Iterable[str], texts: Iterable[str]) -> bool:
    return any(word.lower() in text.lower() for text in texts for word in words)


def _draw(
    request: SampleRequest,
    family: Family,
    prompts: Sequence[Prompt],
    context: Callable[[], AbstractContextManager[object]],
    tell: Tell,
) -> Iterator[tuple[Image.Image, Prompt]]:
    """Every picture, in batches; those of one prompt follow each other."""
    reporter = _Reporter(tell, steps=request.steps, total=len(prompts))
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
            around=Around(autocast=context),
            on_step=reporter.on_step,
        )
        yield from zip(map(to_image, pixels), batch, strict=True)


def _prompts(request: SampleRequest, family: Family) -> list[Prompt]:
    """One for each picture; those that differ in their seeds alone follow each other."""
    width, height = size_of(request, family.name, family.prediction)
    return [
        Prompt(prompt=text, negative=request.negative, seed=seed, width=width, height=height)
        for text in request.prompts
        for seed in request.seeds
    ]


@dataclass
class _Reporter:
    """Tells which picture and which step it is, once a second at most."""

    tell: Tell
    steps: int
    total: int
    done: int = 0
    last_told: float = 0.0

    def on_step(self, number: int) -> None:
        if number == 0 or monotonic() - self.last_told > SECONDS_PER_PHASE:
            self.last_told = monotonic()
            detail = f"step {number + 1} of {self.steps}"
            self.tell(Phase("sampling", self.done, self.total, detail))


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
