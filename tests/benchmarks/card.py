"""The card set: `python -m tests.benchmarks.card CALL`, on a computer with an NVIDIA GPU.

Written for one, and **never run on one yet**: `docs/benchmarks.md` says what is predicted. Each
call takes less than nine minutes, reads no model (weights are random, which changes no speed), and
prints a line of JSON for each case, after one of the machine:

1. which operations give the same bits twice, with and without deterministic algorithms; SD 1.5;
2. SDXL, LoRA;
3. SDXL, full fine-tuning, and the ways of saving memory;
4. what peers do, beside ours: diffusers with peft's LoRA, autocast, the loss read at every step;
5. whole runs of the tests' tiny model: the same bits after a kill, and steps per second with and
   without recorded steps.

ms: of the median step, by the GPU's clock. host_ms: what the processor takes to launch a step; a
step whose host_ms is as long as its ms waits for Python.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, perf_counter
from typing import Any

import torch
from diffusers.models.attention_processor import AttnProcessor2_0
from torch import nn
from torch.nn import functional

from modules.assembly.method import attach, objective_of
from modules.assembly.optimizer import weight_updater_of
from modules.assembly.placement import autocast_of, manage, residency_of, storage_dtypes
from modules.families.load import empty
from modules.families.stable_diffusion import StableDiffusion
from modules.jobs.train import train
from modules.memory.determinism import determinism
from modules.memory.precision import apply_tf32
from modules.memory.tensors import on_device
from modules.methods.model_source import ModelSource
from modules.optim.build import build_optimizer
from modules.optim.freeze_schedule import FreezeSchedule
from modules.training.engine import Engine
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import family_spec
from onetrainer.model_files.kinds import ModelFile
from onetrainer.run.events import Progress
from tests import runs
from tests.benchmarks.cpu import machine, say
from tests.benchmarks.memory import batch
from tests.own_user import own_user

GPU = torch.device("cuda", 0)
WARM_UP, LEAST, SECONDS = 10, 30, 15.0
LIMIT = 520.0
SIDES = {"sd15": 512, "sdxl": 1024}
LORA = {"kind": "lora", "rank": 16, "alpha": 16.0, "targets": "attn"}
WHOLE_STEPS = 60


@dataclass(frozen=True)
class Case:
    """A run whose steps are measured; hardware and others: changes of its config's sections."""

    family: str
    method: dict[str, Any]
    batch_size: int = 1
    hardware: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def config(self) -> TrainConfig:
        training = {"batch_size": self.batch_size, **self.others.get("training", {})}
        sections = {
            "model": {"family": self.family},
            "data": {"resolution": SIDES[self.family]},
            "method": self.method,
            "hardware": {"device": "cuda", "precision": "bf16", **self.hardware},
        }
        return TrainConfig.model_validate({**sections, **self.others, "training": training})

    @property
    def title(self) -> str:
        changes = {**self.hardware, **self.others}
        kind = f"{self.method['kind']} {self.method.get('targets', self.method.get('weights'))}"
        return f"{self.family} {kind} batch {self.batch_size} {changes or ''}".strip()


FUSED = {
    "optimizer": {"kind": "adamw", "fused_backward": True},
    "training": {"gradient_clipping": 0.0},
}
FULL = {"kind": "full", "weights": "bf16"}
CALLS = {
    1: [
        *[Case("sd15", LORA, size) for size in (1, 4, 16)],
        *[Case("sd15", {**FULL, "weights": weights}, 8) for weights in ("fp32", "bf16")],
    ],
    2: [
        *[Case("sdxl", LORA, size) for size in (1, 4)],
        Case("sdxl", {**LORA, "targets": "attn-mlp"}),
        *[
            Case("sdxl", LORA, hardware={"gradient_checkpointing": way})
            for way in ("selective", "block")
        ],
    ],
    3: [
        Case("sdxl", FULL),
        Case("sdxl", FULL, others=FUSED),
        Case("sdxl", FULL, hardware={"gradient_checkpointing": "block"}),
        *[
            Case(
                "sdxl",
                FULL,
                hardware={
                    "gradient_checkpointing": "block",
                    "offload_layers": 0.5,
                    "prefetch": way,
                },
            )
            for way in (False, True)
        ],
    ],
    4: [Case("sd15", LORA, 4), Case("sdxl", LORA)],
}


