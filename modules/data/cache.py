"""Encoding of all images, masks and captions into the cache, before training."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial

import torch
from torch import Tensor, nn

from modules.data.cache_entries import FORMAT, entry_types
from modules.data.encode_missing import EncodingJob, MissingEntries
from modules.data.encoded_items import EncodedImages, EncodedTexts, TransformTable
from modules.data.shards import DamagedEntry, Store, entry_key
from modules.data.vae_batches import VaeBatches
from modules.interfaces import Family, LatentMoments
from modules.memory.not_finite import first_broken
from modules.world.world import World, alone
from onetrainer.config.data.data import Conditioning
from onetrainer.dataset.batch_plan import all_buckets
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import EXAMPLES, Skipped
from onetrainer.dataset.prefetch import WorkQueue
from onetrainer.errors import UserError
from onetrainer.images.image_index import ImageIndex

_TRIES = 3
"""Attempts at encoding captions whose entries disappear as soon as they are written."""


class CachingStopped(Exception):
    """Caching was stopped on request; finished entries are kept."""


@dataclass(frozen=True)
class EncoderDigests:
    """Digests of a family's encoders.

    They must differ whenever the encodings do: by weights, and by any other setting, such as the
    number of skipped layers.
    """

    vae: str
    text: str


@dataclass(frozen=True)
class EncodeOptions:
    """Options of image encoding.

    caches_latents: without, images are only checked, and encoded whenever they are used. batch:
    number of images that the VAE encodes at once. threads: that decode images meanwhile; 0 decodes
    in between. conditioning: what a model that is given a masked image gets. world: the processes
    that share the images out.
    """

    caches_latents: bool = True
    batch: int = 1
    threads: int = 2
    conditioning: Conditioning = "blank"
    world: World = field(default_factory=alone)


def encoder_digests(family: Family, *, with_text: bool = True) -> EncoderDigests:
    """Compute the digests of a family's encoders: their weights and other settings."""
    images, captions = family.encoder_settings()
    text = [f"{name}:{weights_digest(part)}" for name, part in sorted(family.text_encoders.items())]
    return EncoderDigests(
        vae=f"{weights_digest(family.vae)};{images}",
        text=";".join([*text, captions]) if with_text else "",
    )


