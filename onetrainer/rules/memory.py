"""What is wrong between the hardware's settings and the others."""

import re
from collections.abc import Iterator

from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.run.model import base_of
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

_OFFLOADS = {"hardware.offload_layers": "layers", "hardware.offload_activations": "activations"}


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of precision, quantization and of what trades memory for time."""
    return [
        *_vae_precision(config),
        *_quantization(config),
        *_patterns(config),
        *_offload(config),
        *_prefetch(config),
    ]


def _vae_precision(config: TrainConfig) -> Iterator[Problem]:
    place, precision = "hardware.vae_precision", config.hardware.vae_precision
    if precision == "auto":
        return
    if isinstance(config.method, Vae):
        yield Problem(
            place,
            "a VAE that trains is kept and computed in the format of its trained weights"
            f" ({config.method.weights})",
            "This setting is for a VAE that does not train",
            'Choose "auto".',
            "warning",
            Fix(place, "auto"),
        )
    elif precision == "fp16" and base_of(config.model.family) == "sdxl":
        yield _overflowing_vae(place, has_own=bool(config.model.vae))


def _overflowing_vae(place: str, *, has_own: bool) -> Problem:
    what = "numbers within SDXL's VAE go beyond what fp16 can hold: pictures turn black"
    if not has_own:
        return Problem(
            place,
            what,
            "Expected fp32 or bf16 with SDXL, or a VAE that was made for fp16 (model.vae)",
            'Choose "auto", which is fp32.',
            choices=(Fix(place, "auto"), Fix(place, "bf16")),
        )
    return Problem(
        place,
        what,
        "Only a VAE that was made for fp16 (sdxl-vae-fp16-fix) bears it",
        'Choose "auto" unless the VAE of model.vae is one.',
        "warning",
        Fix(place, "auto"),
    )


def _quantization(config: TrainConfig) -> Iterator[Problem]:
    place, kind = "hardware.quantization", config.hardware.quantization
    if kind == "none":
        return
    off = Fix(place, "none")
    match config.method:
        case Full(unet=unet) if unet.train:
            yield Problem(
                place,
                f"the UNet's own weights train, and cannot be kept in {kind}: so few digits would"
                " lose every step",
                "Expected weights as they are computed in, or adapters beside frozen ones",
                "Set it to none, or choose LoRA or another adapter as the method.",
                fix=off,
            )
        case Vae():
            yield Problem(
                place,
                "only the VAE is computed here, and it is not quantized",
                "It is for the UNet and text encoders beside which adapters or words train",
                "Set it to none.",
                "warning",
                off,
            )


def _patterns(config: TrainConfig) -> Iterator[Problem]:
    for number, layers in enumerate(config.hardware.quantized_layers):
        try:
            re.compile(layers.pattern)
        except re.error as error:
            yield Problem(
                f"hardware.quantized_layers.{number}.pattern",
                f'"{layers.pattern}" is no regular expression ({error})',
                "Expected a part of the layers' names",
                "Put a backslash before characters that mean something else: . * + ? ( ) [ ]",
            )


def _offload(config: TrainConfig) -> Iterator[Problem]:
    hardware = config.hardware
    shares = dict(zip(_OFFLOADS, (hardware.offload_layers, hardware.offload_activations),
                      strict=True))  # fmt: skip
    for place, what in _OFFLOADS.items():
        if not shares[place]:
            continue
        if hardware.device == "cpu":
            yield Problem(
                place,
                f"on the processor all {what} are in main memory anyway",
                "It saves the memory of a graphics card",
                "Set it to 0.",
                "warning",
                Fix(place, 0.0),
            )
        elif hardware.offload_device == "same":
            yield Problem(
                place,
                f"{what} cannot wait in main memory while what waits stays on the device"
                " (hardware.offload_device)",
                'Expected "in main memory" there',
                "Let waiting parts go to main memory, or set this to 0.",
                "warning",
                choices=(Fix("hardware.offload_device", "cpu"), Fix(place, 0.0)),
            )
    if hardware.offload_layers and hardware.device != "cpu":
        yield from _offloaded_layers(config)


def _offloaded_layers(config: TrainConfig) -> Iterator[Problem]:
    place, hardware = "hardware.offload_layers", config.hardware
    if isinstance(config.method, Full):
        yield Problem(
            place,
            "weights that train and wait in main memory are moved by the processor, which takes"
            " longer in every step",
            "It is the price of their statistics waiting there, too",
            "Lower it as far as the memory allows.",
            "warning",
        )
    if hardware.offload_layers == 1 and hardware.gradient_checkpointing == "selective":
        yield Problem(
            "hardware.gradient_checkpointing",
            "layers in main memory are computed twice as whole blocks, and here all layers are",
            "No layer is left for which cheap operations alone could be repeated",
            "Choose whole blocks, or lower hardware.offload_layers.",
            "warning",
            Fix("hardware.gradient_checkpointing", "block"),
        )


def _prefetch(config: TrainConfig) -> Iterator[Problem]:
    hardware, place = config.hardware, "hardware.prefetch"
    if not hardware.prefetch:
        return
    if not (hardware.offload_layers or hardware.offload_activations) or hardware.device == "cpu":
        yield Problem(
            place,
            "nothing waits in main memory that could be moved ahead of time",
            "It is of use with layers or activations in main memory, and a graphics card",
            "Turn it off.",
            "warning",
            Fix(place, False),
        )
        return
    yield Problem(
        place,
        "moving ahead of time is experimental: it has not run on a graphics card yet",
        "Off moves the same things when they are needed",
        "Turn it off if losses jump or the program ends without a word.",
        "warning",
        Fix(place, False),
    )
