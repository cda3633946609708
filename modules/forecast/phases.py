"""What each phase of a run takes at its peak: the run's own code, on an imagined device."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from modules.assembly.method import objective_of
from modules.assembly.prompts import ordinary_share
from modules.assembly.validation_set import grid_of
from modules.evaluation.validation import ValidationImages, measure
from modules.families.stable_diffusion import LATENT_SIDE, StableDiffusion
from modules.forecast.meta_run import Stage
from modules.forecast.rewards import ENOUGH_TRAINED, most_trained, objective_with, prompt_batch
from modules.forecast.step_memory import Steps
from modules.interfaces import Batch, Conditioning, LatentMoments, Objective, PromptBatch
from modules.memory.precision import autocast
from modules.memory.residency import PHASES, Phase
from modules.meta_device.device import HOST
from modules.rewards.mixer import Mixer
from modules.sampling.sampler import Around, sample
from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.train import uses_images
from onetrainer.dataset.caption_caching import encodes_text_anew
from onetrainer.dataset.dataset import is_images_alone

Parts = Mapping[str, int]
"""Bytes by what they belong to."""

WEIGHTS = frozenset({"unet", "text_encoders", "vae", "adapters", "rewards"})
ALL: frozenset[str] = frozenset(PHASES)
NONE_KNOWN: Mapping[str, Parts] = MappingProxyType({})
_SAMPLING: tuple[Phase, ...] = ("encoding", "drawing", "decoding")
_CAPTION = "a"
_IMAGE = "a picture"


def measured(
    stage: Stage, *, known: Mapping[str, Parts] = NONE_KNOWN, touched: frozenset[str] = ALL
) -> dict[str, dict[str, int]]:
    """The peak of every phase that the run has, in their order, by part.

    known: those of a run that differs in nothing but where its parts are, and in phases that are
    touched; the others need not be computed.
    """
    phases: dict[str, dict[str, int]] = {}

    def is_known(phase: Phase) -> bool:
        if phase not in known or phase in touched:
            return False
        left = {part: known[phase].get(part, 0) for part in ("activations", "gradients")}
        phases[phase] = _in_phase(stage, phase, {**stage.imagined.meter.alive(), **left})
        return True

    if not is_known("caching"):
        _cache(stage, phases)
    with _trained(stage) as peak:
        phases["training"] = _in_phase(stage, "training", peak)
        stage.attached.method.train(False)
        _measure_rest(stage, phases, is_known)
    return phases


def training_alone(stage: Stage) -> dict[str, int]:
    """The peak of the training phase."""
    with _trained(stage) as peak:
        return _in_phase(stage, "training", peak)


@contextmanager
def _trained(stage: Stage) -> Iterator[Parts]:
    """The peak of the run's steps, of each kind; what they leave behind is there meanwhile."""
    config, attached = stage.config, stage.attached
    images = partial(_batch, stage)
    if stage.mixer is None:
        plain = objective_of(config, attached, device=stage.imagined.device)
        with closing(Steps(stage, plain, images)) as alone:
            yield alone.peak()
        return
    prompts = partial(prompt_batch, config, attached)
    most = most_trained(config)
    few = min(most, ENOUGH_TRAINED)
    objective = objective_with(config, attached, stage.mixer, trained=few)
    peaks = [_peak_of_steps(stage, objective, images)] if ordinary_share(config) else []
    fewer = _activations_of(stage, stage.mixer, few - 1) if most > few else 0

    def of_most(known: int) -> int:
        return known + (most - few) * max(0, known - fewer)

    prompts = partial(prompt_batch, config, attached)
    with closing(Steps[Batch | PromptBatch](stage, objective, prompts)) as steps:
        peaks.append(steps.peak(of_most))
        yield max(peaks, key=lambda parts: sum(parts.values()))


def _peak_of_steps(
    stage: Stage, objective: Objective[Batch | PromptBatch], batch: Callable[[], Batch]
) -> dict[str, int]:
    """The peak of other steps, of which nothing stays."""
    with closing(Steps[Batch | PromptBatch](stage, objective, batch)) as steps:
        return steps.peak()


def _activations_of(stage: Stage, mixer: Mixer, trained: int) -> int:
    """What so many trained steps of a drawing keep."""
    objective = objective_with(stage.config, stage.attached, mixer, trained=trained)
    prompts = partial(prompt_batch, stage.config, stage.attached)
    with closing(Steps[Batch | PromptBatch](stage, objective, prompts)) as steps:
        return steps.backward_activations()