def weights_digest(module: nn.Module) -> str:
    """Compute the SHA-256 of the names, dtypes, shapes and bytes of a module's state, as hex.

    Measured: 0.16 s for the 335 MB of SD 1.5's VAE, on a CPU with SHA instructions.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}\n".encode())
        data = tensor.detach().to("cpu").reshape(-1)  # contiguous
        digest.update(data.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def encode_images(
    family: Family,
    transforms: TransformTable,
    *,
    store: Store,
    file_digests: ImageIndex,
    digests: EncoderDigests,
    options: EncodeOptions,
    progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> EncodedImages:
    """Encode what the cache folder does not contain; afterwards the VAE is not needed.

    Threads decode meanwhile, and another writes each entry atomically; their number affects only
    time. Images that cannot be decoded, or whose masks or conditioning images cannot, are skipped.

    transforms: of the images; those of validation images are plain. file_digests: remembers
    digests of files. progress: called with (done, total) after each image. Raises CachingStopped if
    asked to, and UserError if no image of a role is usable, the VAE holds NaN, or the disk is full.
    """
    reporter = _Progress(progress, should_stop)
    encode = torch.no_grad()(lambda pixels: family.encode_images(pixels))
    job = EncodingJob(
        transforms=transforms,
        store=store,
        file_digests=file_digests,
        vae=VaeBatches(encode, options.batch),
        encoder=f"{digests.vae};{_precision(family.vae)}",
        threads=options.threads,
        caches=options.caches_latents,
        check_stop=reporter.check_stop,
        require_sound=cache(partial(_require_sound, family.vae)),
        advance=reporter.advance,
        world=options.world,
    )
    needs_input = any(concept.conditioning != "blank" for concept in transforms.concepts)
    conditioning = options.conditioning if needs_input else "blank"
    missing = [MissingEntries(job, each) for each in entry_types(conditioning, family.spec)]
    reporter.total = sum(entries.total for entries in missing)
    for entries in missing:
        entries.encode()
    reporter.finish()
    blanks = _blanks(job, encode) if conditioning != "blank" else {}
    if job.caches:
        _seal_and_locate(job, missing)
    _require_some(transforms, job.failed)
    usable = [index for index in range(len(transforms.items)) if index not in job.failed]
    return EncodedImages(
        transforms=transforms.of_images(usable),
        usable=tuple(usable),
        skipped=tuple(job.failed[index] for index in sorted(job.failed)),
        warnings=job.vae.warnings,
        entries={entries.entry_type.name: entries.of_images(usable) for entries in missing},
        store=store,
        blanks=blanks,
        encode=encode,
        new=len({index for entries in missing for index in entries.new_images()} - set(job.failed)),
    )


def _seal_and_locate(job: EncodingJob, missing: Sequence[MissingEntries]) -> None:
    with job.world.rank_0_first():  # the others find all merged
        for kind in dict.fromkeys(entries.entry_type.kind for entries in missing):
            job.store.seal(kind)
    for entries in missing:
        entries.locate()


def encode_captions(
    family: Family,
    captions: Iterable[str],
    *,
    store: Store,
    digests: EncoderDigests,
    progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
    world: World | None = None,
) -> EncodedTexts:
    """Encode the captions that the cache folder does not contain; "" must be one of them.

    One at a time, so that no encoding depends on another. Otherwise as `encode_images`.
    """
    reporter = _Progress(progress, should_stop)
    precisions = ",".join(_precision(part) for part in family.text_encoders.values())
    rows = {caption: row for row, caption in enumerate(dict.fromkeys(captions))}
    keys = [entry_key("text", FORMAT, caption, digests.text, precisions) for caption in rows]
    reporter.total = len(keys)

    def encode(missing: Collection[int]) -> None:
        with closing(WorkQueue[None](threads=1, most=1)) as writer:
            for row, caption in enumerate(rows):
                reporter.check_stop()
                if row in missing:
                    tensors = _caption(family, caption)
                    writer.submit(partial(store.put, "text", keys[row], tensors))
                    list(writer.excess())
                reporter.advance()
            list(writer.remaining())

    if world is not None and not world.is_alone:
        encode({*store.locate("text", keys).missing[world.rank :: world.size]})
        world.wait_for_all()
    for _ in range(_TRIES):
        encode({*store.locate("text", keys).missing})
        store.seal("text")
        locations = store.locate("text", keys)
        if not locations.missing:
            return EncodedTexts(rows, store, locations)
        # Merging has found damaged ones, or another program has removed some.
    raise UserError(
        f"{store.folder}: encoded captions disappear as soon as they are written",
        "No other program may change the cache while captions are encoded",
        "Start again when no other program uses that folder, or choose another cache folder",
    )


def damage_notes(store: Store) -> list[str]:
    """Return a warning about damaged entries, if any were found."""
    count = len(store.damaged)
    if not count:
        return []
    entries = f"{count} cache entries were" if count > 1 else "a cache entry was"
    return [f"{entries} damaged ({store.damaged[0]}) and will be encoded again if needed"]


class _Progress:
    """Reports progress, and checks whether to stop."""

    def __init__(
        self, progress: Callable[[int, int], None], should_stop: Callable[[], bool]
    ) -> None:
        self.total = 0
        self._done = 0
        self._progress = progress
        self._should_stop = should_stop

    def check_stop(self) -> None:
        """Raise CachingStopped on request."""
        if self._should_stop():
            raise CachingStopped

    def advance(self) -> None:
        """Count one more as done; an entry that is encoded again does not count twice."""
        self._done = min(self._done + 1, self.total)
        self._progress(self._done, self.total)

    def finish(self) -> None:
        """Report that all is done, including images that were skipped."""
        if self._done < self.total:
            self._progress(self.total, self.total)


def _caption(family: Family, caption: str) -> dict[str, Tensor]:
    """Encode a caption for the cache: (T, D) and (P,)."""
    with torch.no_grad():
        encoded = family.encode_text([caption])
    tensors = {"hidden": encoded.hidden[0].to("cpu")}
    if encoded.pooled is not None:
        tensors["pooled"] = encoded.pooled[0].to("cpu")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        labels = {encoder.name: encoder.label for encoder in family.spec.encoders}
        for name, encoder in family.text_encoders.items():
            if found := first_broken(encoder.named_parameters()):
                raise UserError(
                    f'the {labels[name]} holds {found}, found at the caption "{caption}"',
                    "Expected numbers; without them no caption can be encoded",
                    "Download the model (model.path) again, or choose another one.",
                    failure="model file",
                )
        raise UserError(
            f'the text encoder\'s output for the caption "{caption}" is not a number',
            "Expected numbers; without them this caption cannot be trained",
            "Try another precision than fp16; if that fails, the text encoder's file is damaged",
        )
    return tensors


def _blanks(job: EncodingJob, encode: Callable[[Tensor], LatentMoments]) -> dict[Bucket, Tensor]:
    """Return the latents of an empty image, (1, 4, h, w), of every size; they are cached, too."""
    transforms = job.transforms
    every = all_buckets(transforms.items, transforms.concepts)
    blanks = {}
    for size in sorted({bucket for buckets in every for bucket in buckets}):
        key = entry_key("blank", FORMAT, size.width, size.height, job.encoder)
        try:
            cached = job.store.get("latents", key)
        except DamagedEntry:
            cached = None
        if cached is None:
            gray = torch.zeros(1, 3, size.height, size.width)
            cached = {"mean": encode(gray).mean[0].to("cpu")}
            if not bool(cached["mean"].isfinite().all()):
                raise UserError(
                    "the VAE's output for an empty image is not a number",
                    "Models that see masked images get empty ones where everything is masked",
                    "Try another precision than fp16",
                )
            job.store.put("latents", key, cached)
        blanks[size] = cached["mean"][None]
    return blanks


def _precision(module: nn.Module) -> str:
    """Return the precision that a module computes in, as text; empty without parameters."""
    first = next(module.parameters(), None)
    if first is None:
        return ""
    # For the same weights: a GPU may round the inputs of float32 products to ten bits.
    is_tf32 = first.is_cuda and first.dtype == torch.float32 and torch.backends.cudnn.allow_tf32
    return f"{first.dtype},tf32" if is_tf32 else str(first.dtype)


def _require_sound(vae: nn.Module) -> None:
    """Raise UserError if a weight of the VAE is not a number."""
    if found := first_broken(vae.named_parameters()):
        raise UserError(
            f"the VAE holds {found}",
            "Expected numbers; without them no image can be encoded",
            "Download the VAE's file (model.vae, or model.path where that is empty) again, or"
            " choose another VAE (model.vae).",
            failure="model file",
        )


def _require_some(transforms: TransformTable, failed: dict[int, Skipped]) -> None:
    """Raise UserError if no image to train on, or no prior image, is usable."""
    for is_prior in {item.is_prior for item in transforms.items}:
        own = [index for index, item in enumerate(transforms.items) if item.is_prior == is_prior]
        if any(index not in failed for index in own):
            continue
        role = "validation " if transforms.is_plain else "prior " if is_prior else ""
        examples = "; ".join(str(failed[index]) for index in own[:EXAMPLES])
        raise UserError(
            f"None of the {len(own)} {role}images can be read ({examples})",
            "Expected at least one usable image",
            "Replace or repair them",
        )
