"""Every picture, mask and caption encoded once, kept between runs, read while training."""

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from modules.data.digests import PictureDigests, weights_digest
from modules.data.entries import DamagedEntry, Entries, Kind, entry_key, writing
from modules.data.images import decode_pixels, load_pixels
from modules.data.masks import decode_mask
from modules.interfaces import Conditioning, Family, LatentMoments
from onetrainer.buckets import crop_geometry
from onetrainer.dataset_index import EXAMPLES, Item, Skipped
from onetrainer.errors import UserError
from onetrainer.picture_file import PictureError

FORMAT = 1
"""Part of every key: raised when the same picture or caption is to be encoded otherwise."""


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
class CachedDataset:
    """A dataset whose pictures, and captions if has_text, are encoded.

    items: those that could be read. skipped: those that could not. warnings: what else happened.
    latent_keys: what tells each picture's encoding from others, whether it is kept or not.
    mask_keys: one for each item, "" where it has no mask. encode: makes a picture's moments anew
    each time, where they are not kept; None where they are.
    """

    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    has_text: bool
    entries: Entries
    latent_keys: tuple[str, ...]
    mask_keys: tuple[str, ...]
    text_keys: Mapping[str, str]
    text_lengths: Mapping[str, int]
    encode: Callable[[Tensor], LatentMoments] | None = None

    @property
    def learnt(self) -> tuple[Item, ...]:
        """The items without class pictures, which stand for what is to be kept."""
        return tuple(item for item in self.items if not item.is_prior)

    def moments(self, index: int) -> LatentMoments:
        """The VAE's posterior of items[index]: (1, 4, h, w) each, float32.

        On the CPU where it was kept, otherwise where the VAE is.
        """
        if self.encode is not None:
            return self.encode(self.pixels(index))
        tensors = self._read("latents", self.latent_keys[index])
        return LatentMoments(tensors["mean"], tensors["std"])

    def mask(self, index: int) -> Tensor | None:
        """Where items[index] counts: (1, 1, h, w), float32 in [0, 1]; None if it has no mask."""
        key = self.mask_keys[index]
        return self._read("masks", key)["mask"] if key else None

    def pixels(self, index: int) -> Tensor:
        """The picture itself, as it was encoded: (1, 3, 8h, 8w), float32 in [-1, 1]."""
        try:
            return load_pixels(self.items[index])[None]
        except PictureError as error:
            raise UserError(
                f"{error.path}: {error.reason}",
                "The pictures must be left alone while a run uses them",
                "Put it back as it was, or start again without it",
            ) from error

    def conditioning(self, caption: str) -> Conditioning:
        """An item's caption, or the empty one, encoded: (1, T, D) and (1, P), on the CPU."""
        tensors = self._read("text", self.text_keys[caption])
        return Conditioning(tensors["hidden"], tensors.get("pooled"))

    def tokens(self, caption: str) -> int:
        """How many tokens a caption takes, padding included: T of its conditioning."""
        return self.text_lengths[caption]

    def _read(self, kind: Kind, key: str) -> dict[str, Tensor]:
        try:
            tensors = self.entries.get(kind, key)
        except DamagedEntry:
            tensors = None
        if tensors is None:
            raise UserError(
                f"{self.entries.folder}: an encoded picture or caption was removed or damaged",
                "The cache must be left alone while a run uses it",
                "Start again: what is missing is encoded anew",
            )
        return tensors


def encoder_digests(family: Family, *, with_text: bool = True) -> EncoderDigests:
    """What tells a family's encoders from others: their weights, and what else they encode by."""
    pictures, captions = family.encoder_settings()
    text = [f"{name}:{weights_digest(part)}" for name, part in sorted(family.text_encoders.items())]
    return EncoderDigests(
        vae=f"{weights_digest(family.vae)};{pictures}",
        text=";".join([*text, captions]) if with_text else "",
    )


