"""Training steps per second of the whole program, as a fraction of a bare loop in the same run.

`python -m tests.benchmarks.steps`. The bare loop has the same UNet and adapters, its batch already
in memory, and nothing else: no cache, no events, no seeds, no commands. Both run on one thread, in
turns, and are timed in processor seconds, so that a busy machine gives the same.
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

import torch

from modules.data.batches import Batches, BatchSource
from modules.data.cache import EncodeOptions, encode_captions, encode_images, encoder_digests
from modules.data.encoded_items import TransformTable
from modules.data.loader import Loader
from modules.data.shards import Store
from modules.methods.adapters.adapters import Adapters
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
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.caption_sampling import plain_caption
from onetrainer.dataset.dataset import read_dataset
from onetrainer.images.image_index import ImageIndex
from onetrainer.run.event_log import EventWriter
from tests import tiny

CPU = torch.device("cpu")
STEPS, WARM_UP, TURNS = 40, 5, 5


def main() -> None:
    torch.set_num_threads(1)
    for batch_size in (1, 4):
        with tempfile.TemporaryDirectory() as folder:
            bare, ours = _Bare(batch_size), _Ours(Path(folder), batch_size)
            bare.run(WARM_UP), ours.run(WARM_UP)
            times = [(bare.run(STEPS), ours.run(STEPS)) for _ in range(TURNS)]
            ours.close()
        ratio = median(b / o for b, o in times)
        overhead = median(o - b for b, o in times) / STEPS * 1000
        result = {
            "benchmark": "steps",
            "batch_size": batch_size,
            "fraction_of_bare_loop": round(ratio, 3),
            "bare_ms": round(median(b for b, _ in times) / STEPS * 1000, 2),
            "overhead_ms": round(overhead, 2),
        }
        sys.stdout.write(json.dumps(result) + "\n")


class _Bare:
    def __init__(self, batch_size: int) -> None:
        self.family = tiny.family()
        self.method = Adapters.attach(self.family, LoraSection(rank=4, alpha=4.0), seed=0)
        self.weights = [w for g in self.method.parameter_groups() for w in g.parameters.values()]
        self.optimizer = torch.optim.AdamW(self.weights, fused=True)
        self.latents = torch.randn(batch_size, 4, 8, 8)
        with torch.no_grad():
            self.hidden = self.family.encode_text(["a red square"] * batch_size).hidden
        self.method.train(True)

    def run(self, steps: int) -> float:
        start = process_time()
        for _ in range(steps):
            noise = torch.randn_like(self.latents)
            timesteps = torch.randint(0, 1000, (len(noise),))
            noisy = self.family.process.levels.add_noise(self.latents, noise, timesteps)
            predicted = self.family.unet(noisy, timesteps, self.hidden).sample
            torch.nn.functional.mse_loss(predicted, noise).backward()
            torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return process_time() - start


def _engine_of(optimizer: torch.optim.Optimizer) -> Engine:
    return Engine(
        device=CPU,
        precision="fp32",
        updater=WeightUpdater(optimizer, rounding_seed=None, updates_independently=True),
        freeze_schedule=FreezeSchedule([]),
        gradient_clipping=1.0,
    )


class _Ours:
    def __init__(self, folder: Path, batch_size: int) -> None:
        family = tiny.family()
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
        method = Adapters.attach(family, LoraSection(rank=4, alpha=4.0), seed=0)
        method.train(True)
        optimizer = build_optimizer(AdamW(), method.parameter_groups())
        portions = concept_slices(dataset, is_cached=True)
        plan = BatchPlan(portions, batch_size=batch_size, accumulation=1, seed=0)
        batches = Batches(batch_source, plan)
        objective = Denoising(family, section=DenoisingSection(), device=CPU)
        draw = partial(objective.draw, seed=0)
        loader = Loader(batches, lambda each, step: draw(each, step=step), threads=2, steps=10**9)
        engine = _engine_of(optimizer)
        self.events = EventWriter(folder / "events.jsonl")
        self.inbox = Inbox(folder / "commands.jsonl")
        self.state = TrainState()
        accumulate = Accumulation(alone(), loader, engine)
        self.parts = {
            "state": self.state,
            "seed_of": lambda _step: 0,
            "plan": batches,
            "compute": EagerStep(self.state, objective, method, engine, accumulate),
            "engine": engine,
            "world": alone(),
            "optimizer": optimizer,
            "ema": None,
            "lr_multiplier": lambda _step: 1.0,
            "inbox": self.inbox,
            "tasks": (),
        }

    def run(self, steps: int) -> float:
        total = self.state.step + steps
        report = Reporter(self.events, device=CPU, total_steps=total, on_broken=lambda _: None)
        start = process_time()
        Trainer(steps=total, report=report, **self.parts).run()
        return process_time() - start

    def close(self) -> None:
        self.inbox.close()
        self.events.close()


if __name__ == "__main__":
    main()
