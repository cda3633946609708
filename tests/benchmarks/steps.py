"""Training steps of the whole program, as a fraction of a bare loop in the same run.

`python -m tests.benchmarks.steps [lora|full]`. The bare loop is what torch and diffusers offer: the
same UNet, a LoRA of two linear layers or the weights themselves, its batch already in memory, and
nothing else: no cache, no draws by position, no events, no commands. The two take turns at every
step, on one thread, and are timed in processor seconds: a busy machine slows both alike. What the
program's other threads compute counts as the program's. reading_ms: of that, to read and draw what
a step needs, which the bare loop has in memory; reporting_ms: to report a step; loop_ms: what else
the loop does before and after the computing.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median, quantiles
from time import process_time, thread_time
from typing import Any

import torch
from diffusers.models.attention_processor import AttnProcessor2_0

from modules.data.batches import Batches, BatchSource
from modules.data.cache import EncodeOptions, encode_captions, encode_images, encoder_digests
from modules.data.encoded_items import TransformTable
from modules.data.loader import AT_ONCE, Loader, reading_threads
from modules.data.shards import Store
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import Method, named_parameters
from modules.methods.adapters.adapters import Adapters
from modules.methods.full import Full
from modules.methods.model_source import ModelSource
from modules.objectives.denoising import Denoising
from modules.optim.build import build_optimizer
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.update import WeightUpdater
from modules.stepping.eager import EagerStep
from modules.trainer import Trainer
from modules.training.accumulation import Accumulation
from modules.training.checkpoints import TrainState
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from modules.world.world import alone
from onetrainer.config.data.data import Data
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.caption_sampling import plain_caption
from onetrainer.dataset.dataset import Dataset, read_dataset
from onetrainer.images.image_index import ImageIndex
from onetrainer.model_files.kinds import ModelFile
from onetrainer.run.event_log import EventWriter
from tests import tiny
from tests.benchmarks.bare_lora import attach_lora

CPU = torch.device("cpu")
RANK = 4
STEPS, WARM_UP = 150, 15
METHODS = ("lora", "full")


def main() -> None:
    torch.set_num_threads(1)
    for method in sys.argv[1:] or METHODS:
        for batch_size in (1, 4):
            with tempfile.TemporaryDirectory() as folder:
                bare, ours, parts = measure(Path(folder), method, batch_size)
            result = {
                "benchmark": "steps",
                "method": method,
                "batch_size": batch_size,
                "fraction_of_bare_loop": round(median(bare) / median(ours), 3),
                "fraction_at_best": round(quick(bare) / quick(ours), 3),
                "bare_ms": round(median(bare) * 1000, 2),
                "overhead_ms": round((median(ours) - median(bare)) * 1000, 2),
                # On average, since some microbatches are read at once.
                **{name: round(fmean(times) * 1000, 2) for name, times in parts.items()},
            }
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()


def measure(
    folder: Path, method: str, batch_size: int
) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """The seconds of each step of the bare loop and of the program, and of the program's parts."""
    bare = _Bare(method, batch_size)
    ours = _Ours(folder, method, batch_size, bare)
    ours.run(WARM_UP + STEPS)
    ours.close()
    assert bare.trained == sum(weight.numel() for weight in ours.weights)
    turns = ours.turns
    return (
        turns.bare[WARM_UP:-1],
        turns.ours[WARM_UP:],
        {
            "reading_ms": turns.reading[WARM_UP:],
            "reporting_ms": ours.reporting[WARM_UP:],
            "loop_ms": ours.around[WARM_UP:],
        },
    )


def quick(seconds: list[float]) -> float:
    """The tenth percentile, which a busy machine changes least."""
    return quantiles(seconds, n=10)[0]


class _Turns:
    """The program's inputs, which make a step of the bare loop before each of the program's."""

    def __init__(self, bare: "_Bare", inputs: Any) -> None:
        self._step, self._inputs = bare.step, inputs
        self.bare: list[float] = []
        self.ours: list[float] = []
        self.reading: list[float] = []
        self._began: float | None = None

    def at(self, step: int) -> Any:
        now = process_time()
        if self._began is not None:
            self.ours.append(now - self._began)
        before = thread_time()
        self._step()
        self.bare.append(thread_time() - before)
        # What other threads did meanwhile is the program's, too.
        self._began = now + self.bare[-1]
        before = thread_time()
        read = [*self._inputs.at(step)]
        self.reading.append(thread_time() - before)
        return read