def encode_dataset(
    family: Family,
    items: Sequence[Item],
    *,
    folder: Path,
    with_text: bool,
    progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
    digests: EncoderDigests | None = None,
    with_latents: bool = True,
) -> CachedDataset:
    """Encodes what the cache folder does not hold yet; afterwards the VAE is not needed.

    One picture or caption at a time: a batch is computed by other kernels that round otherwise,
    and then an encoding would depend on what was encoded with it (measured on SD's VAE on a CPU:
    1e-6 between a batch of four and four of one).
    with_text: also every distinct caption, and the empty one. progress: told (done, total) after
    each. should_stop: asked before each; if it says so, CachingStopped is raised. digests: None
    computes them from the weights. with_latents: without, pictures are only looked at now, and
    encoded whenever they are asked for.
    Pictures that cannot be decoded, or whose mask cannot, are skipped; UserError if none is left,
    no class picture though there were some, or on a full disk.
    """
    digests = digests or encoder_digests(family, with_text=with_text)
    encoder = _Encoder(family, Entries(folder), digests, keeps_latents=with_latents)
    captions = list(dict.fromkeys(["", *(item.caption for item in items)])) if with_text else []
    jobs: list[str | Item] = [*captions, *items]
    text: dict[str, tuple[str, int]] = {}
    pictures: dict[Item, tuple[str, str]] = {}
    skipped: list[Skipped] = []
    try:
        for done, job in enumerate(jobs):
            if should_stop():
                raise CachingStopped
            try:
                if isinstance(job, Item):
                    pictures[job] = (encoder.picture(job), encoder.mask(job))
                else:
                    text[job] = encoder.caption(job)
            except PictureError as error:
                skipped.append(Skipped(error.path, error.reason))
            progress(done + 1, len(jobs))
    finally:
        encoder.finish()
    _require_some(items, pictures, skipped)
    return CachedDataset(
        items=tuple(pictures),
        skipped=tuple(skipped),
        warnings=tuple(encoder.warnings),
        has_text=with_text,
        entries=encoder.entries,
        latent_keys=tuple(latents for latents, _ in pictures.values()),
        mask_keys=tuple(mask for _, mask in pictures.values()),
        text_keys={caption: key for caption, (key, _) in text.items()},
        text_lengths={caption: length for caption, (_, length) in text.items()},
        encode=None if with_latents else encoder.moments,
    )