class Ours:
    """The program's step with its own method, objective, engine and optimizer.

    Its inputs stay the same and are on the GPU, so that only computing is measured.
    """

    def __init__(self, config: TrainConfig, stack: ExitStack) -> None:
        name, family = config.model.family, new_family(config)
        attached = attach(config, family, ModelSource(ModelFile(Path(), "folder", name)))
        self.unet, self.method = family.unet, attached.method
        layers = manage(config, family, device=GPU)
        stack.callback(layers.undo)
        stack.enter_context(residency_of(config, attached, layers, device=GPU).phase("training"))
        self.objective = objective_of(config, attached, device=GPU)
        groups = self.method.parameter_groups()
        self.engine = Engine(
            device=GPU,
            precision=config.hardware.precision,
            updater=weight_updater_of(config, build_optimizer(config.optimizer, groups)),
            freeze_schedule=FreezeSchedule(groups),
            gradient_clipping=config.training.gradient_clipping,
            autocast=partial(autocast_of, config, GPU),
        )
        if config.optimizer.is_fused:
            self.engine.enable_fused_backward()
        self.method.train(True)
        drawn = self.objective.draw(batch(config, family), seed=0, step=0)
        self.inputs = on_device(drawn, GPU)
        self.made = 0

    def step(self) -> None:
        self.engine.begin(self.made)
        self.method.begin_microbatch()
        with self.engine.autocast():
            loss = self.objective.compute(self.inputs)
        self.engine.backward(loss.value)
        self.engine.clip_gradients()
        self.engine.step()
        self.method.after_step()
        self.made += 1


class Peer:
    """The step of the usual scripts: peft's LoRA in float32 under autocast, and a loss read."""

    def __init__(self, case: Case) -> None:
        from peft import LoraConfig

        self.unet = new_family(case.config()).unet.to(GPU)
        self.unet.set_attn_processor(AttnProcessor2_0())
        self.unet.requires_grad_(False)
        targets = ["to_q", "to_k", "to_v", "to_out.0"]
        self.unet.add_adapter(LoraConfig(r=16, lora_alpha=16, target_modules=targets))
        self.weights = [weight for weight in self.unet.parameters() if weight.requires_grad]
        for weight in self.weights:
            weight.data = weight.data.float()
        self.optimizer = torch.optim.AdamW(self.weights, lr=1e-4)
        side, width = SIDES[case.family] // 8, self.unet.config.cross_attention_dim
        count = case.batch_size
        self.latents = torch.randn(count, 4, side, side, device=GPU)
        self.hidden = torch.randn(count, 77, width, device=GPU, dtype=torch.bfloat16)
        self.added = {
            "text_embeds": torch.randn(count, 1280, device=GPU, dtype=torch.bfloat16),
            "time_ids": torch.full((count, 6), 1024.0, device=GPU),
        }
        self.is_sdxl = case.family == "sdxl"

    def step(self) -> None:
        noise = torch.randn_like(self.latents)
        timesteps = torch.randint(0, 1000, (len(noise),), device=GPU)
        with torch.autocast(GPU.type, dtype=torch.bfloat16):
            predicted = self.unet(
                self.latents + noise,
                timesteps,
                self.hidden,
                added_cond_kwargs=self.added if self.is_sdxl else None,
            ).sample
            loss = functional.mse_loss(predicted.float(), noise)
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.item()


def main() -> None:
    call, began = int(sys.argv[1]), monotonic()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA GPU that torch can use")
    apply_tf32(True)
    with determinism("on", GPU):  # sets what cuBLAS reads at its first product
        pass
    say({**machine(), "gpu": torch.cuda.get_device_name(GPU), "call": call})
    if call == 1:
        for line in repeatable():
            say(line)
    if call == 5:
        with tempfile.TemporaryDirectory() as folder:
            for line in whole_runs(Path(folder)):
                say(line)
    for case in CALLS.get(call, []):
        if monotonic() - began > LIMIT:
            say({"benchmark": "card", "case": case.title, "skipped": "no time left"})
            continue
        try:
            for line in measured(case, with_peer=call == 4):
                say({"benchmark": "card", "case": case.title, **line})
        except RuntimeError as error:  # also a lack of memory: the other cases go on
            say({"benchmark": "card", "case": case.title, "failed": str(error)[:300]})
        torch.cuda.empty_cache()