def _timed(work: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """The same work, which adds what it computes in this thread to a list."""

    def timed(*args: Any, **options: Any) -> Any:
        before = thread_time()
        try:
            return work(*args, **options)
        finally:
            seconds.append(thread_time() - before)

    return timed


class _Bare:
    def __init__(self, method: str, batch_size: int) -> None:
        self.family = tiny.family()
        unet = self.family.unet
        unet.set_attn_processor(AttnProcessor2_0())
        if method == "lora":
            attach_lora(unet, RANK)
        else:
            unet.requires_grad_(True)
        self.weights = [weight for weight in unet.parameters() if weight.requires_grad]
        self.trained = sum(weight.numel() for weight in self.weights)
        self.optimizer = torch.optim.AdamW(self.weights, fused=True)
        self.latents = torch.randn(batch_size, 4, 8, 8)
        with torch.no_grad():
            self.hidden = self.family.encode_text(["a red square"] * batch_size).hidden
        unet.train()

    def step(self) -> None:
        noise = torch.randn_like(self.latents)
        timesteps = torch.randint(0, 1000, (len(noise),))
        noisy = self.family.process.levels.add_noise(self.latents, noise, timesteps)
        predicted = self.family.unet(noisy, timesteps, self.hidden).sample
        torch.nn.functional.mse_loss(predicted, noise).backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def _engine_of(optimizer: torch.optim.Optimizer) -> Engine:
    return Engine(
        device=CPU,
        precision="fp32",
        updater=WeightUpdater(optimizer, rounding_seed=None, updates_independently=True),
        freeze_schedule=FreezeSchedule([]),
        gradient_clipping=1.0,
    )


def _method_of(name: str, family: StableDiffusion) -> Method:
    if name == "lora":
        section = LoraSection(rank=RANK, alpha=float(RANK), targets="attn")
        made: Method = Adapters.attach(family, section, seed=0)
    else:
        source = ModelSource(ModelFile(Path(), "folder", "sd15"))
        made = Full.attach(family, FullSection(weights="fp32"), source=source)
    made.train(True)
    return made


def _batch_source(folder: Path, family: StableDiffusion) -> tuple[Dataset, BatchSource]:
    tiny.write_images(folder / "p", [f"picture {i}" for i in range(8)])
    data = {"folder": str(folder / "p"), "resolution": 64}
    dataset = read_dataset(TrainConfig.model_validate({"data": data}))
    store, memory = Store(folder / "cache"), ImageIndex(folder / "cache")
    ways = {
        "store": store,
        "digests": encoder_digests(family),
        "progress": lambda _done, _total: None,
        "should_stop": lambda: False,
    }
    images = encode_images(
        family,
        TransformTable(dataset.items, dataset.concepts, is_plain=False),
        file_digests=memory,
        options=EncodeOptions(),
        **ways,
    )
    captions = ["", *(item.caption for item in dataset.items)]
    texts = encode_captions(family, captions, **ways)
    batch_source = BatchSource(
        images,
        texts,
        dataset.concepts,
        lambda item, _turn: plain_caption(item, dataset.concepts[item.concept]),
        "sample",
    )
    return dataset, batch_source


class _Ours:
    def __init__(self, folder: Path, method: str, batch_size: int, bare: "_Bare") -> None:
        family = tiny.family()
        dataset, batch_source = _batch_source(folder, family)
        made = _method_of(method, family)
        optimizer = build_optimizer(AdamW(), made.parameter_groups())
        self.weights = named_parameters(made.parameter_groups()).values()
        portions = concept_slices(dataset, is_cached=True)
        plan = BatchPlan(portions, batch_size=batch_size, accumulation=1, seed=0)
        batches = Batches(batch_source, plan)
        objective = Denoising(family, section=DenoisingSection(), device=CPU)
        draw = partial(objective.draw, seed=0)
        threads = reading_threads(Data().loader_threads, CPU, decodes_images=False)
        loader = Loader(
            batches,
            lambda each, step: draw(each, step=step),
            threads=threads,
            at_once=AT_ONCE,
            steps=10**9,
        )
        engine = _engine_of(optimizer)
        self.events = EventWriter(folder / "events.jsonl")
        self.inbox = Inbox(folder / "commands.jsonl")
        self.state = TrainState()
        self.reporting: list[float] = []
        self.around: list[float] = []
        self.turns = _Turns(bare, loader)
        accumulate = Accumulation(alone(), self.turns, engine)
        self.parts = {
            "state": self.state,
            "seed_of": lambda _step: 0,
            "plan": batches,
            "compute": EagerStep(self.state, objective, made, engine, accumulate),
            "engine": engine,
            "world": alone(),
            "optimizer": optimizer,
            "ema": None,
            "lr_multiplier": lambda _step: 1.0,
            "inbox": self.inbox,
            "tasks": (),
        }

    def run(self, steps: int) -> None:
        report = Reporter(self.events, device=CPU, total_steps=steps, on_broken=lambda _: None)
        compute = self.parts["compute"]
        computing, whole = [], []
        timed = {"compute": _timed(compute, computing)}
        trainer = Trainer(steps=steps, report=report, **{**self.parts, **timed})
        report.progress = _timed(report.progress, self.reporting)  # type: ignore[method-assign]
        object.__setattr__(trainer, "step", _timed(trainer.step, whole))
        trainer.run()
        self.around = [
            total - other - reporting
            for total, other, reporting in zip(whole, computing, self.reporting, strict=True)
        ]

    def close(self) -> None:
        self.inbox.close()
        self.events.close()


if __name__ == "__main__":
    main()
