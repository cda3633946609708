"""The device that does not exist: what is kept on it is what would be kept on a real one."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as checkpoints

from modules.memory.layers.transfer import copy_to_device
from modules.meta_device import autocast as footprint_autocast
from modules.meta_device.device import DEVICE, HOST, MetaDevice

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
    "gelu": lambda x, w: functional.gelu(x),
    "upsample": lambda x, w: functional.interpolate(x[None, None], scale_factor=2.0),
    "sum": lambda x, w: x.sum(),
    "pow": lambda x, w: x**2,
    "mse_loss": lambda x, w: functional.mse_loss(x, w.to(x.dtype)),
    "add": lambda x, w: x + w,
}


def result(operation, device, dtype, kind="cpu"):
    """What an operation gives under autocast: dtype and shape."""

    def compute(device):
        x = torch.zeros(8, 8, device=device, dtype=dtype)
        w = torch.zeros(8, 8, device=device, requires_grad=True)
        with torch.autocast("cpu", dtype=BF16):
            made = OPERATIONS[operation](x, w)
        return made.dtype, made.shape

    if device != "imagined":
        return compute(device)
    with MetaDevice(kind):
        return compute(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_autocast_of_the_processor_casts_as_torch_does(operation, dtype):
    assert result(operation, "imagined", dtype) == result(operation, "cpu", dtype)


def test_what_the_lists_name_is_in_torchs_own_lists_of_the_card():
    def is_listed(operator):
        found = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        return any(name.split(".")[0] == f"aten::{operator}" for name in found)

    other_names = {"vector_norm": "linalg_vector_norm", "interpolate": "upsample_nearest2d"}
    listed = footprint_autocast._LOW_PRECISION | footprint_autocast._FLOAT32["cuda"]
    names = {function.__name__.strip("_") for function in listed} - {"rmatmul"}
    assert {name for name in names if not is_listed(other_names.get(name, name))} == set()


@pytest.mark.parametrize("operation", ["layer_norm", "group_norm", "softmax", "upsample", "sum"])
def test_autocast_of_the_card_widens_norms(operation):
    assert result(operation, "imagined", BF16, kind="cuda")[0] == torch.float32


def test_a_weights_cast_is_made_once_in_a_context_and_forgotten_after_it():
    with MetaDevice("cuda") as meta_device:
        weight = torch.empty(1024, 1024, device=DEVICE, requires_grad=True)
        x = torch.empty(1, 1024, device=DEVICE, dtype=BF16)
        before = sum(meta_device.meter.alive().values())
        with torch.autocast("cpu", dtype=BF16), torch.no_grad():
            functional.linear(x, weight)
            functional.linear(x, weight)
            assert sum(meta_device.meter.alive().values()) == before + 2 * 1024 * 1024
        assert sum(meta_device.meter.alive().values()) == before


def test_attention_keeps_no_matrix():
    with MetaDevice("cuda") as meta_device:
        query = torch.empty(1, 8, 4096, 64, device=DEVICE, requires_grad=True)
        functional.scaled_dot_product_attention(query, query, query).sum().backward()
        assert meta_device.meter.peak.size < 8 * 4096 * 4096  # a sixteenth of the matrix


def test_tensors_tell_where_they_are_and_copies_between_are_counted():
    with MetaDevice("cuda") as meta_device:
        near = torch.empty(256, device=DEVICE)
        host, back = near.to(HOST), near.to("cpu").to(DEVICE)
        assert (near.device, host.device, back.device) == (DEVICE, HOST, DEVICE)
        assert meta_device.meter.alive() == {"activations": 2 * 1024}
        assert meta_device.meter.alive("host") == {"activations": 1024}
        assert near.to(DEVICE) is near
        assert (
            copy_to_device(near, DEVICE).untyped_storage()._cdata != near.untyped_storage()._cdata
        )


def test_on_the_processor_everything_counts():
    with MetaDevice("cpu") as meta_device:
        near = torch.empty(256, device=DEVICE)
        host = near.to("cpu")
        assert meta_device.meter.peak.size == sum(meta_device.meter.alive().values()) == 2 * 1024
        del host
        assert sum(meta_device.meter.alive().values()) == 1024


def test_a_checkpoint_computes_again_on_the_same_device_in_the_same_formats():
    def block(x):
        seen.append((x.device, functional.layer_norm(x, (64,)).dtype))
        return layer(functional.silu(x))

    seen = []
    with MetaDevice("cuda"):
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
    with pytest.raises(RuntimeError, match="meanwhile"), MetaDevice("cuda"):
        raise RuntimeError("meanwhile")
    assert (torch.clear_autocast_cache, dict(checks)) == before
    assert torch.empty(1).device == HOST