def measured(case: Case, *, with_peer: bool) -> Iterator[dict[str, Any]]:
    """Time a case's step as it is, with measured convolutions, and with channels last."""
    with ExitStack() as stack:
        ours = Ours(case.config(), stack)
        yield {"way": "as it is", **timed(ours.step, case.batch_size)}
        with determinism("on", GPU):
            yield {"way": "deterministic", **timed(ours.step, case.batch_size)}
        with determinism("off", GPU):
            yield {"way": "measured convolutions", **timed(ours.step, case.batch_size)}
            # The state of weights that train keeps its layout, which fused kernels refuse.
            if case.method["kind"] == "lora" and not case.hardware.get("offload_layers"):
                ours.unet.to(memory_format=torch.channels_last)
                yield {"way": "and channels last", **timed(ours.step, case.batch_size)}
    if with_peer:
        yield {"way": "peer", **timed(Peer(case).step, case.batch_size)}


def timed(step: Callable[[], None], batch_size: int) -> dict[str, Any]:
    """Make steps, and return what they take."""
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    marks, start = [_mark()], perf_counter()
    while len(marks) <= LEAST and perf_counter() - start < SECONDS:
        step()
        marks.append(_mark())
    launched = perf_counter() - start
    torch.cuda.synchronize()
    wall, count = perf_counter() - start, len(marks) - 1
    each = [one.elapsed_time(other) for one, other in pairwise(marks)]
    return {
        "ms": round(median(each), 2),
        "p90": round(quantiles(each, n=10)[-1], 2),
        "host_ms": round(launched / count * 1000, 2),
        "images_per_second": round(count * batch_size / wall, 2),
        "allocated_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        "reserved_gib": round(torch.cuda.max_memory_reserved() / 2**30, 2),
    }


def _mark() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def repeatable() -> Iterator[dict[str, Any]]:
    """Compute gradients three times: are their bits the same?"""
    for setting in ("auto", "on", "off"):
        with determinism(setting, GPU):
            made = [_gradients() for _ in range(3)]
        same = {
            name: all(torch.equal(one[name], made[0][name]) for one in made) for name in made[0]
        }
        yield {"benchmark": "same bits", "deterministic": setting, **same}


def _gradients() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    new = partial(torch.randn, device=GPU, dtype=torch.bfloat16, requires_grad=True)
    leaves = {name: new(2, 10, 1024, 64) for name in ("query", "key", "value")}
    functional.scaled_dot_product_attention(*leaves.values()).square().sum().backward()
    image, weight = new(2, 320, 64, 64), new(320, 320, 3, 3)
    functional.conv2d(image, weight, padding=1).square().sum().backward()
    leaves |= {"image": image, "weight": weight}
    return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def whole_runs(folder: Path) -> Iterator[dict[str, Any]]:
    """Train, resume from the middle, and compare; then time runs with and without recordings."""
    config = runs.write_project(folder)
    for setting in ("on", "auto"):
        hardware = {"device": "cuda", "precision": "bf16", "deterministic": setting}
        files = []
        for is_resumed in (False, True):
            run = runs.new_run(config, hardware=hardware)
            assert train(run) == 0
            if is_resumed:  # as after a kill between the checkpoints of steps 3 and 6
                run.checkpoint(6).rename(folder / f"step-6-{setting}")
                assert train(run) == 0
            files.append((run.output / "my-lora.safetensors").read_bytes())
        yield {"benchmark": "resume", "deterministic": setting, "same_bytes": files[0] == files[1]}
    for captures in (False, True):
        hardware = {"device": "cuda", "precision": "bf16", "capture": captures}
        run = runs.new_run(config, hardware=hardware, training={"steps": WHOLE_STEPS})
        start = perf_counter()
        assert train(run) == 0
        made = [event for event in runs.events_of(run) if isinstance(event, Progress)]
        yield {
            "benchmark": "whole run",
            "capture": captures,
            "seconds": round(perf_counter() - start, 2),
            "loss": made[-1].loss,
        }


def new_family(config: TrainConfig) -> StableDiffusion:
    """Build a family in host memory, with small random weights: zeros would be computed faster."""
    name = config.model.family
    family = empty(family_spec(name), configs=None, dtypes=storage_dtypes(config))
    for part in (family.unet, family.vae, *family.text_encoders.values()):
        part.to_empty(device="cpu")
    with torch.no_grad():
        for weight in family.unet.parameters():
            weight.normal_(std=0.02)
    return family


if __name__ == "__main__":
    with own_user():
        main()
