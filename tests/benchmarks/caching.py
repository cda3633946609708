"""Images cached per second, against the VAE alone and against a plain loop, in the same run.

`python -m tests.benchmarks.caching [--device cuda] [--threads N] [--batch N]`. The VAE alone has
its images in memory already; the plain loop decodes, scales and encodes one after the other, and
writes nothing. All three take turns. On a processor torch computes on one thread, which leaves
others to decoding; a machine that is busy otherwise has none left, and then the fractions of
processor seconds say more: of the calling thread, beside the VAE alone, and of the whole process,
beside the plain loop. Afterwards, the memory that 200 and 2000 images take.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import NamedTuple

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from PIL import Image

from modules.data.cache import EncodeOptions, EncoderDigests, encode_images
from modules.data.encoded_items import TransformTable
from modules.data.shards import Store
from modules.interfaces import LatentMoments
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import index_concept
from onetrainer.dataset.transforms import plain_transform
from onetrainer.families.registry import family_spec
from onetrainer.images.image_index import ImageIndex
from tests import tiny
from tests.benchmarks.lines import say
from tests.own_user import own_user
from tests.transforms import load_pixels

SHAPES = [(4000, 3000), (3000, 4000), (4000, 2667), (3000, 3000)]
DIGESTS = EncoderDigests("vae", "text")


class Family:
    """A VAE and nothing else. width: of its first layers; SD's own has 128."""

    def __init__(self, device: torch.device, width: int, dtype: torch.dtype) -> None:
        widths = [width, 2 * width, 4 * width, 4 * width]
        config = tiny.configs()["vae"] | {"block_out_channels": widths, "norm_num_groups": 8}
        torch.manual_seed(0)
        self.vae = AutoencoderKL.from_config(config).eval().to(device, dtype)
        self.vae.requires_grad_(False)
        self.device, self.dtype = device, dtype
        self.spec = family_spec("sd15")

    @torch.no_grad()
    def encode_images(self, pixels: torch.Tensor) -> LatentMoments:
        there = pixels.pin_memory() if self.device.type == "cuda" else pixels
        there = there.to(self.device, non_blocking=True).to(self.dtype)
        posterior = self.vae.encode(there).latent_dist
        return LatentMoments(posterior.mean.float(), posterior.std.float())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--peaks", type=int, nargs=2, default=(200, 2000), metavar="IMAGES")
    parser.add_argument("--memory-of", type=int, default=0, help="only how much so many take")
    options = parser.parse_args()
    if options.memory_of:
        print(peak_of(options.memory_of))
        return
    say("caching", **speeds(options))
    peaks = [
        int(subprocess.check_output([sys.executable, "-m", __spec__.name, "--memory-of", str(n)]))
        for n in options.peaks
    ]
    say("caching", peak_MB=dict(zip(options.peaks, peaks, strict=True)))


def speeds(options: argparse.Namespace) -> dict[str, object]:
    """Images per second, and ours as a fraction of the others."""
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    family = Family(
        device, options.width, torch.float32 if device.type == "cpu" else torch.bfloat16
    )
    with tempfile.TemporaryDirectory() as folder:
        concept = write_photos(Path(folder) / "photos", options.images)
        items = index_concept(concept).items
        pixels = [load_pixels(item, plain_transform(item, concept)) for item in items]
        family.encode_images(pixels[0][None])
        times = []
        for turn in range(options.turns):
            cache = Path(folder) / f"cache-{turn}"
            times.append(
                (
                    timed(partial(vae_alone, family, pixels, options.batch)),
                    timed(partial(plain_loop, family, concept, items)),
                    timed(partial(ours, family, concept, items, cache, options)),
                )
            )
    vae, plain, own = (
        len(items) / median(one.seconds for one in way) for way in zip(*times, strict=True)
    )
    return {
        **{name: getattr(options, name) for name in ("device", "threads", "batch", "images")},
        "vae_alone_per_s": round(vae, 2),
        "plain_loop_per_s": round(plain, 2),
        "ours_per_s": round(own, 2),
        "fraction_of_vae_alone": round(median(v.seconds / o.seconds for v, _, o in times), 3),
        "times_the_plain_loop": round(median(p.seconds / o.seconds for _, p, o in times), 3),
        "share_on_the_calling_thread": round(median(v.thread / o.thread for v, _, o in times), 3),
        "share_of_processor_seconds": round(median(p.process / o.process for _, p, o in times), 3),
    }


def vae_alone(family: Family, pixels: list[torch.Tensor], batch: int) -> None:
    """In batches of one size, as many as there are images."""
    groups: dict[torch.Size, list[torch.Tensor]] = {}
    for one in pixels:
        groups.setdefault(one.shape, []).append(one)
    for some in groups.values():
        for start in range(0, len(some), batch):
            family.encode_images(torch.stack(some[start : start + batch])).mean.to("cpu")


def plain_loop(family: Family, concept: ConceptSettings, items: tuple) -> None:
    for item in items:
        pixels = load_pixels(item, plain_transform(item, concept))
        family.encode_images(pixels[None]).mean.to("cpu")


def ours(
    family: Family, concept: ConceptSettings, items: tuple, cache: Path, options: argparse.Namespace
) -> None:
    with closing(ImageIndex(cache)) as memory:
        encode_images(
            family,
            TransformTable(items, (concept,), is_plain=False),
            store=Store(cache),
            file_digests=memory,
            digests=DIGESTS,
            options=EncodeOptions(threads=options.threads, batch=options.batch),
            progress=lambda done, total: None,
            should_stop=lambda: False,
        )


class Times(NamedTuple):
    """Seconds, and those that this thread, and all threads of the process, have computed."""

    seconds: float
    thread: float
    process: float


def timed(work) -> Times:
    start, own, every = perf_counter(), thread_time(), process_time()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return Times(perf_counter() - start, thread_time() - own, process_time() - every)


def write_photos(folder: Path, count: int) -> ConceptSettings:
    """JPEGs of 12 megapixels, smooth and with some noise, as cameras make them."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        small = Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8))
        size = SHAPES[number % len(SHAPES)]
        photo = small.resize(size, Image.Resampling.BICUBIC)
        grain = Image.effect_noise(size, 12).convert("RGB")
        Image.blend(photo, grain, 0.15).save(folder / f"{number}.jpg", quality=92)
    return ConceptSettings("data.folder", "photos", folder, require_captions=False)


def peak_of(count: int) -> int:
    """The most memory, in MB, that caching so many small images has taken."""
    torch.set_num_threads(1)
    family = tiny.family()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p").mkdir()
        rng = np.random.default_rng(0)
        for number in range(count):
            pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(Path(folder) / "p" / f"{number}.png")
        concept = ConceptSettings(
            "data.folder", "p", Path(folder) / "p", resolutions=(64,), require_captions=False
        )
        options = argparse.Namespace(threads=1, batch=1)
        ours(family, concept, index_concept(concept).items, Path(folder) / "cache", options)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    with own_user():
        main()
