"""Peak bytes of training: forecast and measured on the pretended GPU, at full size.

    python -m tests.benchmarks.memory [--family sd15] [--method lora] [--policy off] [--offload 0]

Measured is what the real run does: the model waits in host memory, parts come when their phase
begins, and two steps are made by the real engine; tensors have shapes and no numbers. Where there
is a GPU, `--cuda` measures on it instead.
"""

import argparse
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import torch

from modules.assembly.method import attach, objective_of
from modules.assembly.optimizer import (
    ema_of,
    weight_updater_of,
)
from modules.assembly.placement import autocast_of, manage, residency_of, storage_dtypes
from modules.assembly.validation_set import grid_of
from modules.evaluation.validation import ValidationImages, measure
from modules.families.load import empty
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import Batch, Conditioning, LatentMoments
from modules.memory.precision import compute_dtype
from modules.methods.model_source import ModelSource
from modules.optim.build import build_optimizer
from modules.optim.freeze_schedule import FreezeSchedule
from modules.training.engine import Engine
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import family_spec
from onetrainer.model_files.kinds import ModelFile
from tests import pretend
from tests.batches import loss_of
from tests.benchmarks.lines import say
from tests.forecasts import forecast
from tests.own_user import own_user

GIB = 1 << 30
SIDES = {"sd15": 512, "sdxl": 1024}
METHODS = {
    "lora": {"method": {"kind": "lora"}, "optimizer": {"kind": "adamw"}},
    "full": {
        "method": {"kind": "full", "weights": "bf16"},
        "optimizer": {"kind": "adafactor", "fused_backward": True},
        "training": {"gradient_clipping": 0.0},
    },
    "full-adamw": {
        "method": {"kind": "full", "weights": "fp32"},
        "optimizer": {"kind": "adamw"},
    },
}
POLICIES = ("off", "selective", "block")
FRACTIONS = (0.0, 0.5, 0.9)


@dataclass(frozen=True)
class Case:
    """A line of the table."""

    family: str
    method: str
    checkpointing: str
    offload: float

    def config(self) -> TrainConfig:
        """A run of the case, with cached images and captions."""
        document = {
            "model": {"family": self.family},
            "data": {"resolution": SIDES[self.family]},
            "hardware": {
                "precision": "bf16",
                "gradient_checkpointing": self.checkpointing,
                "offload_layers": self.offload,
            },
        }
        return TrainConfig.model_validate(document | METHODS[self.method])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=tuple(SIDES))
    parser.add_argument("--method", choices=tuple(METHODS))
    parser.add_argument("--policy", choices=POLICIES)
    parser.add_argument("--offload", type=float, choices=FRACTIONS)
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    measure = measured_on_cuda if options.cuda else measured_peak
    for case in cases(options.family, options.method):
        if options.policy not in (None, case.checkpointing):
            continue
        if options.offload not in (None, case.offload):
            continue
        began = monotonic()
        predicted = forecast_peak(case.config())
        between = monotonic()
        real = measure(case.config())
        say(
            "memory",
            case=f"{case.family} {case.method} {case.checkpointing} {case.offload:g}",
            forecast_GiB=round(predicted / GIB, 2),
            measured_GiB=round(real / GIB, 2),
            off_by=f"{predicted / real - 1:+.1%}",
            seconds=round(between - began, 1),
            measuring_seconds=round(monotonic() - between, 1),
        )


def cases(family: str | None = None, method: str | None = None) -> Iterator[Case]:
    """Every line; offloaded layers are checkpointed under every policy."""
    for own_family in SIDES if family is None else (family,):
        for own_method in METHODS if method is None else (method,):
            for policy in POLICIES:
                for fraction in FRACTIONS:
                    yield Case(own_family, own_method, policy, fraction)


def forecast_peak(config: TrainConfig) -> int:
    """The training phase's."""
    found = forecast(config)
    return sum(found.phases["training"].values())


