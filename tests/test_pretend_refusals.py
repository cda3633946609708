"""The pretended GPU refuses what CUDA refuses, and nothing else.

That the rules are CUDA's is compared with torch's own meta device, which checks devices in the same
code (TensorIterator) as CUDA does.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests import pretend

WORDS = "Expected all tensors to be on the same device"
MIXED = {
    "add": lambda a, b: a + b,
    "add in place": lambda a, b: a.add_(b),
    "matrices": lambda a, b: a @ b,
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "lerp": lambda a, b: a.lerp(b, 0.5),
    "addcmul": lambda a, b: a.addcmul(b, b),
    "linear": lambda a, b: functional.linear(a, b),
    "layer norm": lambda a, b: functional.layer_norm(a, (4,), b[0]),
    "attention": lambda a, b: functional.scaled_dot_product_attention(a[None], b[None], b[None]),
    "loss": lambda a, b: functional.mse_loss(a, b),
    "out": lambda a, b: torch.mul(a, a, out=b),
    "gather": lambda a, b: a.gather(0, b.long()),
    "index_select": lambda a, b: a.index_select(0, b[0].long()),
    "index_put": lambda a, b: a.index_put((a[:, 0].long(),), b),
    "foreach": lambda a, b: torch._foreach_add_([a], [b]),
    "foreach lerp": lambda a, b: torch._foreach_lerp_([a], [b], 0.5),
}


@pytest.fixture(autouse=True)
def gpu():
    with pretend.accelerator() as made:
        yield made


def test_two_devices_in_one_operation_are_refused():
    for operation in MIXED.values():
        here, there = torch.ones(4, 4), torch.ones(4, 4, device="cuda")
        with pytest.raises(RuntimeError, match=WORDS):
            operation(there, here)
        with pytest.raises(RuntimeError, match=WORDS):
            operation(here, there)


def test_weights_left_behind_are_refused():
    nets = {
        "linear": nn.Linear(4, 4),
        "conv2d": nn.Conv2d(3, 4, 3),
        "embedding": nn.Embedding(9, 4),
    }
    inputs = {
        "linear": torch.ones(1, 4),
        "conv2d": torch.ones(1, 3, 4, 4),
        "embedding": torch.tensor([[1, 2]]),
    }
    for name, net in nets.items():
        with pytest.raises(RuntimeError, match=WORDS):
            net(inputs[name].cuda())
        with pytest.raises(RuntimeError, match=WORDS):
            net.cuda()(inputs[name])


SCALARS = {
    "add": lambda a, b: a + b,
    "add of a number and more": lambda a, b: b + a,
    "add in place": lambda a, b: a.add_(b),
    "in place into a number": lambda a, b: b.add_(a),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "lerp": lambda a, b: a.lerp(a, b),
    "clamp": lambda a, b: a.clamp(min=b),
    "cat": lambda a, b: torch.cat([a.flatten(), b[None]]),
    "stack": lambda a, b: torch.stack([a.sum(), b]),
    "foreach": lambda a, b: torch._foreach_mul_([a], b),
}


def test_numbers_of_the_host_are_taken_exactly_where_another_device_of_torch_takes_them():
    for name, use in SCALARS.items():
        assert _is_taken(use, "cuda") == _is_taken(use, "meta"), name


def _is_taken(use, device):
    try:
        use(torch.ones(2, 3, device=device), torch.tensor(2.0))
    except RuntimeError:
        return False
    return True


def test_a_number_of_the_host_fills_under_a_mask():
    there = torch.arange(3.0, device="cuda").masked_fill(torch.ones(3, device="cuda") > 0, 2.0)
    assert there.masked_fill_(there > 1, torch.tensor(5.0)).tolist() == [5, 5, 5]
    with pytest.raises(RuntimeError, match=WORDS):
        there.masked_fill(torch.ones(3) > 0, torch.tensor(5.0))


def test_indices_may_come_from_the_host_but_not_the_other_way_round():
    there, rows = torch.arange(4.0, device="cuda"), torch.tensor([1, 3])
    assert there[rows].tolist() == [1, 3]
    there[rows] = 0.0
    assert there.tolist() == [0, 0, 2, 0]
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        torch.ones(4)[rows.cuda()]


def test_lists_with_both_devices_are_taken_pair_by_pair():
    ones = [torch.ones(2), torch.ones(2, device="cuda")]
    torch._foreach_add_(ones, [torch.ones(2), torch.ones(2, device="cuda")])
    assert [one.tolist() for one in ones] == [[2, 2], [2, 2]]
    with pytest.raises(RuntimeError, match=WORDS):
        torch._foreach_add_(ones, [torch.ones(2, device="cuda"), torch.ones(2)])


def test_a_weight_that_is_taken_away_before_the_backward_pass_is_refused_there():
    weight = torch.ones(4, 3, 3, 3, device="cuda", requires_grad=True)
    pixels = torch.ones(1, 3, 5, 5, device="cuda", requires_grad=True)
    made = functional.conv2d(pixels, weight)
    weight.data = weight.data.cpu()
    with pytest.raises(RuntimeError, match=WORDS):
        made.sum().backward()


def test_a_gradient_that_a_function_gives_elsewhere_is_refused():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.cpu()

    weight = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="expected device cuda:0 but got cpu"):
        Wrong.apply(weight).sum().backward()


def test_a_gradient_may_not_be_assigned_from_elsewhere():
    weight = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="different device"):
        weight.grad = torch.ones(2)


def test_numpy_has_no_tensors_of_the_gpu():
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        torch.ones(2, device="cuda").numpy()


def test_there_is_one_gpu():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="cuda:1")
    with pytest.raises(RuntimeError, match="one pretended GPU"), pretend.accelerator():
        pass
