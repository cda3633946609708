"""Checkpointed forwards: the same numbers, computed twice, with little kept in between."""

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from modules.memory.layers.activations import SavedInputs
from modules.memory.layers.checkpointing import create_checkpointed_forward
from tests.each import each
from tests.managed import CPU, ELSEWHERE, Calls, Journeys, Operations

POLICIES = ("block", "selective")


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(2 * width)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(2 * width, width)

    def forward(self, x, *, shift=None):
        return self.last(self.drop(torch.tanh(self.norm(self.first(x))))) + (
            0 if shift is None else shift
        )


def made(seed=0):
    torch.manual_seed(seed)
    return Net()


def inputs(**options):
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(1)).requires_grad_(**options)


def gradients(net, forward, given, **named):
    net.zero_grad()
    torch.manual_seed(7)
    output = forward(given, **named)
    output.square().sum().backward()
    return output, [weight.grad for weight in net.parameters()]


@each("precision", [None, torch.bfloat16, torch.float16])
@each("policy", POLICIES)
@each("requires_grad", [False, True])
def test_outputs_and_gradients_are_those_of_the_plain_forward(policy, requires_grad, precision):
    net, x = made(), inputs(requires_grad=requires_grad)
    checkpointed = create_checkpointed_forward(net, CPU, CPU, policy=policy)
    found = []
    for forward in (net, checkpointed):
        with torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None):
            found.append(gradients(net, forward, x))
    (plain, plain_gradients), (again, again_gradients) = found
    assert plain.dtype == again.dtype == (precision or torch.float32)
    assert torch.equal(plain, again)
    assert all(map(torch.equal, plain_gradients, again_gradients))


def test_gradients_reach_a_single_trained_weight_from_frozen_inputs():
    net, x = made().requires_grad_(False), inputs()
    net.first.bias.requires_grad_(True)
    checkpointed = create_checkpointed_forward(net, CPU, CPU)
    gradient = gradients(net, checkpointed, x)[1][1]
    assert gradient.abs().max() > 0
    assert torch.equal(gradient, gradients(net, net, x)[1][1])


@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_computed_twice_for_gradients_and_once_without(policy):
    net = made()
    calls = Calls(net.norm)
    checkpointed = create_checkpointed_forward(net, CPU, CPU, policy=policy)
    with torch.no_grad():
        assert checkpointed(inputs()).grad_fn is None
    assert calls.count == 1
    gradients(net, checkpointed, inputs())
    assert calls.count == 3


def test_any_callable_takes_and_gives_anything_by_any_name():
    def forward(one, others, *, factor, context=None, preserve_rng_state):
        return {"sum": one + others["two"] * factor, "rest": (context, preserve_rng_state)}

    one, two = inputs(requires_grad=True), inputs(requires_grad=True)
    given = (one, {"two": two, "name": "x"})
    named = {"factor": torch.tensor(3.0), "preserve_rng_state": 5}
    checkpointed = create_checkpointed_forward(forward, CPU, CPU)
    output = checkpointed(*given, **named)
    assert torch.equal(output["sum"], one + 3 * two)
    assert output["rest"] == (None, 5)
    output["sum"].sum().backward()
    assert torch.equal(two.grad, torch.full_like(two, 3.0))


def test_saved_inputs_wait_elsewhere_and_nothing_holds_them_here():
    net, journeys = made(), Journeys()
    checkpointed = create_checkpointed_forward(net, CPU, ELSEWHERE, saved=SavedInputs(journeys))
    plain = gradients(net, net, inputs() * 2, shift=inputs() * 3)[1]
    x, shift = inputs() * 2, inputs() * 3
    storages = [StorageWeakRef(each.untyped_storage()) for each in (x, shift)]
    torch.manual_seed(7)
    net.zero_grad()
    output = checkpointed(x, shift=shift)
    assert len(journeys.sent) == 2
    journeys.sent.clear()
    del x, shift
    assert all(storage.expired() for storage in storages)
    output.square().sum().backward()
    assert all(map(torch.equal, plain, (weight.grad for weight in net.parameters())))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_layer_may_be_used_twice_under_one_autocast(policy):
    net, x = made(), inputs()
    checkpointed = create_checkpointed_forward(net, CPU, CPU, policy=policy)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = gradients(net, lambda x: checkpointed(checkpointed(x)), x)
    assert output.isfinite().all()


def test_casts_of_weights_are_not_kept_until_autocast_ends():
    layer = nn.Linear(32, 32, bias=False)
    checkpointed = create_checkpointed_forward(layer, CPU, CPU)
    casts = []
    for forward in (layer, checkpointed):
        with torch.autocast("cpu", torch.bfloat16):
            forward(torch.ones(1, 32))
            with Operations() as later:
                layer(torch.ones(1, 32))
        casts.append(later.counts["_to_copy"])
    assert casts == [1, 2]  # of the input alone; of the weight, too


@each(
    ("arguments", "error", "words"),
    [
        ((3, CPU, CPU), TypeError, "forward must be callable"),
        ((Net, "cuda", CPU), TypeError, "train_device must be a torch.device: 'cuda'"),
        ((Net, CPU, None), TypeError, "offload_device must be a torch.device: None"),
        ((Net, CPU), TypeError, "offload_device"),
        ((Net,), TypeError, "train_device"),
    ],
)
def test_the_first_three_arguments_are_required_and_checked(arguments, error, words):
    with pytest.raises(error, match=words):
        create_checkpointed_forward(*arguments)


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="one of block, selective: 'some'"):
        create_checkpointed_forward(Net(), CPU, CPU, policy="some")