def measured_peak(config: TrainConfig) -> int:
    """On the pretended GPU."""
    gc.collect()
    with pretend.accelerator(storage="meta") as gpu:
        train(config, after_first_step=gpu.reset_peak)
        return gpu.peak


def measured_on_cuda(config: TrainConfig) -> int:
    """On the real GPU."""
    torch.cuda.empty_cache()
    train(config, after_first_step=torch.cuda.reset_peak_memory_stats, is_real=True)
    return torch.cuda.max_memory_allocated()


def measured_phases(config: TrainConfig) -> dict[str, int]:
    """Peaks on the pretended GPU: of training, and of validation and saving after it."""
    gc.collect()
    peaks = {}
    with pretend.accelerator(storage="meta") as gpu:

        def validate_and_save(family, objective, engine, residency):
            peaks["training"] = gpu.peak
            one = ValidationImages(("a",), {"a": ""}, "", lambda _: batch(config, family, count=1))
            for phase in ("validation", "saving"):
                with residency.phase(phase), torch.no_grad():
                    gpu.reset_peak()
                    if phase == "validation":
                        measure(
                            one,
                            grid_of(config),
                            objective=objective,
                            autocast=engine.autocast,
                            at_once=config.training.batch_size,
                            before_each=lambda _: None,
                        )
                    peaks[phase] = gpu.peak

        train(config, after_first_step=gpu.reset_peak, at_end=validate_and_save)
    return peaks


def train(config: TrainConfig, *, after_first_step, is_real: bool = False, at_end=None) -> None:
    """Two steps of a run, whose model begins in host memory."""
    device, name = torch.device("cuda", 0), config.model.family
    family = empty(
        family_spec(name),
        configs=Path(config.model.path) if config.model.path else None,
        dtypes=storage_dtypes(config),
    )
    if is_real:
        for part in (family.unet, family.vae, *family.text_encoders.values()):
            part.to_empty(device="cpu")
    attached = attach(config, family, ModelSource(ModelFile(Path(), "folder", name)))
    method = attached.method
    layers = manage(config, family, device=device)
    residency = residency_of(config, attached, layers, device=device)
    with residency.phase("training"):
        objective = objective_of(config, attached, device=device)
        groups = method.parameter_groups()
        optimizer = build_optimizer(config.optimizer, groups)
        engine = Engine(
            device=device,
            precision=config.hardware.precision,
            updater=weight_updater_of(config, optimizer),
            freeze_schedule=FreezeSchedule(groups),
            gradient_clipping=config.training.gradient_clipping,
            autocast=partial(autocast_of, config, device),
        )
        ema = ema_of(config, groups)
        if config.optimizer.is_fused:
            engine.enable_fused_backward()
        method.train(True)
        for step in range(2):
            engine.begin(step)
            method.begin_microbatch()
            with engine.autocast():
                loss = loss_of(
                    objective, batch(config, family), seed=0, step=step, device=engine.device
                )
            engine.backward(loss.value)
            del loss
            engine.clip_gradients()
            engine.step()
            method.after_step()
            method.after_step()
            if ema is not None:
                ema.update(step + 1)
            if step == 0:
                after_first_step()
        if at_end is not None:
            method.train(False)
            at_end(family, objective, engine, residency)
    layers.undo()


def batch(config: TrainConfig, family: StableDiffusion, count: int = 0) -> Batch:
    """Cached images and captions."""
    side, count = config.data.resolution // 8, count or config.training.batch_size
    width = family.unet.config.cross_attention_dim
    dtype = compute_dtype(config.hardware.precision)
    pooled = torch.zeros(count, 1280, dtype=dtype) if config.model.family == "sdxl" else None
    return Batch(
        LatentMoments(torch.zeros(count, 4, side, side), torch.ones(count, 4, side, side)),
        ("a",) * count,
        ("a",) * count,
        Conditioning(torch.zeros(count, 77, width, dtype=dtype), pooled),
        torch.zeros(count, 6),
        tuple(range(count)),
        1 / count,
    )


if __name__ == "__main__":
    with own_user():
        main()
