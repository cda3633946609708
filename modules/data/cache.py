"""Every picture, mask and caption encoded once, kept between runs, read while training."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from modules.data.cache_entries import FORMAT, components_of
from modules.data.digests import weights_digest
from modules.data.encode_missing import Filling, ImageDigests, Work
from modules.data.encoded_items import EncodedImages, EncodedTexts, Views
from modules.data.prefetch import Line
from modules.data.shards import DamagedEntry, Places, Store, entry_key
from modules.data.vae_batches import VaeBatches
from modules.interfaces import Family, LatentMoments
from onetrainer.config.data.data import Conditioning
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import EXAMPLES, Skipped
from onetrainer.errors import UserError

_TRIES = 3
"""How often captions are encoded whose entries are gone as soon as they were written."""


class CachingStopped(Exception):
    """Caching was asked to stop; what it has done is kept."""


@dataclass(frozen=True)
class EncoderDigests:
    """What tells these encoders from others.

    Must differ wherever the encodings do: by weights, and by whatever else a family encodes by,
    such as a number of skipped layers.
    """

    vae: str
    text: str


@dataclass(frozen=True)
class EncodeOptions:
    """How pictures are encoded.

    keeps_latents: without, they are only looked at, and encoded whenever they are asked for.
    batch: how many the VAE takes at once. threads: that decode meanwhile; 0 decodes in between.
    conditioning: what inpainting models see.
    """

    keeps_latents: bool = True
    batch: int = 1
    threads: int = 2
    conditioning: Conditioning = "blank"


def encoder_digests(family: Family, *, with_text: bool = True) -> EncoderDigests:
    """What tells a family's encoders from others: their weights, and what else they encode by."""
    images, captions = family.encoder_settings()
    text = [f"{name}:{weights_digest(part)}" for name, part in sorted(family.text_encoders.items())]
    return EncoderDigests(
        vae=f"{weights_digest(family.vae)};{images}",
        text=";".join([*text, captions]) if with_text else "",
    )


