"""Every picture and caption of a dataset encoded once, kept between runs, read while training."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from modules.data.digests import PictureDigests, weights_digest
from modules.data.entries import DamagedEntry, Entries, Kind, entry_key, writing
from modules.data.images import decode_pixels
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
    """

    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    has_text: bool
    entries: Entries
    latent_keys: tuple[str, ...]
    text_keys: Mapping[str, str]
    text_lengths: Mapping[str, int]

    def moments(self, index: int) -> LatentMoments:
        """The VAE's posterior of items[index]: (1, 4, h, w) each, float32, on the CPU."""
        tensors = self._read("latents", self.latent_keys[index])
        return LatentMoments(tensors["mean"], tensors["std"])

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
    device: torch.device,
    with_text: bool,
    progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
    digests: EncoderDigests | None = None,
) -> CachedDataset:
    """Encodes what the cache folder does not hold yet; afterwards the VAE is not needed.

    One picture or caption at a time: a batch is computed by other kernels that round otherwise,
    and then an encoding would depend on what was encoded with it (measured on SD's VAE on a CPU:
    1e-6 between a batch of four and four of one). device: where the family's parts are.
    with_text: also every distinct caption, and the empty one. progress: told (done, total) after
    each. should_stop: asked before each; if it says so, CachingStopped is raised. digests: None
    computes them from the weights.
    Pictures that cannot be decoded are skipped; UserError if none is left, or on a full disk.
    """
    digests = digests or encoder_digests(family, with_text=with_text)
    encoder = _Encoder(family, Entries(folder), digests, device)
    captions = list(dict.fromkeys(["", *(item.caption for item in items)])) if with_text else []
    jobs: list[str | Item] = [*captions, *items]
    text: dict[str, tuple[str, int]] = {}
    latents: dict[Item, str] = {}
    skipped: list[Skipped] = []
    try:
        for done, job in enumerate(jobs):
            if should_stop():
                raise CachingStopped
            try:
                if isinstance(job, Item):
                    latents[job] = encoder.picture(job)
                else:
                    text[job] = encoder.caption(job)
            except PictureError as error:
                skipped.append(Skipped(error.path, error.reason))
            progress(done + 1, len(jobs))
    finally:
        encoder.finish()
    if not latents:
        raise _none_left(skipped)
    return CachedDataset(
        items=tuple(latents),
        skipped=tuple(skipped),
        warnings=tuple(encoder.warnings),
        has_text=with_text,
        entries=encoder.entries,
        latent_keys=tuple(latents.values()),
        text_keys={caption: key for caption, (key, _) in text.items()},
        text_lengths={caption: length for caption, (_, length) in text.items()},
    )


class _Encoder:
    """Encodes one thing at a time, unless the cache has it."""

    def __init__(
        self, family: Family, entries: Entries, digests: EncoderDigests, device: torch.device
    ) -> None:
        self.entries = entries
        self.warnings: list[str] = []
        self._family = family
        self._digests = digests
        self._device = device
        self._pictures = PictureDigests(entries.folder / "pictures.json")
        self._vae_dtype = _dtype(family.vae)
        self._text_dtype = ",".join(_dtype(part) for part in family.text_encoders.values())

    def picture(self, item: Item) -> str:
        """The key of a picture's moments, which are in the cache then. Raises PictureError."""
        known = self._pictures.known(item)
        if known and self._cached("latents", self._latents_key(item, known), item.path.name):
            return self._latents_key(item, known)
        try:
            data, digest = self._pictures.read(item)
        except OSError as error:
            raise PictureError(item.path, f"cannot be read ({error.strerror})") from error
        key = self._latents_key(item, digest)
        if not self._cached("latents", key, item.path.name):
            self.entries.put("latents", key, self._encode_picture(item, data))
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

    def _latents_key(self, item: Item, digest: str) -> str:
        crop = crop_geometry(item.width, item.height, item.bucket)
        return entry_key(
            *("latents", FORMAT, digest, crop.width, crop.height, *crop.box),
            *(self._digests.vae, self._vae_dtype),
        )

    def _encode_picture(self, item: Item, data: bytes) -> dict[str, Tensor]:
        pixels = decode_pixels(item, io.BytesIO(data))[None].to(self._device)  # (1, 3, H, W)
        with torch.no_grad():
            moments = self._family.encode_images(pixels)
        tensors = {"mean": moments.mean.to("cpu"), "std": moments.std.to("cpu")}
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            reason = "the VAE's result is not a number; another precision than fp16 may help"
            raise PictureError(item.path, reason)
        return tensors


def _dtype(module: nn.Module) -> str:
    """The type a module computes in, as text; empty if it has no parameters."""
    return next((str(parameter.dtype) for parameter in module.parameters()), "")


def _none_left(skipped: list[Skipped]) -> UserError:
    some = "; ".join(map(str, skipped[:EXAMPLES]))
    return UserError(
        f"None of the {len(skipped)} pictures can be read ({some})",
        "At least one usable picture is needed",
        "Replace or repair them",
    )
