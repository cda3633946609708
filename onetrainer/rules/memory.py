"""Rules of precision, quantization and offloading."""

from collections.abc import Iterator

from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec
from onetrainer.rules.method import pattern_problems

_USES_RAM = {"cpu": "the CPU", "mps": "Apple's GPUs"}
"""Devices without memory of their own."""


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of precision, quantization and offloading."""
    if config.hardware.device == "mps":
        yield from _apple(config)
    yield from _vae_precision(config)
    yield from _quantization(config)
    for number, layers in enumerate(config.hardware.quantized_layers):
        yield from pattern_problems(f"hardware.quantized_layers.{number}.pattern", layers.pattern)
    if config.model.circular_padding and config.hardware.vae_tiling:
        yield Problem(
            "hardware.vae_tiling",
            "a VAE that decodes tiles cannot wrap around the edges of the image",
            "Expected it off with model.circular_padding",
            "Turn one of them off.",
            choices=(Fix("hardware.vae_tiling", False), Fix("model.circular_padding", False)),
        )
    if config.hardware.deterministic == "on" and config.hardware.attention == "cudnn":
        yield Problem(
            "hardware.attention",
            "cuDNN's attention does not compute the same bits each time",
            "hardware.deterministic asks for that",
            "Choose another kernel, or turn that off.",
            choices=(Fix("hardware.attention", "auto"), Fix("hardware.deterministic", "auto")),
        )
    yield from _offload(config)
    yield from _prefetch(config)


def _apple(config: TrainConfig) -> Iterator[Problem]:
    """Yield what does not work on Apple's GPUs, and what has not been tried there."""
    yield warning(
        "hardware.device",
        "training on Apple's GPUs has not been tested yet",
        "TF32, offloading and prefetching have no effect there",
        "Compare the losses of the first steps with those on the CPU.",
    )
    path, optimizer = "hardware.quantization", config.optimizer
    if config.hardware.quantization == "fp8":
        yield Problem(
            path,
            "Apple's GPUs have no 8-bit floating-point numbers",
            "Expected another format, or none",
            "Choose int8.",
            fix=Fix(path, "int8"),
        )
    if optimizer.target.startswith("bitsandbytes"):
        yield Problem(
            "optimizer.kind",
            f"{optimizer.title} has no kernels for Apple's GPUs (bitsandbytes)",
            "Expected an optimizer whose state is not quantized",
            "Choose AdamW or Adafactor.",
            choices=(Fix("optimizer.kind", "adamw"), Fix("optimizer.kind", "adafactor")),
        )


def _vae_precision(config: TrainConfig) -> Iterator[Problem]:
    path, precision = "hardware.vae_precision", config.hardware.vae_precision
    if precision == "auto":
        return
    if isinstance(config.method, Vae):
        yield warning(
            path,
            f"a VAE that is trained uses the weight precision ({config.method.weights})",
            "This setting is for a VAE that is not trained",
            'Choose "auto".',
            to="auto",
        )
        return
    spec = family_spec(config.model.family)
    if precision != "fp16" or not spec.fp16_vae:
        return
    family = FAMILY_LABELS[base_of(spec.name)]
    what = f"{family}'s VAE exceeds the range of fp16, and images turn black"
    if config.model.vae:
        yield warning(
            path,
            what,
            f"Only a VAE made for fp16 ({spec.fp16_vae}) works",
            'Choose "auto" unless the VAE of model.vae is one.',
            to="auto",
        )
    else:
        yield Problem(
            path,
            what,
            f"Expected fp32 or bf16 with {family}, or a VAE made for fp16 (model.vae)",
            'Choose "auto", which is fp32.',
            choices=(Fix(path, "auto"), Fix(path, "bf16")),
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


def _offload(config: TrainConfig) -> Iterator[Problem]:
    hardware = config.hardware
    offloads = (
        ("hardware.offload_layers", "layers", hardware.offload_layers),
        ("hardware.offload_activations", "activations", hardware.offload_activations),
    )
    for path, what, fraction in offloads:
        if not fraction:
            continue
        if hardware.device in _USES_RAM:
            yield warning(
                path,
                f"on {_USES_RAM[hardware.device]}, all {what} are in RAM anyway",
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
    if not hardware.offload_layers or hardware.device in _USES_RAM:
        return
    if isinstance(config.method, Full):
        yield warning(
            "hardware.offload_layers",
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
    offloads = hardware.offload_layers or hardware.offload_activations
    if not offloads or hardware.device in _USES_RAM:
        yield warning(
            path,
            "nothing is offloaded, so there is nothing to prefetch",
            "It needs layer or activation offload, and a GPU with its own memory",
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
