"""Peak memory of each phase of a run, measured by running its code on the meta device."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from modules.assembly.method import objective_of
from modules.assembly.prompts import denoising_fraction
from modules.assembly.validation_set import grid_of
from modules.evaluation.validation import ValidationImages, measure
from modules.forecast.meta_run import Stage
from modules.forecast.rewards import (
    COUNTED_TRAINED_STEPS,
    most_trained,
    objective_with_trained_steps,
    prompt_batch,
)
from modules.forecast.step_memory import StepMemory
from modules.interfaces import Batch, Conditioning, LatentMoments, Objective, PromptBatch
from modules.memory.precision import autocast
from modules.memory.residency import PHASES, Phase
from modules.meta_device.device import HOST
from modules.rewards.mixer import Mixer
from modules.sampling.sampler import SamplingContexts, sample
from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.train import uses_images
from onetrainer.dataset.caption_caching import encodes_text_each_step
from onetrainer.dataset.dataset import uses_images_only

MemoryParts = Mapping[str, int]
"""Bytes by memory part."""

WEIGHTS = frozenset({"unet", "text_encoders", "vae", "adapters", "rewards"})
ALL: frozenset[str] = frozenset(PHASES)
NO_PHASES: Mapping[str, MemoryParts] = MappingProxyType({})
_SAMPLING: tuple[Phase, ...] = ("encoding", "drawing", "decoding")
_CAPTION = "a"
_IMAGE = "a picture"


def measure_phases(
    stage: Stage,
    *,
    known: Mapping[str, MemoryParts] = NO_PHASES,
    affected_phases: frozenset[str] = ALL,
) -> dict[str, dict[str, int]]:
    """Return the peak of every phase of the run in order, by part.

    stage: The run. known: Peaks of a run that differs only in placement and in the affected phases;
    phases that are not affected are not computed again.
    """
    phases: dict[str, dict[str, int]] = {}

    def is_known(phase: Phase) -> bool:
        if phase not in known or phase in affected_phases:
            return False
        left = {part: known[phase].get(part, 0) for part in ("activations", "gradients")}
        phases[phase] = _parts_in_phase(stage, phase, {**stage.meta_device.meter.alive(), **left})
        return True

    if not is_known("caching"):
        _cache(stage, phases)
    with _training_steps(stage) as peak:
        phases["training"] = _parts_in_phase(stage, "training", peak)
        stage.attached.method.train(False)
        _measure_rest(stage, phases, is_known)
    return phases


def training_alone(stage: Stage) -> dict[str, int]:
    """Return the peak of the training phase."""
    with _training_steps(stage) as peak:
        return _parts_in_phase(stage, "training", peak)


@contextmanager
def _training_steps(stage: Stage) -> Iterator[MemoryParts]:
    """Yield the memory at the peak of any type of step; their state exists in the context."""
    config, attached = stage.config, stage.attached
    images = partial(_batch, stage)
    if stage.mixer is None:
        plain = objective_of(config, attached, device=stage.meta_device.device)
        with closing(StepMemory(stage, plain, images)) as alone:
            yield alone.peak()
        return
    most = most_trained(config)
    few = min(most, COUNTED_TRAINED_STEPS)
    objective = objective_with_trained_steps(config, attached, stage.mixer, trained=few)
    peaks = [_peak_of_steps(stage, objective, images)] if denoising_fraction(config) else []
    fewer = _activations_of(stage, stage.mixer, few - 1) if most > few else 0

    def of_most(known: int) -> int:
        return known + (most - few) * max(0, known - fewer)

    prompts = partial(prompt_batch, config, attached)
    with closing(StepMemory[Batch | PromptBatch](stage, objective, prompts)) as steps:
        peaks.append(steps.peak(of_most))
        yield max(peaks, key=lambda parts: sum(parts.values()))


def _peak_of_steps(
    stage: Stage, objective: Objective[Batch | PromptBatch], batch: Callable[[], Batch]
) -> dict[str, int]:
    """Return the peak of steps from which nothing is kept."""
    with closing(StepMemory[Batch | PromptBatch](stage, objective, batch)) as steps:
        return steps.peak()


def _activations_of(stage: Stage, mixer: Mixer, trained: int) -> int:
    """Return the bytes of activations of a number of trained sampling steps."""
    objective = objective_with_trained_steps(stage.config, stage.attached, mixer, trained=trained)
    prompts = partial(prompt_batch, stage.config, stage.attached)
    with closing(StepMemory[Batch | PromptBatch](stage, objective, prompts)) as steps:
        return steps.backward_activations()


def _cache(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    """Encode an image and a caption, one after the other."""
    config, family = stage.config, stage.attached.family
    with _peak(stage, "caching", phases), torch.no_grad():
        if config.data.cache_latents and uses_images(config):
            # Caching falls back to fewer images at once if they do not fit.
            family.encode_images(_pixels(stage, 1))
        family.encode_blank_images([(stage.bucket.width, stage.bucket.height)])
        if not uses_images_only(config) and not encodes_text_each_step(config):
            family.encode_text([_CAPTION])


def _measure_rest(
    stage: Stage, phases: dict[str, dict[str, int]], is_known: Callable[[Phase], bool]
) -> None:
    """Measure the phases between steps and after them."""
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
    # All passes are alike, and the second one meets what the first one left in memory.
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
    """Return the objective that measures the validation loss."""
    if stage.mixer is None:
        return objective_of(stage.config, stage.attached, device=stage.meta_device.device)
    return objective_with_trained_steps(stage.config, stage.attached, stage.mixer, trained=1)


def _sample(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    """Generate the largest of the samples."""
    section = stage.config.sampling
    prompt = max(section.prompts, key=lambda prompt: prompt.width * prompt.height)
    sample(
        stage.attached.family,
        [prompt],
        steps=2,  # some samplers keep the first step's result; later steps are alike
        guidance=section.guidance,
        sampler=section.sampler,
        guidance_rescale=section.guidance_rescale,
        contexts=SamplingContexts(
            partial(_autocast, stage), lambda phase: _peak(stage, phase, phases)
        ),
    )


def _batch(stage: Stage, count: int | None = None) -> Batch:
    """Return a microbatch of the largest images, without meaningful values."""
    config, family = stage.config, stage.attached.family
    count = count or config.training.batch_size
    pixels = _pixels(stage, count)
    height, width = pixels.shape[2:]
    shape = (count, *family.spec.latent_shape(width, height))
    if config.data.cache_latents:
        moments = LatentMoments(torch.zeros(shape), torch.ones(shape))
    else:
        with torch.no_grad():
            encoded = [family.encode_images(image[None]) for image in pixels]
        means, stds = [each.mean for each in encoded], [each.std for each in encoded]
        moments = LatentMoments(torch.cat(means), torch.cat(stds))
    is_plain = uses_images_only(config)
    captions = (_CAPTION,) * count
    roles = {concept.role for concept in concepts_of(config)}
    is_masked = family.spec.sees_masked_image and config.data.conditioning != "blank"
    return Batch(
        moments=moments,
        captions=captions,
        step_captions=captions,
        conditioning=None
        if is_plain or encodes_text_each_step(config)
        else _conditioning(stage, count),
        time_ids=torch.zeros(count, 6),
        positions=tuple(range(count)),
        weight=1.0 / count,
        pixels=pixels if is_plain else None,
        mask=torch.ones(count, 1, *shape[2:]) if has_masks(config) and not is_plain else None,
        is_prior=(True,) * count if "prior" in roles else (),
        own_prediction=(True,) * count if "own_prediction" in roles else (),
        masked=torch.ones(count, 5, *shape[2:]) if is_masked and not is_plain else None,
    )


def _pixels(stage: Stage, count: int) -> Tensor:
    return torch.zeros(count, 3, stage.bucket.height, stage.bucket.width)


def _conditioning(stage: Stage, count: int) -> Conditioning:
    """Return encodings in RAM, like cached ones."""
    family = stage.attached.family
    with torch.no_grad(), _autocast(stage):
        encoded = family.encode_text([_CAPTION] * count)
    return encoded.to(HOST, encoded.hidden.dtype)


def _autocast(stage: Stage) -> AbstractContextManager[object]:
    return autocast(stage.meta_device.device, stage.config.hardware.precision)


@contextmanager
def _peak(stage: Stage, phase: Phase, phases: dict[str, dict[str, int]]) -> Iterator[None]:
    """Record a phase's peak."""
    meter = stage.meta_device.meter
    meter.restart()
    yield
    phases[phase] = _parts_in_phase(stage, phase, meter.peak.parts)


def _parts_in_phase(stage: Stage, phase: Phase, peak: MemoryParts) -> dict[str, int]:
    """Return a peak with exactly the weights that are on the device in a phase."""
    parts = stage.residents(phase)
    parts |= {part: size for part, size in peak.items() if part not in WEIGHTS}
    return {part: size for part, size in parts.items() if size > 0}
