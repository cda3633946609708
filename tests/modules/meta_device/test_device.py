"""The device that does not exist: what is kept on it is what would be kept on a real one."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as checkpoints

from modules.memory.layers.transfer import copy_to_device
from modules.meta_device import autocast as meta_autocast
from modules.meta_device.device import DEVICE, HOST, meta_device

BF16 = torch.bfloat16
OPERATIONS = {
    "linear": lambda x, w: functional.linear(x, w),
    "conv2d": lambda x, w: functional.conv2d(x[None, None], w[None, None]),
    "matmul": lambda x, w: x @ w,
    "bmm": lambda x, w: torch.bmm(x[None], w[None]),
    "einsum": lambda x, w: torch.einsum("ij,jk->ik", x, w),
    "attention": lambda x, w: functional.scaled_dot_product_attention(
        x[None, None], w[None, None], w[None, None]
    ),
    "layer_norm": lambda x, w: functional.layer_norm(x, (8,)),
    "group_norm": lambda x, w: functional.group_norm(x, 2),
    "softmax": lambda x, w: x.softmax(-1),
    "silu": lambda x, w: functional.silu(x),
    "upsample": lambda x, w: functional.interpolate(x[None, None], scale_factor=2.0),
    "sum": lambda x, w: x.sum(),
    "pow": lambda x, w: x**2,
    "mse_loss": lambda x, w: functional.mse_loss(x, w.to(x.dtype)),
    "add": lambda x, w: x + w,
}


def result(operation, dtype, device):
    """What an operation gives under autocast: dtype and shape."""
    x = torch.zeros(8, 8, device=device, dtype=dtype)
    w = torch.zeros(8, 8, device=device, requires_grad=True)
    with torch.autocast("cpu", dtype=BF16):
        made = OPERATIONS[operation](x, w)
    return made.dtype, made.shape


def test_autocast_of_the_processor_casts_as_torch_does_and_that_of_the_gpu_widens_norms():
    for operation in OPERATIONS:
        for dtype in (torch.float32, BF16):
            with meta_device("cpu"):
                found = result(operation, dtype, DEVICE)
            assert found == result(operation, dtype, "cpu"), operation
    with meta_device("cuda"):
        for operation in ("layer_norm", "group_norm", "softmax", "upsample", "sum"):
            assert result(operation, BF16, DEVICE)[0] == torch.float32, operation


def test_what_the_lists_name_is_in_torchs_own_lists_of_the_gpu():
    def is_listed(operator):
        found = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        return any(name.split(".")[0] == f"aten::{operator}" for name in found)

    other_names = {"vector_norm": "linalg_vector_norm", "interpolate": "upsample_nearest2d"}
    listed = meta_autocast._LOW_PRECISION | meta_autocast._FLOAT32["cuda"]
    names = {function.__name__.strip("_") for function in listed} - {"rmatmul"}
    assert {name for name in names if not is_listed(other_names.get(name, name))} == set()


def test_a_weights_cast_is_made_once_in_a_context_and_forgotten_after_it():
    with meta_device("cuda") as meter:
        weight = torch.empty(1024, 1024, device=DEVICE, requires_grad=True)
        x = torch.empty(1, 1024, device=DEVICE, dtype=BF16)
        before = sum(meter.alive().values())
        with torch.autocast("cpu", dtype=BF16), torch.no_grad():
            functional.linear(x, weight)
            functional.linear(x, weight)
            assert sum(meter.alive().values()) == before + 2 * 1024 * 1024
        assert sum(meter.alive().values()) == before


def test_attention_keeps_no_matrix():
    with meta_device("cuda") as meter:
        query = torch.empty(1, 8, 4096, 64, device=DEVICE, requires_grad=True)
        functional.scaled_dot_product_attention(query, query, query).sum().backward()
        assert sum(meter.peak.values()) < 8 * 4096 * 4096  # a sixteenth of the matrix


def test_tensors_know_their_device_and_copies_between_are_counted():
    with meta_device("cuda") as meter:
        near = torch.empty(256, device=DEVICE)
        host, back = near.to(HOST), near.to("cpu").to(DEVICE)
        assert (near.device, host.device, back.device) == (DEVICE, HOST, DEVICE)
        assert meter.alive() == {"activations": 2 * 1024}
        assert meter.alive("host") == {"activations": 1024}
        assert near.to(DEVICE) is near
        copied = copy_to_device(near, DEVICE)
        assert copied.untyped_storage()._cdata != near.untyped_storage()._cdata
    with meta_device("cpu") as meter:  # where both are the same memory
        near = torch.empty(256, device=DEVICE)
        host = near.to("cpu")
        assert meter.peak == meter.alive() == {"activations": 2 * 1024}
        del host
        assert meter.alive() == {"activations": 1024}


def test_values_that_are_asked_for_are_ones():
    with meta_device("cuda"):
        numbers = torch.empty(3, device=DEVICE)
        assert (numbers.sum().item(), float(numbers[0]), int(numbers.int()[0])) == (1.0, 1.0, 1)
        assert bool((numbers > 0).all())
        assert numbers.tolist() == [0.0, 0.0, 0.0]


def test_a_checkpoint_computes_again_on_the_same_device_in_the_same_formats():
    def block(x):
        seen.append((x.device, functional.layer_norm(x, (64,)).dtype))
        return layer(functional.silu(x))

    seen = []
    with meta_device("cuda"):
        layer = nn.Linear(64, 64).to(DEVICE)
        x = torch.empty(4, 64, device=DEVICE, requires_grad=True)
        with torch.autocast("cpu", dtype=BF16):
            loss = checkpoints.checkpoint(block, x, use_reentrant=False).float().sum()
        loss.backward()
        assert x.grad.device == DEVICE
    assert seen == [(DEVICE, torch.float32)] * 2


def test_nothing_is_left_behind():
    checks = checkpoints._allowed_determinism_checks_to_fns
    before = torch.clear_autocast_cache, dict(checks)
    with pytest.raises(RuntimeError, match="meanwhile"), meta_device("cuda"):
        raise RuntimeError("meanwhile")
    assert (torch.clear_autocast_cache, dict(checks)) == before
    assert torch.empty(1).device == HOST
