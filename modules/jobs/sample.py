"""The job of drawing pictures: from a base model, LoRAs and embeddings to files."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

import torch
from PIL import Image

from modules.build import load_family
from modules.families.hub import fetch
from modules.families.stable_diffusion import StableDiffusion
from modules.formats.embedding_file import Embedding, parse_embedding, read_embedding
from modules.formats.lora_file import LoraFile, read_lora
from modules.interfaces import Family
from modules.memory.precision import autocast, choose_device, compute_dtype
from modules.methods.lora_targets import layer_names
from modules.methods.merge import merge_loras
from modules.sampling.grid import draw_grid
from modules.sampling.pictures import Settings, UsedLora, to_picture, write_png
from modules.sampling.sampler import sample
from onetrainer.config.hardware import Precision
from onetrainer.config.sampling import Prompt
from onetrainer.errors import UserError
from onetrainer.events import Event, Finished, Phase, Sample, Warned
from onetrainer.hub import is_hub_name
from onetrainer.sample_request import SampleRequest, model_section, size_of

SECONDS_PER_PHASE = 1.0
NUMBERED = re.compile(r"(\d+)-.*\.png")

Tell = Callable[[Event], None]


def sample_job(request: SampleRequest, tell: Tell) -> Finished:
    """Draws every prompt with every seed; files that are there already stay as they are."""
    device = choose_device(request.device)
    precision = request.precision or _usual_precision(device)
    family = _load(request, device, precision, tell)
    folder = Path(request.out)
    number = _first_free(folder)
    drawn: list[list[Image.Image]] = [[] for _ in request.prompts]
    outputs: list[str] = []
    for picture, prompt in _draw(request, family, partial(autocast, device, precision), tell):
        row = len(outputs) // len(request.seeds)
        drawn[row].append(picture)
        path = folder / f"{number:05d}-{prompt.seed}.png"
        _write(picture, path, _settings(request, prompt))
        tell(Sample(0, row, str(path), prompt.prompt, prompt.seed))
        outputs.append(str(path))
        number += 1
    if request.grid:
        path = folder / f"{number:05d}-grid.png"
        columns = [f"seed {seed}" for seed in request.seeds]
        _write(draw_grid(drawn, rows=request.prompts, columns=columns), path, None)
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
    tell(Phase("loading", detail=_model_name(request)))
    family = load_family(section, compute_dtype=compute_dtype(precision), device=device)
    assert isinstance(family, StableDiffusion)
    loras = _read_loras(request, family)
    for note in _merge(request, family, loras):
        tell(Warned(note))
    words = _embeddings(request, loras)
    for word in words:
        if not any(word.lower() in text.lower() for text in (*request.prompts, request.negative)):
            tell(Warned(f'no prompt has the word "{word}" of this embedding'))
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


def _embeddings(request: SampleRequest, loras: list[LoraFile]) -> Mapping[str, Embedding]:
    """By their words: of files, and of those that came with LoRAs."""
    found: dict[str, Embedding] = {}
    for path in map(Path, request.embeddings):
        embedding = read_embedding(path)
        # Programs call it by the file's name; who trained it, perhaps by the one inside.
        for word in {path.stem: None, embedding.name: None}:
            if re.search(r"\w", word):
                found[word] = embedding
    for lora in loras:
        for word, tensors in lora.embeddings.items():
            found[word] = parse_embedding(tensors, name=word, metadata={}, source=word)
    return found


def _draw(
    request: SampleRequest,
    family: Family,
    context: Callable[[], AbstractContextManager[object]],
    tell: Tell,
) -> Iterator[tuple[Image.Image, Prompt]]:
    """Every picture, in batches; those of one prompt follow each other."""
    prompts = _prompts(request, family)
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
            autocast=context,
            on_step=reporter.on_step,
        )
        yield from zip(map(to_picture, pixels), batch, strict=True)


def _prompts(request: SampleRequest, family: Family) -> list[Prompt]:
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
        model=_model_name(request),
        loras=tuple(UsedLora(Path(lora.path).stem, lora.strength) for lora in request.loras),
        clip_skip=request.clip_skip,
    )


def _model_name(request: SampleRequest) -> str:
    """What people call it: never the path, which tells of a person's disk."""
    path = Path(request.base)
    return path.stem if path.is_file() else path.name


def _first_free(folder: Path) -> int:
    """The number after the highest one of the pictures in a folder."""
    if not folder.is_dir():
        return 1
    numbers = [NUMBERED.fullmatch(path.name) for path in folder.iterdir()]
    return max((int(found[1]) for found in numbers if found), default=0) + 1


def _write(picture: Image.Image, path: Path, settings: Settings | None) -> None:
    try:
        write_png(picture, path, settings)
    except OSError as error:
        raise UserError(
            f"{path}: cannot write here ({(error.strerror or str(error)).lower()})",
            "Expected a folder on a disk with free space that you may write to",
            "Free some space or choose another folder with --out",
        ) from error
