"""Where and in which number format training computes, and what trades memory for time."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui

Precision = Literal["fp32", "bf16", "fp16"]
VaePrecision = Literal["auto", "fp32", "bf16", "fp16"]
Checkpointing = Literal["off", "selective", "block", "auto"]
Quantization = Literal["none", "int8", "fp8", "nf4"]
OffloadDevice = Literal["cpu", "same"]


class QuantizedLayers(Section):
    """Linear layers that are kept in few bits."""

    pattern: Annotated[
        str, Field(min_length=1, max_length=500), Ui("Layers named", search="regex filter")
    ] = "attn"
    """A part of the layers' names, or a regular expression that is found in them. Names are like
    "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"."""


class Hardware(Section):
    """The device, its precision, and what trades memory for time."""

    device: Annotated[
        Literal["auto", "cuda", "cpu"],
        Ui(
            "Device",
            level="advanced",
            search="gpu",
            choices={"auto": "automatic", "cuda": "graphics card", "cpu": "processor"},
        ),
    ] = "auto"
    """Where training runs; "auto" takes the graphics card if there is one."""

    threads: Annotated[
        int,
        Field(ge=0, le=1024),
        Ui("CPU threads", level="advanced", zero="one for each core", search="cores"),
    ] = 0
    """How many threads the processor's share of the work uses; 0 means one for every core."""

    precision: Annotated[Precision, Ui("Precision", search="dtype mixed fp16 bf16")] = "bf16"
    """The number format of computing. Losses are fp32 in every case; trained weights are, too, but
    for a model's own, which "Trained weights as" keeps in fp32 or bf16."""

    vae_precision: Annotated[
        VaePrecision,
        Ui(
            "VAE precision",
            level="advanced",
            search="vae dtype fp16 fix no-half",
            choices={"auto": "automatic"},
        ),
    ] = "auto"
    """The number format of the VAE where it does not train. "auto" is fp32: the VAEs of Stable
    Diffusion were trained in it, and SDXL's turns pictures black in fp16."""

    tf32: Annotated[bool, Ui("Fast fp32 (TF32)", level="advanced", search="tf32 tensor cores")] = (
        True
    )
    """Lets cards since the RTX 30 compute fp32 products with 10 bits of fraction, several times
    faster and a little less exact; it changes nothing in bf16 and fp16."""

    gradient_checkpointing: Annotated[
        Checkpointing,
        Ui(
            "Gradient checkpointing",
            search="memory vram activation recompute oom out of memory will it fit plan",
            lead="What saves memory, the cheapest first. “Will it fit?” counts what it comes to.",
            choices={
                "off": "off",
                "selective": "repeat cheap operations",
                "block": "repeat whole blocks",
                "auto": "automatic",
            },
        ),
    ] = "off"
    """Saves memory by computing parts of the forward pass twice. "selective" repeats norms and
    activations alone, which costs little; "block" repeats everything, which saves most and costs
    about a third more time; "auto" takes the fastest one that fits into the free memory."""

    vae_tiling: Annotated[bool, Ui("Decode in tiles", search="vae tiling vram memory")] = False
    """Decodes samples piece by piece, which saves several GB at 1024 px; seams may show."""

    quantization: Annotated[
        Quantization,
        Ui(
            "Frozen weights in",
            search="quantise quantize fp8 int8 nf4 4-bit base vram memory",
            choices={"none": "the precision above"},
        ),
    ] = "none"
    """The number format of the frozen linear layers under adapters and words; "none" is that of
    computing. int8 and fp8 take half of it and nf4 a quarter. Training gets slower; what the model
    makes of a text changes little with int8, more with fp8 and nf4."""

    quantized_layers: Annotated[
        tuple[QuantizedLayers, ...],
        Field(max_length=64),
        Ui(
            "Only these layers",
            level="advanced",
            search="quantization pattern",
            only_with={"hardware.quantization": ("int8", "fp8", "nf4")},
        ),
    ] = ()
    """Which linear layers are quantized; none named means all of the UNet and of the text encoders
    that do not train."""

    offload_layers: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Layers in main memory",
            unit="of all",
            zero="none",
            search="offload low vram memory blocks swap",
            lead="What waits in main memory and comes when it is needed: saves most, costs time.",
        ),
    ] = 0.0
    """The share of the UNet's and text encoders' layers that wait in main memory and are copied to
    the card when they are needed; from 0 to 1. It saves their size, and time grows with it."""

    offload_device: Annotated[
        OffloadDevice,
        Ui(
            "Waiting parts",
            level="advanced",
            search="temp device evict text encoder vae offload vram memory",
            choices={"cpu": "in main memory", "same": "stay on the device"},
        ),
    ] = "cpu"
    """Where the text encoders and the VAE wait while nothing needs them. "same" keeps them on the
    device, which saves the moments of moving them and takes up to 2 GB with SDXL."""

    offload_activations: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Activations in main memory",
            unit="of all",
            level="advanced",
            zero="none",
            search="offload cpu activations vram memory",
        ),
    ] = 0.0
    """The share of activations (what each block needs for the backward pass) that waits in main
    memory; from 0 to 1. Of use with large pictures and batches; costs time."""

    prefetch: Annotated[
        bool,
        Ui("Fetch ahead (experimental)", level="advanced", search="prefetch offload stream"),
    ] = False
    """Fetches the next layer while this one is computed. Experimental: it has not run on a graphics
    card yet. Off fetches each one when it is needed."""
