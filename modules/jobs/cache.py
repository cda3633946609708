"""The job of caching: a config's pictures and captions are encoded, and nothing is trained."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from modules.assembly.dataset import Images, digests_for, prepare_images
from modules.assembly.placement import HOST, quantize, storage_dtypes
from modules.families.hub import fetch
from modules.families.registry import load_family
from modules.families.stable_diffusion import StableDiffusion
from modules.memory.precision import apply_tf32, choose_device, compute_dtype
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import UserError
from onetrainer.jobs.cache_request import CacheRequest
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Finished, Phase

Tell = Callable[[Event], None]


def cache(request: CacheRequest, tell: Tell) -> Finished:
    """Encodes what a run of the config would encode, so that the run finds all of it.

    An interrupt ends it with all kept that was encoded.
    """
    config = request.config
    if not uses_images(config):
        raise UserError(
            "this config learns from prompts alone",
            "Pictures or captions that can be encoded beforehand",
            "Choose a config with pictures",
        )
    apply_tf32(config.hardware.tf32)
    if config.hardware.threads:
        torch.set_num_threads(config.hardware.threads)
    family = _loaded(config, tell)
    with tempfile.TemporaryDirectory() as folder:
        # The job's events go to whoever started it; those of a run go to a file besides.
        events = EventWriter(Path(folder) / "events.jsonl", also=tell)
        images = prepare_images(
            config,
            family,
            digests=digests_for(config, family),
            cache=Path(request.folder),
            events=events,
            should_stop=lambda: False,
            told=(),
        )
        images.batches.close()
        events.close()
    return Finished(0, [], _summary(images, request))


def _loaded(config: TrainConfig, tell: Tell) -> StableDiffusion:
    """The model with all that encodes on the device, in the formats that a run has it in."""
    section, device = config.model, choose_device(config.hardware.device)
    if is_hub_name(section.path):
        path = fetch(
            section.path,
            offline=section.offline,
            tell=lambda words: tell(Phase("loading", detail=words)),
        )
        section = section.model_copy(update={"path": str(path)})
    tell(Phase("loading", detail="base model"))
    family = load_family(
        section,
        compute_dtype=compute_dtype(config.hardware.precision),
        device=device,
        parts_device=HOST,
        dtypes=storage_dtypes(config),
    )
    quantize(config, family, device=device)
    for part in (family.vae, *family.text_encoders.values()):
        nn.Module.to(part, device)  # the UNet stays where it is: nobody asks it
    return family


def _summary(images: Images, request: CacheRequest) -> list[str]:
    count = len(images.batches.shelf.images.items)
    count += len(images.validation.names) if images.validation else 0
    new = {0: "none of them", count: "all of them"}.get(images.new, str(images.new))
    are = "pictures are" if count > 1 else "picture is"
    lines = [f"{count} {are} in the cache {request.folder}, {new} new."]
    if not request.config.data.cache_latents:
        lines = ['Pictures are not cached by this config: "Cache pictures" is off.']
    if images.left_out:
        lines += [f"{len(images.left_out)} left out:", *images.left_out]
    return lines