class _Encoder:
    """Encodes one thing at a time, unless the cache has it."""

    def __init__(
        self,
        family: Family,
        entries: Entries,
        digests: EncoderDigests,
        *,
        keeps_latents: bool,
    ) -> None:
        self.entries = entries
        self._keeps_latents = keeps_latents
        self.warnings: list[str] = []
        self._family = family
        self._digests = digests
        self._pictures = PictureDigests(entries.folder / "pictures.json")
        self._vae_dtype = _dtype(family.vae)
        self._text_dtype = ",".join(_dtype(part) for part in family.text_encoders.values())

    def picture(self, item: Item) -> str:
        """The key of a picture's moments, which are in the cache then, if they are kept.

        Raises PictureError.
        """
        known = self._pictures.known(item.path)
        if not self._keeps_latents:
            # Also those whose digest is known: it says nothing of whether they can be decoded.
            return self._latents_key(item, self._looked_at(item))
        if known and self._cached("latents", self._latents_key(item, known), item.path.name):
            return self._latents_key(item, known)
        data, digest = self._content(item, item.path)
        key = self._latents_key(item, digest)
        if not self._cached("latents", key, item.path.name):
            self.entries.put("latents", key, self._encode_picture(item, data))
        return key

    def moments(self, pixels: Tensor) -> LatentMoments:
        """What the VAE makes of pictures, (1, 3, H, W), where it is."""
        with torch.no_grad():
            return self._family.encode_images(pixels)

    def mask(self, item: Item) -> str:
        """The key of its mask, which is in the cache then; "" without one. Raises PictureError."""
        if item.mask is None:
            return ""
        known = self._pictures.known(item.mask)
        if known and self._cached("masks", _mask_key(item, known), item.mask.name):
            return _mask_key(item, known)
        data, digest = self._content(item, item.mask)
        key = _mask_key(item, digest)
        if not self._cached("masks", key, item.mask.name):
            self.entries.put("masks", key, {"mask": decode_mask(item, io.BytesIO(data))})
        return key

    def caption(self, caption: str) -> tuple[str, int]:
        """The key of a caption's conditioning, which is in the cache then, and its length."""
        key = entry_key("text", FORMAT, caption, self._digests.text, self._text_dtype)
        tensors = self._cached("text", key, f'caption "{caption}"')
        if tensors is None:
            with torch.no_grad():
                encoded = self._family.encode_text([caption])
            tensors = {"hidden": encoded.hidden.to("cpu")}
            if encoded.pooled is not None:
                tensors["pooled"] = encoded.pooled.to("cpu")
            self.entries.put("text", key, tensors)
        return key, tensors["hidden"].shape[1]

    def finish(self) -> None:
        """Keeps which pictures need not be read next time."""
        with writing(self.entries.folder):
            self._pictures.save()

    def _cached(self, kind: Kind, key: str, name: str) -> dict[str, Tensor] | None:
        try:
            return self.entries.get(kind, key)
        except DamagedEntry:
            self.warnings.append(f"{name}: its encoding in the cache was damaged; it is made anew")
            self.entries.discard(kind, key)
            return None

    def _content(self, item: Item, path: Path) -> tuple[bytes, str]:
        """The bytes of an item's picture or mask, and their digest."""
        try:
            return self._pictures.read(path)
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
            if path != item.path:
                reason = f'its mask "{path.name}" {reason}'
            raise PictureError(item.path, reason) from error

    def _looked_at(self, item: Item) -> str:
        """The digest of a picture that can be decoded."""
        data, digest = self._content(item, item.path)
        decode_pixels(item, io.BytesIO(data))
        return digest

    def _latents_key(self, item: Item, digest: str) -> str:
        return entry_key("latents", FORMAT, digest, *_cut(item), self._digests.vae, self._vae_dtype)

    def _encode_picture(self, item: Item, data: bytes) -> dict[str, Tensor]:
        moments = self.moments(decode_pixels(item, io.BytesIO(data))[None])
        tensors = {"mean": moments.mean.to("cpu"), "std": moments.std.to("cpu")}
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            reason = "the VAE's result is not a number; another precision than fp16 may help"
            raise PictureError(item.path, reason)
        return tensors


def _mask_key(item: Item, digest: str) -> str:
    """digest: of the mask's file."""
    kind = "alpha" if item.mask == item.path else "file"
    return entry_key("masks", FORMAT, kind, digest, *_cut(item))


def _cut(item: Item) -> tuple[int, ...]:
    """How a picture is scaled and cropped."""
    crop = crop_geometry(item.width, item.height, item.bucket)
    return crop.width, crop.height, *crop.box


def _dtype(module: nn.Module) -> str:
    """The type a module computes in, as text; empty if it has no parameters."""
    return next((str(parameter.dtype) for parameter in module.parameters()), "")


def _require_some(
    wanted: Sequence[Item], read: Collection[Item], skipped: Sequence[Skipped]
) -> None:
    """Raises UserError if no picture is left to learn, or none of the class pictures."""
    for is_prior in {False} | {item.is_prior for item in wanted}:
        if any(item.is_prior == is_prior for item in read):
            continue
        kind = "class pictures" if is_prior else "pictures"
        paths = {item.path for item in wanted if item.is_prior == is_prior}
        lost = [one for one in skipped if one.path in paths]
        some = "; ".join(map(str, lost[:EXAMPLES]))
        raise UserError(
            f"None of the {len(lost)} {kind} can be read ({some})",
            "At least one usable picture is needed",
            "Replace or repair them",
        )