def _cache(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    """Pictures and a caption, one after the other."""
    config, family = stage.config, stage.attached.family
    with _peak(stage, "caching", phases), torch.no_grad():
        if config.data.cache_latents and uses_images(config):
            # Where more at once do not fit, caching goes on with fewer.
            family.encode_images(_pixels(stage, 1))
        if isinstance(family, StableDiffusion):
            family.prepare_blanks([(stage.bucket.width, stage.bucket.height)])
        if not is_images_alone(config) and not encodes_text_anew(config):
            family.encode_text([_CAPTION])


def _measure_rest(
    stage: Stage, phases: dict[str, dict[str, int]], is_known: Callable[[Phase], bool]
) -> None:
    """What comes between the steps and after them."""
    config = stage.config
    if config.validation.use and not is_known("validation"):
        _validate(stage, phases)
    known_samples = [is_known(phase) for phase in _SAMPLING] if config.sampling.prompts else []
    if not all(known_samples):
        _sample(stage, phases)
    with _peak(stage, "saving", phases):
        pass


def _validate(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    images = ValidationImages(
        names=(_IMAGE,),
        concepts={_IMAGE: ""},
        digest="",
        sizes=frozenset(),
        load=lambda _: _batch(stage, count=1),
    )
    grid, at_once = grid_of(stage.config), stage.config.training.batch_size
    # All passes are alike, and the second one meets what the first has left.
    levels = min(grid.levels * grid.noises, 2 * at_once)
    with _peak(stage, "validation", phases), torch.no_grad():
        measure(
            images,
            replace(grid, levels=levels, noises=1),
            objective=_measuring(stage),
            autocast=partial(_autocast, stage),
            at_once=at_once,
            before_each=lambda _: None,
        )


def _measuring(stage: Stage) -> Objective[Batch]:
    """What measures held-out pictures."""
    if stage.mixer is None:
        return objective_of(stage.config, stage.attached, device=stage.imagined.device)
    return objective_with(stage.config, stage.attached, stage.mixer, trained=1)


def _sample(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    """Draws the largest of the samples."""
    section = stage.config.sampling
    prompt = max(section.prompts, key=lambda one: one.width * one.height)
    sample(
        stage.attached.family,
        [prompt],
        steps=2,  # of which some samplers keep the first; all others are alike
        guidance=section.guidance,
        sampler=section.sampler,
        guidance_rescale=section.guidance_rescale,
        around=Around(partial(_autocast, stage), lambda phase: _peak(stage, phase, phases)),
    )


def _batch(stage: Stage, count: int | None = None) -> Batch:
    """A microbatch of the largest pictures; none of its numbers means anything."""
    config, family = stage.config, stage.attached.family
    count = count or config.training.batch_size
    pixels = _pixels(stage, count)
    shape = (count, 4, pixels.shape[2] // LATENT_SIDE, pixels.shape[3] // LATENT_SIDE)
    if config.data.cache_latents:
        moments = LatentMoments(torch.zeros(shape), torch.ones(shape))
    else:
        with torch.no_grad():
            each = [family.encode_images(pixel[None]) for pixel in pixels]
        moments = LatentMoments(
            torch.cat([one.mean for one in each]), torch.cat([one.std for one in each])
        )
    is_plain = is_images_alone(config)
    captions = (_CAPTION,) * count
    roles = {concept.role for concept in concepts_of(config)}
    is_shown = config.model.family.endswith("inpainting") and config.data.conditioning != "blank"
    return Batch(
        moments=moments,
        captions=captions,
        step_captions=captions,
        conditioning=None if is_plain or encodes_text_anew(config) else _conditioning(stage, count),
        frames=torch.zeros(count, 6),
        positions=tuple(range(count)),
        weight=1.0 / count,
        pixels=pixels if is_plain else None,
        mask=torch.ones(count, 1, *shape[2:]) if has_masks(config) and not is_plain else None,
        is_prior=(True,) * count if "prior" in roles else (),
        own_prediction=(True,) * count if "own_prediction" in roles else (),
        masked=torch.ones(count, 5, *shape[2:]) if is_shown and not is_plain else None,
    )


def _pixels(stage: Stage, count: int) -> Tensor:
    return torch.zeros(count, 3, stage.bucket.height, stage.bucket.width)


def _conditioning(stage: Stage, count: int) -> Conditioning:
    """As cached encodings are: in main memory."""
    family = stage.attached.family
    with torch.no_grad(), _autocast(stage):
        encoded = family.encode_text([_CAPTION] * count)
    return encoded.to(HOST, encoded.hidden.dtype)


def _autocast(stage: Stage) -> AbstractContextManager[object]:
    return autocast(stage.imagined.device, stage.config.hardware.precision)


@contextmanager
def _peak(stage: Stage, phase: Phase, phases: dict[str, dict[str, int]]) -> Iterator[None]:
    """Notes a phase's peak."""
    meter = stage.imagined.meter
    meter.restart()
    yield
    phases[phase] = _in_phase(stage, phase, meter.peak.parts)


def _in_phase(stage: Stage, phase: Phase, peak: Parts) -> dict[str, int]:
    """A peak with the weights that are there in a phase, and with no others."""
    parts = stage.residents(phase)
    parts |= {part: size for part, size in peak.items() if part not in WEIGHTS}
    return {part: size for part, size in parts.items() if size > 0}
