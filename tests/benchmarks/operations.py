"""Operations that a training step dispatches, by phase: what a GPU's host has to launch.

`python -m tests.benchmarks.operations [NAME ...]`, about ten seconds each. The real architectures
on the simulated GPU of the forecast, with the program's own objective, engine and optimizer, in a
step that finds the optimizer's state. What only makes views, reserves memory or marks a profile
launches nothing and is not counted; nor are the random numbers, which the host draws. Attention is
one operation, as on a GPU.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from modules.assembly.method import objective_of
from modules.assembly.optimizer import weight_updater_of
from modules.assembly.placement import autocast_of
from modules.forecast.model import build_model, staged
from modules.forecast.phases import _batch
from modules.meta_device.device import DEVICE
from modules.objectives.inputs import loss_of
from modules.optim.build import build_optimizer
from modules.optim.freeze_schedule import FreezeSchedule
from modules.training.engine import Engine
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.presets.presets import resolve
from tests.benchmarks.lines import say
from tests.own_user import own_user

LORA = {"kind": "lora", "rank": 16, "alpha": 16.0, "targets": "attn"}
FULL = {"kind": "full", "weights": "bf16"}
FUSED = {"kind": "adamw", "fused_backward": True}


@dataclass(frozen=True)
class Case:
    """A run's step; budget: the most operations that it may take."""

    family: str
    side: int
    budget: int
    sections: dict[str, Any]


CASES = {
    "sd15 lora": Case("sd15", 512, 2400, {"method": LORA}),
    "sd15 full": Case("sd15", 512, 2200, {"method": FULL}),
    "sdxl lora": Case("sdxl", 1024, 8100, {"method": LORA}),
    "sdxl full": Case("sdxl", 1024, 4900, {"method": FULL}),
    "sd15 full, fused backward pass": Case(
        "sd15",
        512,
        2700,
        {"method": FULL, "optimizer": FUSED, "training": {"gradient_clipping": 0.0}},
    ),
}
# Views, memory without contents, profiles, and what the host draws.
_NOT_LAUNCHED = frozenset(
    """
    view _unsafe_view t transpose permute expand slice split unsqueeze squeeze detach alias select
    as_strided chunk unbind split_with_sizes _reshape_alias reshape unflatten lift_fresh
    is_same_size empty empty_like new_empty new_empty_strided empty_strided
    _record_function_enter_new _record_function_exit randn normal_
    """.split()  # noqa: SIM905 - a list of strings would take a line for each
)


class Operations(TorchDispatchMode):
    """Counts operations by phase and name."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = ""
        self.counts: dict[str, Counter[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        if name not in _NOT_LAUNCHED:
            self.counts.setdefault(self.phase, Counter())[name] += 1
        return func(*args, **(kwargs or {}))


def config_of(case: Case) -> TrainConfig:
    training = {"steps": 100, "batch_size": 1, "gradient_clipping": 1.0}
    return resolve(
        {
            "version": 9,
            "model": {"family": case.family, "path": "/none"},
            "data": {"folder": "/", "resolution": case.side},
            "hardware": {"device": "cuda", "precision": "bf16"},
            "sampling": {"every": 0, "at_start": False, "at_end": False},
            "validation": {"use": False},
            **case.sections,
            "training": training | case.sections.get("training", {}),
        },
        source="operations",
    )


def count(case: Case) -> dict[str, Counter[str]]:
    """The operations of a step by phase and name."""
    config, bucket = config_of(case), Bucket(case.side, case.side)
    with build_model(config, "cuda") as model, staged(model, config, bucket=bucket) as stage:
        method = stage.model.attached.method
        objective = objective_of(config, stage.model.attached, device=DEVICE)
        groups = method.parameter_groups()
        optimizer = build_optimizer(config.optimizer, groups)
        updater = weight_updater_of(config, optimizer)
        engine = Engine(
            device=DEVICE,
            precision=config.hardware.precision,
            updater=updater,
            freeze_schedule=FreezeSchedule(groups),
            gradient_clipping=config.training.gradient_clipping,
            autocast=partial(autocast_of, config, DEVICE),
        )
        method.train(True)
        for weight in updater.parameters:
            weight.grad = torch.zeros_like(weight)
        updater.begin(0)
        updater.update_all()
        optimizer.zero_grad()
        if config.optimizer.is_fused:
            engine.enable_fused_backward()
        batch = _batch(stage)
        with Operations() as operations:
            engine.begin(1)
            operations.phase = "forward"
            method.begin_microbatch()
            with engine.autocast():
                loss = loss_of(objective, batch, seed=0, step=1, device=DEVICE)
            operations.phase = "backward"
            engine.backward(loss.value)
            operations.phase = "update"
            engine.clip_gradients()
            engine.step()
            method.after_step()
    return operations.counts


def main() -> None:
    wanted = sys.argv[1:] or list(CASES)
    for name in wanted:
        start = process_time()
        counts = count(CASES[name])
        phases = {phase: sum(names.values()) for phase, names in counts.items()}
        say(
            "operations",
            case=name,
            budget=CASES[name].budget,
            operations=sum(phases.values()),
            **phases,
            most={phase: dict(names.most_common(12)) for phase, names in counts.items()},
            seconds=round(process_time() - start, 1),
        )


if __name__ == "__main__":
    with own_user():
        main()
