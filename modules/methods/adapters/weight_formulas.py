"""Merging of adapters of every kind into a layer's weight, by the published formulas.

LyCORIS' modules are not used for this: created from a file, they take a DoRA scale of inputs for
one of outputs, multiply LoHa by alpha / rank twice, need an alpha in every layer, and choose a
kernel by the device. Sources: Hu et al. 2021, arXiv:2106.09685 (LoRA); Yeh et al. 2023,
arXiv:2309.14859 (LoHa, LoKr, Tucker); Liu et al. 2024, arXiv:2402.09353 (DoRA); Qiu et al. 2023,
arXiv:2306.07280 (OFT); Liu et al. 2023, arXiv:2311.06243 (BOFT); Chavan et al. 2023,
arXiv:2306.07967 (GLoRA); Liu et al. 2022, arXiv:2205.05638 (IA3).
"""

import torch
from torch import Tensor

from modules.formats.lora.lora_keys import AdapterTensors, scale_of
from onetrainer.model_files.adapter_keys import ALPHA
from onetrainer.model_files.adapter_layers import ADDED


def merged_weight(weight: Tensor, tensors: AdapterTensors, strength: float) -> Tensor:
    """Return a layer's weight with an adapter merged into it.

    Args:
        weight: (out, in, …), in float32 or float64.
        tensors: The adapter's, in the same.
        strength: 1 is as trained.

    Raises:
        ValueError: If the adapter is for another shape or of an unknown kind.
    """
    if "oft_blocks" in tensors:
        return _rotated(weight, tensors, strength)
    if "on_input" in tensors:
        return _rescaled(weight, tensors, strength)
    change = _change(weight, tensors)
    if change.numel() != weight.numel():
        raise ValueError(f"a change of shape {tuple(change.shape)} for {tuple(weight.shape)}")
    change = change.reshape(weight.shape)
    if "scalar" in tensors:
        change = change * tensors["scalar"]
    if "dora_scale" in tensors:
        change = _decomposed(weight + change, tensors["dora_scale"]) - weight
    return weight + strength * change


def merged_bias(bias: Tensor, tensors: AdapterTensors, strength: float) -> Tensor:
    """Return a layer's bias with an adapter merged into it; most adapters do not change it."""
    change = tensors.get("diff_b", tensors.get("b_norm"))
    return bias if change is None else bias + strength * change.reshape(bias.shape)


def low_rank_change(tensors: AdapterTensors) -> Tensor:
    """Return the change of a LoRA, a LoHa or a LoKr, (out, in * …) or (out, in, …).

    Raises:
        ValueError: If the adapter is of another kind.
    """
    scale = scale_of(tensors)
    match tensors:
        case {"lora_up.weight": up, "lora_down.weight": down}:
            return scale * _low_rank(up, down, tensors.get("lora_mid.weight"))
        case {"hada_w1_a": _}:
            return scale * _hadamard(tensors)
        case {"lokr_w1": _} | {"lokr_w1_a": _}:
            return scale * _kronecker(tensors)
        case _:
            raise ValueError(f"unknown kind of adapter: {', '.join(sorted(tensors))}")


def _change(weight: Tensor, tensors: AdapterTensors) -> Tensor:
    match tensors:
        case {"a1.weight": a1, "a2.weight": a2, "b1.weight": b1, "b2.weight": b2}:
            inputs = a1.flatten(1) @ a2.flatten(1)  # (in, in)
            through = torch.einsum("oi...,ij->oj...", weight, inputs)
            return scale_of(tensors) * (
                through + _low_rank(b1, b2, tensors.get("bm.weight")).view_as(weight)
            )
        case {"diff": change} | {"w_norm": change}:
            return change
        case _ if not tensors.keys() - {*ADDED, ALPHA}:  # of a bias alone
            return torch.zeros_like(weight)
        case _:
            return low_rank_change(tensors)


def _low_rank(up: Tensor, down: Tensor, mid: Tensor | None) -> Tensor:
    """Multiply (out, rank, …) by (rank, in, …) to (out, in * …), or (out, in, …) with a core."""
    if mid is None:
        return up.flatten(1) @ down.flatten(1)
    return torch.einsum("rs...,or,si->oi...", mid, up.flatten(1), down.flatten(1))


def _hadamard(tensors: AdapterTensors) -> Tensor:
    """Return the elementwise product of two low-rank matrices."""
    halves = []
    for half, middle in (("hada_w1", "hada_t1"), ("hada_w2", "hada_t2")):
        first, second = tensors[f"{half}_a"], tensors[f"{half}_b"]
        if middle in tensors:  # then the first matrix is (rank, out)
            halves.append(_low_rank(first.T, second, tensors[middle]))
        else:
            halves.append(first.flatten(1) @ second.flatten(1))
    return halves[0] * halves[1]


