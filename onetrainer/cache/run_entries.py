"""Estimate what a run caches, and how much space that takes."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from onetrainer.config.data.data import Conditioning
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, all_buckets
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.caption_caching import caches_captions, captions_of_run
from onetrainer.dataset.dataset import Dataset
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import bucket_at, transform_count, variations
from onetrainer.families.registry import family_spec
from onetrainer.images.image_index import ImageIndex

_MASK = 4
"""Bytes of a number of a mask or a latent."""
_CHUNK = 77
"""Tokens of an encoded chunk, start and end included."""
_WORDS = 50
"""About this many words of a caption fill a chunk; most words are one token or two."""


@dataclass(frozen=True)
class CachePlan:
    """What a run caches at most; some of it may exist already.

    folder: the cache folder. latents: number of encoded images, counting transforms. captions:
    number of encoded captions. pixels: pixels of all encoded images. image_bytes: bytes of latents
    and masks. caption_bytes: bytes of captions. free_bytes: free space on the folder's disk.
    """

    folder: Path
    latents: int
    captions: int
    pixels: int
    image_bytes: int
    caption_bytes: int
    free_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes of images and captions."""
        return self.image_bytes + self.caption_bytes


def plan_cache(config: TrainConfig, dataset: Dataset, batches: BatchPlan) -> CachePlan:
    """Return what a run will cache."""
    latents, cells, size = _latent_estimate(config, dataset)
    captions: list[str] = []
    if caches_captions(config):
        steps, validation = range(config.training.total_steps), dataset.validation or ()
        captions = captions_of_run(dataset.concepts, dataset.items, validation, batches, steps)
    folder = cache_folder(config)
    return CachePlan(
        folder=folder,
        latents=latents,
        captions=len(captions),
        pixels=cells * family_spec(config.model.family).latent_side ** 2,
        image_bytes=size,
        caption_bytes=_caption_bytes(config, captions),
        free_bytes=_free_bytes(folder),
    )


def cache_folder(config: TrainConfig) -> Path:
    """Return the cache folder of a run."""
    data, output = config.data, config.output
    folder = Path(data.cache_folder) if data.cache_folder else Path(output.folder) / "cache"
    return folder.expanduser()


@contextmanager
def open_image_index(config: TrainConfig) -> Iterator[ImageIndex | None]:
    """Open the image index in a run's cache folder; None if there is none yet.

    The folder is not created.
    """
    folder = cache_folder(config)
    if not folder.is_dir():
        yield None
        return
    with closing(ImageIndex(folder)) as image_index:
        yield image_index


def _latent_estimate(config: TrainConfig, dataset: Dataset) -> tuple[int, int, int]:
    """Return the number of cached latents, their latent pixels, and their bytes."""
    if not config.data.cache_latents:
        return 0, 0, 0
    spec = family_spec(config.model.family)
    sees = config.data.conditioning if spec.sees_masked_image else "blank"
    counts = [(transform_count(one), variations(one, is_cached=True)) for one in dataset.concepts]
    every: list[tuple[Item, int, tuple[Bucket, ...]]] = []
    sizes = all_buckets(dataset.items, dataset.concepts)
    for item, buckets in zip(dataset.items, sizes, strict=True):
        count, times = counts[item.concept]
        every.append((item, times, buckets[: count // times]))
    for item in dataset.validation or ():
        every.append((item, 1, (bucket_at(item, dataset.concept_of(item), 0),)))
    side = spec.latent_side
    latents = cells = size = 0
    for item, times, own in every:
        area = times * sum((one.width // side) * (one.height // side) for one in own)
        passes, each = _passes_and_bytes(item, sees, spec.latent_channels)
        latents, cells, size = latents + times * len(own), cells + area * passes, size + area * each
    return latents, cells, size


def _passes_and_bytes(item: Item, sees: Conditioning, channels: int) -> tuple[int, int]:
    """Return how often the VAE encodes an image, and the cached bytes per latent pixel.

    sees: conditioning of a model that sees a masked image; "blank" for other models.
    """
    mask = _MASK if item.mask else 0
    latent = 4 * channels
    has_more = item.conditioning if sees == "files" else item.mask
    if sees == "blank" or not has_more:
        return 1, 2 * latent + mask
    # The conditioning image and the mask of what is repainted, besides the loss mask.
    return 2, 3 * latent + 2 * mask


def _caption_bytes(config: TrainConfig, captions: Iterable[str]) -> int:
    spec = family_spec(config.model.family)
    each = 4 if config.hardware.precision == "fp32" else 2
    chunks = [-(-len(caption.split()) // _WORDS) or 1 for caption in captions]
    tokens = _CHUNK * sum(chunks)
    return each * (tokens * spec.text_width + len(chunks) * spec.pooled_width)


def _free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, even if it does not exist; 0 if unknown."""
    existing = next(
        (one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/")
    )
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return 0
