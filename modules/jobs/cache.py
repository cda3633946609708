"""The caching job: encode a config's images and captions without training."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from torch import nn

from modules.assembly.dataset import Caching, Images, digests_for, prepare_images
from modules.assembly.lengths import plan_of
from modules.assembly.placement import HOST, quantize
from modules.jobs.base_model import load_base, local_model, use_hardware
from modules.memory.precision import choose_device
from onetrainer.config.train import uses_images
from onetrainer.errors import UserError
from onetrainer.jobs.plan_request import CacheRequest
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Finished, Report
from onetrainer.schedules.amounts import estimated, known_steps, lengths


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
    place = Path(config.data.cache_folder or request.folder)
    if lengths(config):
        with _events(report) as events:
            config = estimated(
                config, known_steps(config, plan_of(config, place, events, lambda: False))
            )
    use_hardware(config.hardware)
    device = choose_device(config.hardware.device)
    path = local_model(config.model.path, report, offline=config.model.offline)
    family, _ = load_base(config, path, report, device=device, components_device=HOST)
    quantize(config, family, device=device)
    for encoder in (family.vae, *family.text_encoders.values()):
        nn.Module.to(encoder, device)  # the UNet is not needed
    with _events(report) as events:
        images = prepare_images(
            config,
            family,
            Caching(place, events, lambda: False),
            digests=digests_for(config, family),
            past_warnings=(),
        )
        images.batches.close()
    return Finished(0, [], _summary(images, request))


@contextmanager
def _events(report: Report) -> Iterator[EventWriter]:
    """Yield an event log, as the caching code writes it, whose events go to the job's caller."""
    with tempfile.TemporaryDirectory() as folder:
        events = EventWriter(Path(folder) / "events.jsonl", also=report)
        with closing(events):
            yield events


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
