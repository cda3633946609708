"""Peak memory of each phase of a run, measured by running its code on the meta device."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from modules.assembly.placement import autocast_of
from modules.assembly.prompts import denoising_fraction
from modules.assembly.validation_set import grid_of
from modules.evaluation.validation import ValidationImages, measure
from modules.forecast.model import TEXT_ENCODERS, WEIGHTS, Stage
from modules.forecast.rewards import (
    COUNTED_TRAINED_STEPS,
    most_trained,
    objective_with_trained_steps,
    prompt_batch,
)
from modules.forecast.sharded import divided, share_of
from modules.forecast.step_memory import StepMemory
from modules.interfaces import Batch, LatentMoments, Microbatch
from modules.memory.residency import PHASES, Phase
from modules.meta_device.device import DEVICE, HOST
from modules.sampling.sampler import SamplingContexts, sample
from onetrainer.captions.sample_prompts import all_shots
from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.train import uses_images
from onetrainer.dataset.caption_caching import encodes_text_each_step
from onetrainer.dataset.dataset import uses_images_only

MemoryParts = Mapping[str, int]
"""Bytes by memory part."""
ALL: frozenset[str] = frozenset(PHASES)
NO_PHASES: Mapping[str, MemoryParts] = {}
_SAMPLING: tuple[Phase, ...] = ("encoding", "sampling", "decoding")
_WEIGHTS = frozenset({*WEIGHTS.values(), TEXT_ENCODERS})
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
        phases[phase] = _parts_in_phase(stage, phase, {**stage.model.meter.alive(), **left})
        return True

    if not is_known("caching"):
        _cache(stage, phases)
    with _training_steps(stage) as peak:
        phases["training"] = _parts_in_phase(stage, "training", peak)
        stage.model.attached.method.train(False)
        if stage.config.validation.use and not is_known("validation"):
            _validate(stage, phases)
        if stage.config.sampling.has_prompts and not all(is_known(phase) for phase in _SAMPLING):
            _sample(stage, phases)
        with _peak(stage, "saving", phases):
            pass
    return phases


def training_alone(stage: Stage) -> dict[str, int]:
    """Return the peak of the training phase."""
    with _training_steps(stage) as peak:
        return _parts_in_phase(stage, "training", peak)


@contextmanager
def _training_steps(stage: Stage) -> Iterator[MemoryParts]:
    """Yield the memory at the peak of any type of step; their state exists in the context."""
    config, attached, mixer = stage.config, stage.model.attached, stage.model.mixer
    images = partial(_batch, stage)

    def steps(trained: int, batch: Callable[[], Microbatch]) -> StepMemory:
        objective = objective_with_trained_steps(config, attached, mixer, trained=trained)
        return StepMemory(stage, objective, batch)

    prompts = partial(prompt_batch, config, attached)
    if mixer is None:
        batch = prompts if isinstance(config.objective, Slider) else images
        with closing(steps(0, batch)) as alone:
            yield alone.peak()
        return
    most = most_trained(config)
    few = min(most, COUNTED_TRAINED_STEPS)
    peaks, fewer = [], 0
    if denoising_fraction(config):
        with closing(steps(few, images)) as of_images:
            peaks.append(of_images.peak())
    if most > few:
        with closing(steps(few - 1, prompts)) as of_fewer:
            fewer = of_fewer.backward_activations()

    def of_most(known: int) -> int:
        return known + (most - few) * max(0, known - fewer)

    with closing(steps(few, prompts)) as of_prompts:
        peaks.append(of_prompts.peak(of_most))
        yield max(peaks, key=lambda parts: sum(parts.values()))


def _cache(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    """Encode an image and a caption, one after the other."""
    config, family = stage.config, stage.model.attached.family
    with _peak(stage, "caching", phases), torch.no_grad():
        if config.data.cache_latents and uses_images(config):
            # Caching falls back to fewer images at once if they do not fit.
            family.encode_images(_pixels(stage, 1))
        family.encode_blank_images([(stage.bucket.width, stage.bucket.height)])
        if not uses_images_only(config) and not encodes_text_each_step(config):
            family.encode_text([_CAPTION])


def _validate(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    images = ValidationImages(
        names=(_IMAGE,),
        concepts={_IMAGE: ""},
        digest="",
        sizes=frozenset(),
        load=lambda _: _batch(stage, count=1),
    )
    config, attached, mixer = stage.config, stage.model.attached, stage.model.mixer
    grid, at_once = grid_of(config), config.training.batch_size
    # All passes are alike, and the second one meets what the first one left in memory.
    levels = min(grid.levels * grid.noises, 2 * at_once)
    with _peak(stage, "validation", phases), torch.no_grad():
        measure(
            images,
            replace(grid, levels=levels, noises=1),
            objective=objective_with_trained_steps(config, attached, mixer, trained=1),
            autocast=partial(_autocast, stage),
            at_once=at_once,
            before_each=lambda _: None,
        )


def _sample(stage: Stage, phases: dict[str, dict[str, int]]) -> None:
    """Generate the largest of the samples."""
    section = stage.config.sampling
    shots = all_shots(stage.config)
    # Guidance doubles what the UNet computes at once.
    largest = max(shots, key=lambda s: s.prompt.width * s.prompt.height * (1 + (s.guidance != 1)))
    sample(
        stage.model.attached.family,
        [largest.prompt.model_copy(update={"image": "", "mask": ""})],
        steps=2,  # some samplers keep the first step's result; later steps are alike
        guidance=largest.guidance,
        sampler=largest.sampler,
        guidance_rescale=section.guidance_rescale,
        contexts=SamplingContexts(
            partial(_autocast, stage), lambda phase: _peak(stage, phase, phases)
        ),
    )


def _batch(stage: Stage, count: int | None = None) -> Batch:
    """Return a microbatch of the largest images, without meaningful values."""
    config, family = stage.config, stage.model.attached.family
    count = count or config.training.batch_size
    pixels = _pixels(stage, count)
    height, width = pixels.shape[2:]
    shape = (count, *family.spec.latent_shape(width, height))
    if config.data.cache_latents:
        moments = LatentMoments(torch.zeros(shape), torch.ones(shape))
    else:
        with torch.no_grad():
            images = [family.encode_images(image[None]) for image in pixels]
        means, stds = [each.mean for each in images], [each.std for each in images]
        moments = LatentMoments(torch.cat(means), torch.cat(stds))
    is_plain, conditioning = uses_images_only(config), None
    if not is_plain and not encodes_text_each_step(config):
        with torch.no_grad(), _autocast(stage):
            encoded = family.encode_text([_CAPTION] * count)
        conditioning = encoded.to(HOST, encoded.hidden.dtype)  # like cached ones
    captions = (_CAPTION,) * count
    roles = {concept.role for concept in concepts_of(config)}
    is_masked = family.spec.sees_masked_image and config.data.conditioning != "blank"
    return Batch(
        moments=moments,
        captions=captions,
        step_captions=captions,
        conditioning=conditioning,
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


def _autocast(stage: Stage) -> AbstractContextManager[object]:
    return autocast_of(stage.config, DEVICE)


@contextmanager
def _peak(stage: Stage, phase: Phase, phases: dict[str, dict[str, int]]) -> Iterator[None]:
    """Record a phase's peak."""
    meter = stage.model.meter
    meter.restart()
    yield
    phases[phase] = _parts_in_phase(stage, phase, meter.peak)


def _parts_in_phase(stage: Stage, phase: Phase, peak: MemoryParts) -> dict[str, int]:
    """Return a peak with exactly the weights that are on the device in a phase."""
    parts = stage.residents(phase)
    share = share_of(stage.config)
    parts |= divided({p: size for p, size in peak.items() if p not in _WEIGHTS}, share=share)
    return {part: size for part, size in parts.items() if size > 0}
