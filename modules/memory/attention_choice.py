"""Which attention kernel is fastest on a GPU: measured once for some shapes, and remembered."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from modules.memory.precision import prefer_attention
from onetrainer.config.run.hardware import AttentionKernel
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.files.own_json import NotOurs, parse_object

_CANDIDATES: tuple[AttentionKernel, ...] = ("auto", "flash", "efficient", "cudnn")
_GAIN = 0.98
"""The part of torch's own choice's time that another kernel takes at most to be worth its name."""
_WARM_RUNS, _RUNS = 3, 10


@dataclass(frozen=True)
class AttentionShape:
    """Queries, keys and values of a layer: (batch, heads, tokens, width) each."""

    batch: int
    heads: int
    tokens: int
    width: int


def attention_shapes(
    unet: Mapping[str, Any], *, side: tuple[int, int], batch: int
) -> list[AttentionShape]:
    """Return the self-attention of each level of a UNet. side: height and width of latents."""
    channels, kinds = unet["block_out_channels"], unet["down_block_types"]
    # What diffusers calls the heads' dimension is their number.
    heads = unet.get("num_attention_heads") or unet["attention_head_dim"]
    counts = [heads] * len(channels) if isinstance(heads, int) else heads
    return [
        AttentionShape(batch, count, (side[0] >> level) * (side[1] >> level), width // count)
        for level, (width, count, kind) in enumerate(zip(channels, counts, kinds, strict=True))
        if "CrossAttn" in kind
    ]


def fastest_kernel(
    shapes: Sequence[AttentionShape],
    dtype: torch.dtype,
    *,
    gpu: str,
    seconds: Callable[[AttentionKernel], float],
    remembered: Path,
) -> AttentionKernel:
    """Return the fastest kernel for these shapes; measure it unless it is remembered.

    A run that is resumed on the same GPU gets the same one, and with it the same rounding.

    Args:
        shapes: Of the attention layers.
        dtype: They compute in.
        gpu: Its name.
        seconds: Measures a kernel, as `kernel_seconds` does.
        remembered: A file of earlier choices, which need not exist.
    """
    sizes = " ".join("x".join(map(str, astuple(shape))) for shape in shapes)
    key = f"{gpu}, torch {torch.__version__}, {dtype}, {sizes}"
    known = _read(remembered)
    found = next((kernel for kernel in _CANDIDATES if kernel == known.get(key)), None)
    if found is not None:
        return found
    usual = seconds("auto")
    times = {kernel: seconds(kernel) for kernel in _CANDIDATES[1:]}
    best = min(times, key=lambda kernel: times[kernel])
    chosen = best if times[best] < _GAIN * usual else "auto"
    with suppress(OSError, UserError):  # it is measured again then
        remembered.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(remembered, json.dumps(known | {key: chosen}, indent=1).encode())
    return chosen


def kernel_seconds(
    kernel: AttentionKernel,
    shapes: Sequence[AttentionShape],
    dtype: torch.dtype,
    device: torch.device,
) -> float:
    """Return the seconds that a GPU takes for attention of these shapes and its gradients."""
    total = 0.0
    for shape in shapes:
        query, key, value = (
            torch.randn(astuple(shape), dtype=dtype, device=device, requires_grad=True)
            for _ in range(3)
        )
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call] # torch's
        with prefer_attention(kernel):
            for number in range(_WARM_RUNS + _RUNS):
                if number == _WARM_RUNS:
                    begin.record()
                result = F.scaled_dot_product_attention(query, key, value)
                torch.autograd.grad(result.sum(), (query, key, value))
            end.record()
        end.synchronize()
        total += begin.elapsed_time(end) / 1000
    return total


def _read(path: Path) -> dict[str, Any]:
    try:
        return parse_object(path.read_bytes())
    except (OSError, NotOurs):  # it is measured again
        return {}
