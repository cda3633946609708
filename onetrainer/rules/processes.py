"""Rules of runs that several processes share."""

from collections.abc import Iterator

from onetrainer.config.run.hardware import device_names, process_count
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning

_PATH, _ACCUMULATION = "hardware.processes", "training.accumulation"


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of the number of processes."""
    hardware = config.hardware
    devices = len(device_names(hardware.device))
    count = process_count(hardware.device, hardware.processes)
    if devices > 1 and count != devices:
        yield Problem(
            _PATH,
            f"{count} processes do not fit a list of {devices} devices",
            "Expected one process for each device",
            "Set it to 0, or change hardware.device.",
            fix=Fix(_PATH, 0),
        )
    if count > 1 and hardware.device == "mps":
        yield Problem(
            _PATH,
            "a computer has one Apple GPU only",
            "Expected one process on it",
            "Set it to 0.",
            fix=Fix(_PATH, 0),
        )
    yield from step_problems(config, count)


def step_problems(config: TrainConfig, count: int) -> Iterator[Problem]:
    """Yield why so many processes cannot share the steps of a config."""
    accumulation = config.training.accumulation
    if count > 1 and config.optimizer.is_fused:
        yield Problem(
            "optimizer.fused_backward",
            "the fused backward pass updates weights before other processes' gradients are known",
            f"Expected it off with {count} processes",
            "Turn it off, or train in one process.",
            fix=Fix("optimizer.fused_backward", False),
        )
    elif accumulation < count:
        yield Problem(
            _ACCUMULATION,
            f"{count} processes share the microbatches of a step, and a step has {accumulation}",
            "Expected at least one for each process",
            f"Set it to {count}; a smaller training.batch_size keeps the images of a step.",
            fix=Fix(_ACCUMULATION, count),
        )
    elif accumulation % count:
        yield warning(
            _ACCUMULATION,
            f"{accumulation} microbatches do not divide evenly among {count} processes",
            "Some processes wait for others in every step",
            f"Choose a multiple of {count}.",
            to=-(-accumulation // count) * count,
        )
