"""Rules of weights that are sharded among the processes of a run."""

from collections.abc import Iterator

from onetrainer.concepts.base_predictions import needs_base_predictions
from onetrainer.config.methods.full import Full
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.run.hardware import process_count
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning

PATH = "hardware.sharding"
_OFF = Fix(PATH, "none")
_TURN_OFF = "or turn sharding off."


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield what cannot be sharded."""
    hardware = config.hardware
    if hardware.sharding == "none":
        return
    if not isinstance(config.method, Full):
        yield Problem(
            PATH,
            f"{config.method.title} trains few weights of its own, and the model's stay whole",
            "Expected fine-tuning (method.kind) with sharding",
            "Turn it off; quantization or layer offload make the model smaller.",
            fix=_OFF,
        )
        return
    if process_count(hardware.device, hardware.processes) == 1:
        yield warning(
            PATH,
            "one process has nothing to share out, unless another program starts several",
            "Expected several GPUs (hardware.device) or processes (hardware.processes)",
            "Choose several, " + _TURN_OFF,
            fix=_OFF,
        )
    yield from _steps(config)
    yield from _memory(config)


def _steps(config: TrainConfig) -> Iterator[Problem]:
    """Yield parts of a step that need whole weights, or something else of each process."""
    if not config.optimizer.updates_elementwise:
        yield Problem(
            "optimizer.kind",
            f"{config.optimizer.title} computes with whole weights or blocks of them, of which each"
            " process has some rows only",
            "Expected AdamW, Adam, SGD, Lion, ADOPT, AdEMAMix or a schedule-free one with"
            " hardware.sharding",
            "Choose another optimizer, " + _TURN_OFF,
            choices=(Fix("optimizer.kind", "adamw"), _OFF),
        )
    if not isinstance(config.objective, Denoising):
        yield Problem(
            "objective.kind",
            "generating images within a step has not been made to work with sharded weights",
            "Expected denoising with hardware.sharding",
            "Choose it, " + _TURN_OFF,
            choices=(Fix("objective.kind", "denoising"), _OFF),
        )
    elif needs_base_predictions(config):
        yield Problem(
            PATH,
            "the base model's own predictions need a second copy of all weights in each process",
            "Expected no images trained on them, nor masks with a prior weight",
            "Remove those (data.concepts, objective.prior, objective.mask), " + _TURN_OFF,
            fix=_OFF,
        )
    if config.embeddings.tokens:
        yield Problem(
            "embeddings.tokens",
            "token embeddings are not sharded",
            "Expected none with hardware.sharding",
            "Remove them, " + _TURN_OFF,
            fix=_OFF,
        )


def _memory(config: TrainConfig) -> Iterator[Problem]:
    """Yield what else moves weights, or scales gradients."""
    hardware = config.hardware
    if hardware.precision == "fp16":
        yield Problem(
            "hardware.precision",
            "fp16's loss scale is decided by whole gradients, of which each process has a part",
            "Expected bf16 or fp32 with hardware.sharding",
            "Choose bf16, " + _TURN_OFF,
            choices=(Fix("hardware.precision", "bf16"), _OFF),
        )
    for path, fraction in (
        ("hardware.offload_layers", hardware.offload_layers),
        ("hardware.offload_activations", hardware.offload_activations),
    ):
        if fraction:
            yield Problem(
                path,
                "sharded layers are gathered from other processes, not from RAM",
                "Expected 0 with hardware.sharding",
                "Set it to 0, " + _TURN_OFF,
                choices=(Fix(path, 0.0), _OFF),
            )
