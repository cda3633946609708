"""What each kind of adapter makes of a layer's weight: the published formulas, in plain torch.

LyCORIS' own modules are not used for this: made from a file they take a DoRA scale of inputs for
one of outputs, multiply LoHa by alpha / rank twice, need an alpha in every layer, and choose a
kernel by the device. Sources: Hu et al. 2021, arXiv:2106.09685 (LoRA); Yeh et al. 2023,
arXiv:2309.14859 (LoHa, LoKr, Tucker); Liu et al. 2024, arXiv:2402.09353 (DoRA); Qiu et al. 2023,
arXiv:2306.07280 (OFT); Liu et al. 2023, arXiv:2311.06243 (BOFT); Chavan et al. 2023,
arXiv:2306.07967 (GLoRA); Liu et al. 2022, arXiv:2205.05638 (IA3).
"""

import torch
from torch import Tensor

from modules.formats.lora.lora_keys import Kinds, scale_of


def merged_weight(weight: Tensor, kinds: Kinds, strength: float) -> Tensor:
    """A layer's weight with an adapter merged into it.

    weight: (out, in, …), float32. kinds: the adapter's tensors, float32. strength: 1 is as
    trained. Raises ValueError if the adapter is for a layer of another shape or of no known kind.
    """
    if "oft_blocks" in kinds:
        return _rotated(weight, kinds, strength)
    if "on_input" in kinds:
        return _rescaled(weight, kinds, strength)
    change = _change(weight, kinds)
    if change.numel() != weight.numel():
        raise ValueError(f"a change of shape {tuple(change.shape)} for {tuple(weight.shape)}")
    change = change.reshape(weight.shape)
    if "scalar" in kinds:
        change = change * kinds["scalar"]
    if "dora_scale" in kinds:
        change = _decomposed(weight + change, kinds["dora_scale"]) - weight
    return weight + strength * change


def merged_bias(bias: Tensor, kinds: Kinds, strength: float) -> Tensor:
    """A layer's bias with what an adapter adds to it; most add nothing."""
    change = kinds.get("diff_b", kinds.get("b_norm"))
    return bias if change is None else bias + strength * change.reshape(bias.shape)


def _change(weight: Tensor, kinds: Kinds) -> Tensor:
    scale = scale_of(kinds)
    match kinds:
        case {"lora_up.weight": up, "lora_down.weight": down}:
            return scale * _low_rank(up, down, kinds.get("lora_mid.weight"))
        case {"hada_w1_a": _}:
            return scale * _hadamard(kinds)
        case {"lokr_w1": _} | {"lokr_w1_a": _}:
            return scale * _kronecker(kinds)
        case {"a1.weight": a1, "a2.weight": a2, "b1.weight": b1, "b2.weight": b2}:
            inputs = a1.flatten(1) @ a2.flatten(1)  # (in, in)
            through = torch.einsum("oi...,ij->oj...", weight, inputs)
            return scale * (through + _low_rank(b1, b2, kinds.get("bm.weight")).view_as(weight))
        case {"diff": change} | {"w_norm": change}:
            return change
        case {"diff_b": _} | {"b_norm": _}:
            return torch.zeros_like(weight)
        case _:
            raise ValueError(f"no adapter that is known: {', '.join(sorted(kinds))}")


def _low_rank(up: Tensor, down: Tensor, mid: Tensor | None) -> Tensor:
    """(out, rank, …) and (rank, in, …) -> (out, in * …), or with a middle (out, in, …)."""
    if mid is None:
        return up.flatten(1) @ down.flatten(1)
    return torch.einsum("rs...,or,si->oi...", mid, up.flatten(1), down.flatten(1))


def _hadamard(kinds: Kinds) -> Tensor:
    """The elementwise product of two low-rank matrices."""
    halves = []
    for half, middle in (("hada_w1", "hada_t1"), ("hada_w2", "hada_t2")):
        first, second = kinds[f"{half}_a"], kinds[f"{half}_b"]
        if middle in kinds:  # then the first matrix is (rank, out)
            halves.append(_low_rank(first.T, second, kinds[middle]))
        else:
            halves.append(first.flatten(1) @ second.flatten(1))
    return halves[0] * halves[1]