def _kronecker(tensors: AdapterTensors) -> Tensor:
    """Return the Kronecker product of two matrices, each whole or of low rank."""
    first = (
        tensors["lokr_w1"] if "lokr_w1" in tensors else tensors["lokr_w1_a"] @ tensors["lokr_w1_b"]
    )
    if "lokr_w2" in tensors:
        second = tensors["lokr_w2"]
    elif "lokr_t2" in tensors:
        second = _low_rank(tensors["lokr_w2_a"].T, tensors["lokr_w2_b"], tensors["lokr_t2"])
    else:
        rank, inputs, *kernel = tensors["lokr_w2_b"].shape
        second = tensors["lokr_w2_a"] @ tensors["lokr_w2_b"].reshape(rank, -1)
        second = second.reshape(-1, inputs, *kernel)
    while first.ndim < second.ndim:
        first = first[..., None]
    return torch.kron(first, second.contiguous())


def _decomposed(weight: Tensor, scale: Tensor) -> Tensor:
    """Return DoRA's weight: its direction with a trained norm for each output or input."""
    scale = scale.reshape(*scale.shape, *[1] * (weight.ndim - scale.ndim))
    scaled_axis = 0 if scale.shape[0] == weight.shape[0] else 1
    other_axes = [axis for axis in range(weight.ndim) if axis != scaled_axis]
    norm: Tensor = torch.linalg.vector_norm(weight, dim=other_axes, keepdim=True)
    return weight * (scale / (norm + torch.finfo(weight.dtype).eps))


def _rotated(weight: Tensor, tensors: AdapterTensors, strength: float) -> Tensor:
    """Return OFT's or BOFT's weight: outputs rotated in blocks, partly if strength is not 1."""
    blocks = constrain_blocks(tensors)
    rotations = _rotations(blocks)
    rotations = (
        torch.eye(rotations.shape[-1], dtype=rotations.dtype, device=rotations.device)
        * (1 - strength)
        + rotations * strength
    )
    rows = weight.flatten(1)
    if blocks.ndim == 3:  # (blocks, size, size)
        blocks_of_rows = rows.reshape(*rotations.shape[:2], -1)
        rows = torch.einsum("knm,kni->kmi", rotations, blocks_of_rows).flatten(0, 1)
    else:  # (stages, blocks, size, size)
        for stage, rotation in enumerate(rotations):
            rows = _butterfly(rows, rotation, stage)
    rescale = tensors.get("rescale")
    if rescale is not None:
        rows = rows * (1 + strength * (rescale.reshape(-1, 1) - 1))
    return rows.reshape(weight.shape)


def constrain_blocks(tensors: AdapterTensors) -> Tensor:
    """Scale OFT's blocks down to their constraint; the result needs none."""
    blocks = tensors["oft_blocks"]
    outputs = blocks.shape[-3] * blocks.shape[-1]
    # LyCORIS stores the constraint as alpha, for each output.
    constraint = float(tensors["alpha"]) * outputs if "alpha" in tensors else 0.0
    norm = (blocks - blocks.transpose(-1, -2)).norm()
    return blocks * (constraint / norm) if 0 < constraint < norm else blocks


def _rotations(blocks: Tensor) -> Tensor:
    """Return orthogonal matrices from any, by Cayley's transform."""
    skew = blocks - blocks.transpose(-1, -2)
    identity = torch.eye(blocks.shape[-1], dtype=blocks.dtype, device=blocks.device)
    # solve_ex does not check for errors on the GPU: 1 - Q is invertible for every skew Q.
    rotations: Tensor = torch.linalg.solve_ex(identity - skew, identity + skew, left=False).result
    return rotations


def _butterfly(rows: Tensor, rotation: Tensor, stage: int) -> Tensor:
    """Compute one stage, which rotates rows 2^stage half-blocks apart together."""
    apart = 2**stage * (rotation.shape[-1] // 2)
    order = (
        torch.arange(len(rows), device=rows.device).reshape(-1, 2, apart).transpose(1, 2).flatten()
    )
    blocks_of_rows = rows[order].reshape(*rotation.shape[:2], -1)
    rotated = torch.empty_like(rows)
    rotated[order] = torch.einsum("bij,bjn->bin", rotation, blocks_of_rows).flatten(0, 1)
    return rotated


def _rescaled(weight: Tensor, tensors: AdapterTensors, strength: float) -> Tensor:
    """Return IA3's weight: inputs or outputs times trained factors, which are stored less one."""
    factors = 1 + strength * tensors["weight"].flatten()
    if bool(tensors["on_input"]):
        return weight * factors.reshape(1, -1, *[1] * (weight.ndim - 2))
    return weight * factors.reshape(-1, *[1] * (weight.ndim - 1))
