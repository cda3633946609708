"""Settings of the device, the precision, and what trades memory for time."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from onetrainer.config.base.section import Section, Ui

Device = Literal[
    "auto", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7",
    "mps", "cpu",
]  # fmt: skip
"""A device by torch's name; AMD's GPUs are "cuda", too."""
Precision = Literal["fp32", "bf16", "fp16"]
VaePrecision = Literal["auto", "fp32", "bf16", "fp16"]
Checkpointing = Literal["off", "selective", "block", "auto"]
Quantization = Literal["none", "int8", "fp8", "nf4"]
AttentionKernel = Literal["auto", "measured", "flash", "efficient", "cudnn"]
Deterministic = Literal["auto", "on", "off"]
OffloadDevice = Literal["cpu", "same"]
Sharding = Literal["none", "full"]
_SEVERAL_GPUS = {
    "cuda:0,cuda:1": "GPUs 0 and 1",
    "cuda:0,cuda:1,cuda:2,cuda:3": "GPUs 0 to 3",
    ",".join(f"cuda:{index}" for index in range(8)): "GPUs 0 to 7",
}
_DEVICES = re.compile(r"auto|mps|cpu|cuda|cuda:\d{1,3}(,cuda:\d{1,3})*")


def device_names(device: str) -> list[str]:
    """Return the single devices of the setting "hardware.device"."""
    return device.split(",")


def process_count(device: str, processes: int) -> int:
    """Return how many processes of this computer train a run, by the settings of these names."""
    return processes or len(device_names(device))


def _joined(device: object) -> object:
    """Return a list of devices as one text, and anything else as it is."""
    return ",".join(map(str, device)) if isinstance(device, list) else device


def _checked_devices(device: str) -> str:
    names = device_names(device.replace(" ", ""))
    if not _DEVICES.fullmatch(",".join(names)) or len({*names}) < len(names):
        raise ValueError(
            '"auto", "cuda", "mps", "cpu", a GPU such as "cuda:1", or a list of several GPUs such'
            ' as "cuda:0,cuda:1"'
        )
    return ",".join(names)


class QuantizedLayers(Section):
    """Linear layers that are quantized."""

    pattern: Annotated[
        str,
        Field(min_length=1, max_length=500),
        Ui("Layer pattern", search="regex filter layers named"),
    ] = "attn"
    """A part of the layers' names, or a regular expression that is searched in them. Names look
    like "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"."""


class Hardware(Section):
    """The device, its precision, and what trades memory for time."""

    device: Annotated[
        str,
        BeforeValidator(_joined),
        AfterValidator(_checked_devices),
        Ui(
            "Device",
            level="advanced",
            search="gpu card cuda nvidia amd rocm apple mac metal multi several gpus",
            choices={
                "auto": "automatic",
                "cuda": "GPU",
                **{f"cuda:{index}": f"GPU {index}" for index in range(8)},
                **_SEVERAL_GPUS,
                "mps": "Apple GPU",
                "cpu": "CPU",
            },
        ),
    ] = "auto"
    """Where training runs. "auto" uses the GPU of NVIDIA or AMD if there is one, and the first of
    several, which is "cuda:0". A list such as cuda:0,cuda:2 trains one run on several GPUs, which
    share the microbatches of each step; several runs can also train at once, each on a GPU of its
    own. "mps" has not been tested yet."""

    processes: Annotated[
        int,
        Field(ge=0, le=1024),
        Ui(
            "Processes",
            level="advanced",
            zero="one for each device",
            search="multi several gpus distributed ddp accelerate torchrun parallel",
        ),
    ] = 0
    """How many processes of this computer train the run together, each on a device of its own; 0,
    the usual value, means one for each device above. They share the microbatches of each step, so
    "Accumulation" should be a multiple of it: more of them make a step faster, with the result of
    one process."""

    share_device: Annotated[
        bool,
        Ui("Share the device", level="advanced", search="parallel several runs at once beside"),
    ] = False
    """Trains beside whatever else uses the device, for several small runs on a large GPU. Off, the
    usual, waits until the GPU is free, and lets others wait; a processor is always shared."""

    sharding: Annotated[
        Sharding,
        Ui(
            "Sharding",
            level="advanced",
            search="fsdp fsdp2 fully shard zero deepspeed split several gpus memory vram"
            " distributed too large",
            choices={"none": "off", "full": "weights, gradients, optimizer"},
        ),
    ] = "none"
    """Splits a model's trained weights, their gradients and the optimizer state among the processes
    (FSDP), for fine-tuning a model that no single GPU can hold. Each block is gathered while it is
    computed, which takes time. Off is usual where the memory is enough. Not yet tested on GPUs."""

    threads: Annotated[
        int,
        Field(ge=0, le=1024),
        Ui("CPU threads", level="advanced", zero="one for each core", search="cores"),
    ] = 0
    """How many CPU threads are used for computing; 0 means one for every core. 0 is usual; fewer
    leave room for other programs."""

    precision: Annotated[Precision, Ui("Precision", search="dtype mixed fp16 bf16")] = "bf16"
    """The number format of computing. bf16 is a good default; fp16 is for GPUs without bf16; fp32
    is exact and slow. Losses are always fp32, and so are trained weights, except a model's own,
    whose format is "Weight precision"."""

    vae_precision: Annotated[
        VaePrecision,
        Ui(
            "VAE precision",
            level="advanced",
            search="vae dtype fp16 fix no-half",
            choices={"auto": "automatic"},
        ),
    ] = "auto"
    """The number format of the VAE while it is not trained. "auto" is fp32, as Stable Diffusion's
    VAEs were trained; some give black images in fp16."""

    tf32: Annotated[bool, Ui("TF32", level="advanced", search="tf32 tensor cores fast fp32")] = True
    """Lets GPUs since the RTX 30 series compute fp32 products with a 10-bit fraction: several times
    faster and slightly less exact. No effect in bf16 and fp16."""

    attention: Annotated[
        AttentionKernel,
        Ui(
            "Attention",
            level="advanced",
            search="sdpa flash xformers memory efficient cudnn kernel backend mechanism",
            choices={
                "auto": "automatic",
                "measured": "the fastest, as measured",
                "flash": "FlashAttention",
                "efficient": "memory-efficient",
                "cudnn": "cuDNN",
            },
        ),
    ] = "auto"
    """Which of torch's attention kernels a GPU tries first; where it cannot compute a layer,
    another one does. "auto" is torch's own choice and usually the fastest; "measured" tries all of
    them when a run starts, and remembers the fastest, which is not yet tested on GPUs. Speed
    differs by GPU, memory hardly, and results by rounding. No effect on the CPU."""

    deterministic: Annotated[
        Deterministic,
        Ui(
            "Deterministic",
            level="advanced",
            search="reproducible repeatable same bits resume exact cudnn benchmark seed",
            choices={"auto": "automatic", "on": "on", "off": "fastest"},
        ),
    ] = "auto"
    """Whether a GPU computes the same bits each time, so that a resumed run is the run that never
    stopped; the CPU always does. "on" allows only such algorithms, and ends the run where there is
    none; "off" lets the GPU try which convolutions are fastest; "auto" is torch's usual choice,
    between the two. Not yet tested on GPUs."""

    capture: Annotated[
        bool,
        Ui(
            "Capture steps (experimental)",
            level="advanced",
            search="cuda graph graphs capture record replay launch overhead fast small batch",
        ),
    ] = False
    """Records a step's work on a GPU once for each shape of its batches, and replays it: as fast as
    the GPU computes, however slow the processor is. Helps most with small batches; takes some more
    memory. Experimental: not yet tested on GPUs. What cannot be recorded runs as usual, and the run
    says what and why."""

    compile: Annotated[
        bool,
        Ui(
            "Compile blocks (experimental)",
            level="advanced",
            search="torch compile inductor triton fuse kernels fast",
        ),
    ] = False
    """Compiles each block of the UNet with torch.compile, which joins small operations. The first
    steps take minutes; results differ by rounding. Experimental: not yet tested on GPUs. Needs a
    GPU with Triton; not for blocks that are checkpointed, offloaded or quantized."""

    gradient_checkpointing: Annotated[
        Checkpointing,
        Ui(
            "Gradient checkpointing",
            search="memory vram activation recompute oom out of memory will it fit plan"
            " repeat cheap whole blocks",
            lead="Saving memory, the cheapest first. “Will it fit?” estimates the result.",
            choices={
                "off": "off",
                "selective": "selective",
                "block": "full",
                "auto": "automatic",
            },
        ),
    ] = "off"
    """Saves memory by computing parts of the forward pass twice. "selective" repeats only norms and
    activations, which costs little; "block" repeats whole blocks, which saves most and takes about
    a third more time; "auto" picks the fastest one that fits into free memory."""

    vae_tiling: Annotated[bool, Ui("VAE tiling", search="vae tiling vram memory decode tiles")] = (
        False
    )
    """Decodes samples tile by tile, which saves several GB at 1024 px; seams may show."""

    quantization: Annotated[
        Quantization,
        Ui(
            "Quantization",
            search="quantise quantize fp8 int8 nf4 4-bit base vram memory frozen weights",
            choices={"none": "off"},
        ),
    ] = "none"
    """Stores frozen linear layers in fewer bits while adapters or embeddings train. int8 and fp8
    take half the memory, nf4 a quarter. Training gets slower; int8 changes predictions little, fp8
    and nf4 more."""

    quantized_layers: Annotated[
        tuple[QuantizedLayers, ...],
        Field(max_length=64),
        Ui(
            "Quantized layers",
            level="advanced",
            search="quantization pattern only these",
            only_with={"hardware.quantization": ("int8", "fp8", "nf4")},
        ),
    ] = ()
    """Which linear layers are quantized; none listed means all of the UNet and of the text encoders
    that are not trained."""

    offload_layers: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Layer offload",
            unit="of all",
            zero="none",
            search="offload low vram memory blocks swap layers main",
            lead="Offloading to RAM: saves most memory, takes time.",
        ),
    ] = 0.0
    """The fraction of the UNet's and text encoders' layers that stay in RAM and are copied to the
    GPU when they are needed. 0 is off; more saves more GPU memory and takes more time. 0 is usual
    where memory is enough, else as little as fits."""

    offload_device: Annotated[
        OffloadDevice,
        Ui(
            "Offload device",
            level="advanced",
            search="temp device evict text encoder vae offload vram memory waiting parts",
            choices={"cpu": "RAM", "same": "stay on the GPU"},
        ),
    ] = "cpu"
    """Where the text encoders and the VAE are stored while they are not needed. "same" keeps them
    on the GPU, which saves short pauses and takes up to 2 GB."""

    offload_activations: Annotated[
        float,
        Field(ge=0, le=1),
        Ui(
            "Activation offload",
            unit="of all",
            level="advanced",
            zero="none",
            search="offload cpu activations vram memory main",
        ),
    ] = 0.0
    """The fraction of activations (what each block saves for the backward pass) that is stored in
    RAM. 0 is off; more saves more GPU memory with large images and batches, and takes more time. 0
    is usual where memory is enough, else as little as fits."""

    prefetch: Annotated[
        bool,
        Ui(
            "Prefetch (experimental)",
            level="advanced",
            search="prefetch offload stream fetch ahead",
        ),
    ] = False
    """Copies the next layer while the current one is computed. Experimental: not yet tested on
    GPUs. Off copies each layer when it is needed."""

    pin_memory: Annotated[
        bool,
        Ui(
            "Pinned memory (experimental)",
            level="advanced",
            search="pin page locked transfer text encoder vae waiting samples pause",
        ),
    ] = False
    """Keeps text encoders and VAE in pinned memory while they wait in RAM: a GPU then fetches each
    of them at once, for shorter pauses at samples. That RAM cannot be swapped out. Experimental:
    not yet tested on GPUs."""

    channels_last: Annotated[
        bool,
        Ui(
            "Channels last (experimental)",
            level="advanced",
            search="memory format nhwc convolution tensor cores fast",
        ),
    ] = False
    """Stores the UNet's frozen convolutions in the order that GPUs compute them in, which may be
    faster with SD 1.5 and batches from 4 on; results differ by rounding. No effect on a UNet that
    is itself trained. Experimental: not yet tested on GPUs."""

    expandable_segments: Annotated[
        bool,
        Ui(
            "Expandable segments (experimental)",
            level="advanced",
            search="allocator fragmentation vram oom out of memory pytorch_cuda_alloc_conf",
        ),
    ] = False
    """Lets torch enlarge its pieces of GPU memory, so that buckets of many sizes leave less of it
    unused. No effect on Windows and on the CPU. Experimental: not yet tested on GPUs."""
