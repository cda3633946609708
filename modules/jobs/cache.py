"""The caching job: encode a config's images and captions without training."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from modules.assembly.dataset import Images, digests_for, prepare_images
from modules.assembly.placement import HOST, quantize, storage_dtypes
from modules.families.hub import fetch
from modules.families.registry import load_family
from modules.interfaces import Family
from modules.memory.precision import apply_tf32, choose_device, compute_dtype
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import UserError
from onetrainer.jobs.cache_request import CacheRequest
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Finished, Phase

Report = Callable[[Event], None]


def cache(request: CacheRequest, report: Report) -> Finished:
    """Encode what a run of the config would encode, so that the run finds it in the cache.

    An interrupted job keeps what it has encoded.

    Raises:
        UserError: If the config uses no images.
    """
    config = request.config
    if not uses_images(config):
        raise UserError(
            "this config trains on prompts alone",
            "Expected images or captions to encode",
            "Choose a config with images.",
        )
    apply_tf32(config.hardware.tf32)
    if config.hardware.threads:
        torch.set_num_threads(config.hardware.threads)
    family = _load_encoders(config, report)
    with tempfile.TemporaryDirectory() as folder:
        # The caching code writes a run's event log; its events go on to the job's caller.
        events = EventWriter(Path(folder) / "events.jsonl", also=report)
        images = prepare_images(
            config,
            family,
            digests=digests_for(config, family),
            cache=Path(request.folder),
            events=events,
            should_stop=lambda: False,
            past_warnings=(),
        )
        images.batches.close()
        events.close()
    return Finished(0, [], _summary(images, request))


def _load_encoders(config: TrainConfig, report: Report) -> Family:
    """Load the model with its encoders on the device, in the dtypes of a run."""
    section, device = config.model, choose_device(config.hardware.device)
    if is_hub_name(section.path):
        path = fetch(
            section.path,
            offline=section.offline,
            report=lambda detail: report(Phase("loading", detail=detail)),
        )
        section = section.model_copy(update={"path": str(path)})
    report(Phase("loading", detail="base model"))
    family = load_family(
        section,
        compute_dtype=compute_dtype(config.hardware.precision),
        device=device,
        components_device=HOST,
        dtypes=storage_dtypes(config),
    )
    quantize(config, family, device=device)
    for encoder in (family.vae, *family.text_encoders.values()):
        nn.Module.to(encoder, device)  # the UNet is not needed
    return family


def _summary(images: Images, request: CacheRequest) -> list[str]:
    count = len(images.batches.batch_source.images.items)
    count += len(images.validation.names) if images.validation else 0
    new = {0: "none of them", count: "all of them"}.get(images.new, str(images.new))
    verb = "images are" if count > 1 else "image is"
    lines = [f"{count} {verb} in the cache {request.folder}, {new} new."]
    if not request.config.data.cache_latents:
        lines = ['This config does not cache images: "Cache latents" is off.']
    if images.skipped:
        lines += [f"{len(images.skipped)} left out:", *images.skipped]
    return lines
