"""Training steps of the whole program, as a fraction of a bare loop in the same run.

`python -m tests.benchmarks.steps [lora|full]`. The bare loop is what torch and diffusers offer: the
same UNet, a LoRA of two linear layers or the weights themselves, its batch already in memory, and
nothing else: no cache, no draws by position, no events, no commands. The two take turns at every
step, on one thread, and are timed in processor seconds: a busy machine slows both alike. What the
program's other threads compute counts as the program's.
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import process_time, thread_time
from typing import Any

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from torch import nn

from modules.data.batches import Batches, BatchSource
from modules.data.cache import EncodeOptions, encode_captions, encode_images, encoder_digests
from modules.data.encoded_items import TransformTable
from modules.data.loader import Loader
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
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.caption_sampling import plain_caption
from onetrainer.dataset.dataset import read_dataset
from onetrainer.images.image_index import ImageIndex
from onetrainer.model_files.kinds import ModelFile
from onetrainer.run.event_log import EventWriter
from tests import tiny

CPU = torch.device("cpu")
RANK = 4
STEPS, WARM_UP = 150, 15
METHODS = ("lora", "full")


def main() -> None:
    torch.set_num_threads(1)
    for method in sys.argv[1:] or METHODS:
        for batch_size in (1, 4):
            with tempfile.TemporaryDirectory() as folder:
                bare, ours = measure(Path(folder), method, batch_size)
            result = {
                "benchmark": "steps",
                "method": method,
                "batch_size": batch_size,
                "fraction_of_bare_loop": round(median(bare) / median(ours), 3),
                "fraction_at_best": round(quick(bare) / quick(ours), 3),
                "bare_ms": round(median(bare) * 1000, 2),
                "overhead_ms": round((median(ours) - median(bare)) * 1000, 2),
            }
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()


def measure(folder: Path, method: str, batch_size: int) -> tuple[list[float], list[float]]:
    """The seconds of each step of the bare loop and of the program."""
    bare = _Bare(method, batch_size)
    ours = _Ours(folder, method, batch_size, bare)
    ours.run(WARM_UP + STEPS)
    ours.close()
    assert bare.trained == sum(weight.numel() for weight in ours.weights)
    return ours.turns.bare[WARM_UP:-1], ours.turns.ours[WARM_UP:]


def quick(seconds: list[float]) -> float:
    """The tenth percentile, which a busy machine changes least."""
    return quantiles(seconds, n=10)[0]


class _Turns:
    """The program's inputs, which make a step of the bare loop before each of the program's."""

    def __init__(self, bare: "_Bare", inputs: Any) -> None:
        self._step, self._inputs = bare.step, inputs
        self.bare: list[float] = []
        self.ours: list[float] = []
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
        return self._inputs.at(step)


class _LoraLinear(nn.Module):
    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.up(self.down(x))


class _Bare:
    def __init__(self, method: str, batch_size: int) -> None:
        self.family = tiny.family()
        unet = self.family.unet
        unet.set_attn_processor(AttnProcessor2_0())
        if method == "lora":
            for layer in [each for each in unet.modules() if isinstance(each, Attention)]:
                for name in ("to_q", "to_k", "to_v"):
                    setattr(layer, name, _LoraLinear(getattr(layer, name), RANK))
                layer.to_out[0] = _LoraLinear(layer.to_out[0], RANK)
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


class _Ours:
    def __init__(self, folder: Path, method: str, batch_size: int, bare: "_Bare") -> None:
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
        made = _method_of(method, family)
        optimizer = build_optimizer(AdamW(), made.parameter_groups())
        self.weights = named_parameters(made.parameter_groups()).values()
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
        Trainer(steps=steps, report=report, **self.parts).run()

    def close(self) -> None:
        self.inbox.close()
        self.events.close()


if __name__ == "__main__":
    main()
