"""Rules of precision, quantization and offloading."""

import re
from collections.abc import Iterator

from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec
from onetrainer.families.spec import FamilySpec

_OFFLOADS = {"hardware.offload_layers": "layers", "hardware.offload_activations": "activations"}


def problems(config: TrainConfig) -> list[Problem]:
    """Return problems of precision, quantization and offloading."""
    return [
        *_vae_precision(config),
        *_quantization(config),
        *_patterns(config),
        *_offload(config),
        *_prefetch(config),
    ]


def _vae_precision(config: TrainConfig) -> Iterator[Problem]:
    path, precision = "hardware.vae_precision", config.hardware.vae_precision
    if precision == "auto":
        return
    if isinstance(config.method, Vae):
        yield Problem(
            path,
            f"a VAE that is trained uses the weight precision ({config.method.weights})",
            "This setting is for a VAE that is not trained",
            'Choose "auto".',
            "warning",
            Fix(path, "auto"),
        )
    elif precision == "fp16" and (spec := family_spec(config.model.family)).fp16_vae:
        yield _vae_overflow(path, spec, has_own=bool(config.model.vae))


def _vae_overflow(path: str, spec: FamilySpec, *, has_own: bool) -> Problem:
    family = FAMILY_LABELS[base_of(spec.name)]
    what = f"{family}'s VAE exceeds the range of fp16, and images turn black"
    if not has_own:
        return Problem(
            path,
            what,
            f"Expected fp32 or bf16 with {family}, or a VAE made for fp16 (model.vae)",
            'Choose "auto", which is fp32.',
            choices=(Fix(path, "auto"), Fix(path, "bf16")),
        )
    return Problem(
        path,
        what,
        f"Only a VAE made for fp16 ({spec.fp16_vae}) works",
        'Choose "auto" unless the VAE of model.vae is one.',
        "warning",
        Fix(path, "auto"),
    )


def _quantization(config: TrainConfig) -> Iterator[Problem]:
    path, precision = "hardware.quantization", config.hardware.quantization
    if precision == "none":
        return
    off = Fix(path, "none")
    match config.method:
        case Full(unet=unet) if unet.train:
            yield Problem(
                path,
                f"the UNet's own weights are trained and cannot be stored in {precision}: updates"
                " would be lost in rounding",
                "Expected no quantization, or an adapter as the method",
                "Turn it off, or choose LoRA or another adapter as the method.",
                fix=off,
            )
        case Vae():
            yield warning(
                path,
                "only the VAE is trained, and it is not quantized",
                "Quantization is for a frozen UNet and text encoders with adapters or embeddings",
                "Turn it off.",
                fix=off,
            )


def _patterns(config: TrainConfig) -> Iterator[Problem]:
    for number, layers in enumerate(config.hardware.quantized_layers):
        try:
            re.compile(layers.pattern)
        except re.error as error:
            yield Problem(
                f"hardware.quantized_layers.{number}.pattern",
                f'"{layers.pattern}" is not a regular expression ({error})',
                "Expected a part of the layers' names",
                "Put a backslash before special characters: . * + ? ( ) [ ]",
            )


def _offload(config: TrainConfig) -> Iterator[Problem]:
    hardware = config.hardware
    fractions = dict(zip(_OFFLOADS, (hardware.offload_layers, hardware.offload_activations),
                      strict=True))  # fmt: skip
    for path, what in _OFFLOADS.items():
        if not fractions[path]:
            continue
        if hardware.device == "cpu":
            yield warning(
                path,
                f"on the CPU, all {what} are in RAM anyway",
                "Offloading saves GPU memory",
                "Set it to 0.",
                to=0.0,
            )
        elif hardware.offload_device == "same":
            yield warning(
                path,
                f"{what} cannot be offloaded while the offload device is the GPU"
                " (hardware.offload_device)",
                'Expected "RAM" as the offload device',
                "Set the offload device to RAM, or set this to 0.",
                choices=(Fix("hardware.offload_device", "cpu"), Fix(path, 0.0)),
            )
    if hardware.offload_layers and hardware.device != "cpu":
        yield from _offloaded_layers(config)


def _offloaded_layers(config: TrainConfig) -> Iterator[Problem]:
    path, hardware = "hardware.offload_layers", config.hardware
    if isinstance(config.method, Full):
        yield warning(
            path,
            "trained weights in RAM are updated by the CPU, which makes every step slower",
            "Their optimizer state is in RAM, too",
            "Lower it as far as the memory allows.",
        )
    if hardware.offload_layers == 1 and hardware.gradient_checkpointing == "selective":
        yield warning(
            "hardware.gradient_checkpointing",
            "offloaded layers always use full checkpointing, and here all layers are offloaded",
            "No layer is left for selective checkpointing",
            "Choose full checkpointing, or lower hardware.offload_layers.",
            to="block",
        )


def _prefetch(config: TrainConfig) -> Iterator[Problem]:
    hardware, path = config.hardware, "hardware.prefetch"
    if not hardware.prefetch:
        return
    if not (hardware.offload_layers or hardware.offload_activations) or hardware.device == "cpu":
        yield warning(
            path,
            "nothing is offloaded, so there is nothing to prefetch",
            "It needs layer or activation offload, and a GPU",
            "Turn it off.",
            to=False,
        )
        return
    yield warning(
        path,
        "prefetching is experimental: it has not been tested on GPUs yet",
        "Off copies the same layers when they are needed",
        "Turn it off if losses jump or the program crashes.",
        to=False,
    )