def encode_images(
    family: Family,
    views: Views,
    *,
    store: Store,
    memory: ImageDigests,
    digests: EncoderDigests,
    options: EncodeOptions,
    progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> EncodedImages:
    """Encodes what the cache folder does not hold yet; afterwards the VAE is not needed.

    views: of the pictures; those of held-out ones are plain.
    While threads decode the next pictures, the VAE encodes, and another thread writes the last
    ones: each is on disk, whole, as soon as it is encoded. How many there are matters to nothing
    but time. progress: told (done, total) after each. should_stop: asked before each; if it says
    so, CachingStopped is raised.
    Pictures that cannot be decoded, or whose masks or conditioning pictures cannot, are skipped;
    UserError if none of a kind is left, or on a full disk.
    """
    told = _Told(progress, should_stop)
    encode = partial(_encoded, family)
    work = Work(
        views=views,
        store=store,
        memory=memory,
        vae=VaeBatches(encode, options.batch),
        encoder=f"{digests.vae};{_precision(family.vae)}",
        threads=options.threads,
        keeps=options.keeps_latents,
        ask=told.ask,
        tick=told.tick,
    )
    is_shown = any(concept.conditioning != "blank" for concept in views.concepts)
    conditioning = options.conditioning if is_shown else "blank"
    fillings = [Filling(work, part) for part in components_of(conditioning)]
    told.total = sum(filling.total for filling in fillings)
    for filling in fillings:
        filling.fill()
    told.finish()
    blanks = _blanks(work, encode) if conditioning != "blank" else {}
    places = _places(work, fillings) if options.keeps_latents else {}
    _require_some(views, work.failed)
    warnings = _warnings(work.vae, options.batch)
    return _kept(work, fillings, places, warnings=warnings, blanks=blanks, encode=encode)


def encode_captions(
    family: Family,
    captions: Iterable[str],
    *,
    store: Store,
    digests: EncoderDigests,
    progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> EncodedTexts:
    """Encodes those captions that the cache folder does not hold yet; the empty one must be there.

    One at a time, so that an encoding depends on no other. Otherwise as `encode_pictures`.
    """
    told = _Told(progress, should_stop)
    precisions = ",".join(_precision(part) for part in family.text_encoders.values())
    rows = {caption: row for row, caption in enumerate(dict.fromkeys(captions))}
    keys = [entry_key("text", FORMAT, caption, digests.text, precisions) for caption in rows]
    told.total = len(keys)
    for _ in range(_TRIES):
        _keep_captions(family, list(rows), store=store, keys=keys, told=told)
        store.seal("text")
        places = store.places("text", keys)
        if not places.missing:
            return EncodedTexts(rows, store, places)
        # Merging has found damaged ones, or another program has removed some.
    raise UserError(
        f"{store.folder}: encoded captions are removed as soon as they are written",
        "The cache must be left alone while captions are encoded",
        "Start again when no other program works in that folder, or choose another cache folder",
    )


def damage_notes(store: Store) -> list[str]:
    """What to tell of entries that were found damaged; empty if none was."""
    count = len(store.damaged)
    if not count:
        return []
    what = f"{count} entries of the cache were" if count > 1 else "an entry of the cache was"
    return [f"{what} damaged ({store.damaged[0]}); what is needed of it is made anew"]


def _keep_captions(
    family: Family,
    captions: Sequence[str],
    *,
    store: Store,
    keys: Sequence[bytes],
    told: "_Told",
) -> None:
    """Encodes those that have no entry; a thread writes the last one meanwhile."""
    missing = set(store.places("text", keys).missing)
    with closing(Line[None](threads=1, most=1)) as writer:
        for row, caption in enumerate(captions):
            told.ask()
            if row in missing:
                tensors = _caption(family, caption)
                writer.give(partial(store.put, "text", keys[row], tensors))
                list(writer.due())
            told.tick()
        list(writer.rest())


class _Told:
    """What is told of progress, and asked for in return."""

    def __init__(
        self, progress: Callable[[int, int], None], should_stop: Callable[[], bool]
    ) -> None:
        self.total = 0
        self._done = 0
        self._progress = progress
        self._should_stop = should_stop

    def ask(self) -> None:
        """Raises CachingStopped where asked to stop."""
        if self._should_stop():
            raise CachingStopped

    def tick(self) -> None:
        """One more is done; what has to be made again does not count twice."""
        self._done = min(self._done + 1, self.total)
        self._progress(self._done, self.total)

    def finish(self) -> None:
        """All is done: what was skipped in one part is not looked at in others."""
        if self._done < self.total:
            self._progress(self.total, self.total)


def _encoded(family: Family, pixels: Tensor) -> LatentMoments:
    """What the VAE makes of pictures, (B, 3, H, W), where it is."""
    with torch.no_grad():
        return family.encode_images(pixels)


def _caption(family: Family, caption: str) -> dict[str, Tensor]:
    """What is kept of a caption: (T, D) and (P,)."""
    with torch.no_grad():
        encoded = family.encode_text([caption])
    tensors = {"hidden": encoded.hidden[0].to("cpu")}
    if encoded.pooled is not None:
        tensors["pooled"] = encoded.pooled[0].to("cpu")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise UserError(
            f'the text encoder makes something that is not a number of the caption "{caption}"',
            "Numbers can be learned from; a picture without a caption would be another one",
            "Another precision than fp16 may help; if not, the text encoder's file is damaged",
        )
    return tensors


def _blanks(work: Work, encode: Callable[[Tensor], LatentMoments]) -> dict[Bucket, Tensor]:
    """The latents of an empty picture, (1, 4, h, w), of every size; kept as others are."""
    views = work.views
    sizes = {
        views.bucket(place, number)
        for place, item in enumerate(views.items)
        for number in range(len(views.concepts[item.concept].resolutions))
    }
    found = {}
    for size in sorted(sizes):
        key = entry_key("blank", FORMAT, size.width, size.height, work.encoder)
        try:
            kept = work.store.get("latents", key)
        except DamagedEntry:
            kept = None
        if kept is None:
            gray = torch.zeros(1, 3, size.height, size.width)
            kept = {"mean": encode(gray).mean[0].to("cpu")}
            if not bool(kept["mean"].isfinite().all()):
                raise UserError(
                    "the VAE makes something that is not a number of an empty picture",
                    "A model for inpainting is shown empty pictures where all is to be painted",
                    "Another precision than fp16 may help",
                )
            work.store.put("latents", key, kept)
        found[size] = kept["mean"][None]
    return found


def _places(work: Work, fillings: Sequence[Filling]) -> dict[str, Places]:
    """Where everything is kept, by part; what was written singly is merged before."""
    for kind in dict.fromkeys(filling.part.kind for filling in fillings):
        work.store.seal(kind)
    return {filling.part.name: filling.places() for filling in fillings}


def _kept(
    work: Work,
    fillings: Sequence[Filling],
    places: Mapping[str, Places],
    *,
    warnings: tuple[str, ...],
    blanks: Mapping[Bucket, Tensor],
    encode: Callable[[Tensor], LatentMoments],
) -> EncodedImages:
    """The pictures without those that failed."""
    every = work.views
    kept = [place for place in range(len(every.items)) if place not in work.failed]
    rows = np.array([row for place in kept for row in every.rows_of(place)], np.int64)
    items = [every.items[place] for place in kept]
    new = {place for filling in fillings for place in filling.new_places()}
    return EncodedImages(
        views=Views(items, every.concepts, is_plain=every.is_plain),
        kept=tuple(kept),
        skipped=tuple(work.failed[place] for place in sorted(work.failed)),
        warnings=warnings,
        parts={filling.part.name: filling.part for filling in fillings},
        keys={filling.part.name: filling.keys[rows] for filling in fillings},
        store=work.store,
        places={
            name: replace(one, shard=one.shard[rows], row=one.row[rows])
            for name, one in places.items()
        },
        blanks=blanks,
        encode=encode,
        new=len(new.intersection(kept)),
    )


def _warnings(vae: VaeBatches, batch: int) -> tuple[str, ...]:
    """What to tell of a lack of memory."""
    if vae.size == batch:
        return ()
    few = f"{vae.size} at a time" if vae.size > 1 else "one at a time"
    return (f"memory is too small to encode {batch} pictures at once; {few} went well",)


def _precision(module: nn.Module) -> str:
    """What a module computes in, as text; empty if it has no parameters."""
    one = next(module.parameters(), None)
    if one is None:
        return ""
    # Of the same weights: a graphics card rounds float32 products to ten bits, if it may.
    is_tf32 = one.is_cuda and one.dtype == torch.float32 and torch.backends.cudnn.allow_tf32
    return f"{one.dtype},tf32" if is_tf32 else str(one.dtype)


def _require_some(views: Views, failed: dict[int, Skipped]) -> None:
    """Raises UserError if of pictures to learn, or of those to keep, none is left."""
    for is_prior in {item.is_prior for item in views.items}:
        places = [place for place, item in enumerate(views.items) if item.is_prior == is_prior]
        if any(place not in failed for place in places):
            continue
        kind = "held-out " if views.is_plain else "class " if is_prior else ""
        some = "; ".join(str(failed[place]) for place in places[:EXAMPLES])
        raise UserError(
            f"None of the {len(places)} {kind}pictures can be read ({some})",
            "At least one usable picture is needed",
            "Replace or repair them",
        )