def _kronecker(kinds: Kinds) -> Tensor:
    """The Kronecker product of two matrices, each whole or of low rank."""
    first = kinds["lokr_w1"] if "lokr_w1" in kinds else kinds["lokr_w1_a"] @ kinds["lokr_w1_b"]
    if "lokr_w2" in kinds:
        second = kinds["lokr_w2"]
    elif "lokr_t2" in kinds:
        second = _low_rank(kinds["lokr_w2_a"].T, kinds["lokr_w2_b"], kinds["lokr_t2"])
    else:
        rank, inputs, *kernel = kinds["lokr_w2_b"].shape
        second = kinds["lokr_w2_a"] @ kinds["lokr_w2_b"].reshape(rank, -1)
        second = second.reshape(-1, inputs, *kernel)
    while first.ndim < second.ndim:
        first = first[..., None]
    return torch.kron(first, second.contiguous())


def _decomposed(weight: Tensor, scale: Tensor) -> Tensor:
    """DoRA: the weight's direction with a trained length, of each output or of each input."""
    scale = scale.reshape(*scale.shape, *[1] * (weight.ndim - scale.ndim))
    is_of_outputs = scale.shape[0] == weight.shape[0]
    kept = 0 if is_of_outputs else 1
    across = [axis for axis in range(weight.ndim) if axis != kept]
    length: Tensor = torch.linalg.vector_norm(weight, dim=across, keepdim=True)
    return weight * (scale / (length + torch.finfo(weight.dtype).eps))


def _rotated(weight: Tensor, kinds: Kinds, strength: float) -> Tensor:
    """OFT and BOFT: outputs turned in blocks; part of a turn where strength is not 1."""
    blocks = constrain_blocks(kinds)
    turns = _turns(blocks)
    turns = (
        torch.eye(turns.shape[-1], dtype=turns.dtype, device=turns.device) * (1 - strength)
        + turns * strength
    )
    rows = weight.flatten(1)
    if blocks.ndim == 3:  # (blocks, size, size)
        components = rows.reshape(*turns.shape[:2], -1)
        rows = torch.einsum("knm,kni->kmi", turns, components).flatten(0, 1)
    else:  # (stages, blocks, size, size)
        for stage, turn in enumerate(turns):
            rows = _butterfly(rows, turn, stage)
    rescale = kinds.get("rescale")
    if rescale is not None:
        rows = rows * (1 + strength * (rescale.reshape(-1, 1) - 1))
    return rows.reshape(weight.shape)


def constrain_blocks(kinds: Kinds) -> Tensor:
    """Blocks of OFT that turn as far as these are allowed to, without any constraint."""
    blocks = kinds["oft_blocks"]
    outputs = blocks.shape[-3] * blocks.shape[-1]
    # LyCORIS stores the constraint as alpha, for each output.
    constraint = float(kinds["alpha"]) * outputs if "alpha" in kinds else 0.0
    norm = (blocks - blocks.transpose(-1, -2)).norm()
    return blocks * (constraint / norm) if 0 < constraint < norm else blocks


def _turns(blocks: Tensor) -> Tensor:
    """Orthogonal matrices from any, by Cayley's transform."""
    skew = blocks - blocks.transpose(-1, -2)
    identity = torch.eye(blocks.shape[-1], dtype=blocks.dtype, device=blocks.device)
    # solve_ex asks the card for no error: 1 - Q of a skew Q can always be inverted.
    turns: Tensor = torch.linalg.solve_ex(identity - skew, identity + skew, left=False).result
    return turns


def _butterfly(rows: Tensor, turn: Tensor, stage: int) -> Tensor:
    """One stage: rows that lie 2^stage half-blocks apart are turned together."""
    apart = 2**stage * (turn.shape[-1] // 2)
    order = (
        torch.arange(len(rows), device=rows.device).reshape(-1, 2, apart).transpose(1, 2).flatten()
    )
    components = rows[order].reshape(*turn.shape[:2], -1)
    turned = torch.empty_like(rows)
    turned[order] = torch.einsum("bij,bjn->bin", turn, components).flatten(0, 1)
    return turned


def _rescaled(weight: Tensor, kinds: Kinds, strength: float) -> Tensor:
    """IA3: inputs or outputs multiplied by trained numbers, which are stored less one."""
    factors = 1 + strength * kinds["weight"].flatten()
    if bool(kinds["on_input"]):
        return weight * factors.reshape(1, -1, *[1] * (weight.ndim - 2))
    return weight * factors.reshape(-1, *[1] * (weight.ndim - 1))
