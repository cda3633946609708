"""Sharded weights: what each process has of them, and what all of them compute together."""

import pytest
import torch
from torch import nn

from modules.optim.clipping import gradient_norms
from modules.optim.rounding_noise import RoundingNoise
from modules.sharding.sharding import shard
from tests.close import near

MICROBATCHES = 4
CPU = torch.device("cpu")


class Net(nn.Module):
    """Two layers, and a weight and a scale that belong to none; 5 rows do not divide by 2 or 3."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 2)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x))) * self.scale


def built():
    torch.manual_seed(1)
    return Net().to(torch.bfloat16)


def loss(net, number):
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(number)).to(torch.bfloat16)
    return net(x).float().square().mean()


def same(one, other):
    return one.dtype == other.dtype and torch.equal(one, other)


def checks(world):
    """Everything that all processes do together; in rank 0, by what is to be true."""
    whole, net = built(), built()
    trained = dict(net.named_parameters())
    values = {name: weight.detach().clone() for name, weight in trained.items()}
    layers = {"unet": [net.first, net.second]}
    sharding = shard({"unet": net}, layers, trained, world=world, device=CPU)
    del trained
    found = {}
    joined = sharding.all_joined({name: own.detach() for name, own in sharding.own.items()})
    found["rows join to the whole weights"] = same_all(joined, values)
    found["whole weights are cut to the rows"] = all(
        same(sharding.cut(name, value), sharding.own[name].detach())
        for name, value in values.items()
    )
    for number in range(MICROBATCHES):
        loss(whole, number).backward()
    expected = {name: weight.grad for name, weight in whole.named_parameters()}
    for step in range(2):  # the second one shows that nothing of the first is left
        sharding.own["second.bias"].requires_grad_(step > 0)
        sharding.begin_step()
        for first in range(0, MICROBATCHES, world.size):
            sharding.begin_round(MICROBATCHES - first)
            loss(net, min(first + world.rank, MICROBATCHES - 1)).backward()
        sharding.take_gradients()
        found["a frozen weight has no gradient"] = found.get(
            "a frozen weight has no gradient", sharding.own["second.bias"].grad is None
        )
    own = {name: weight.grad for name, weight in sharding.own.items()}
    found["gradients add up to one process's bits"] = same_all(sharding.all_joined(own), expected)
    norms = sharding.norms(gradient_norms(list(own.values())))
    reference = torch.stack([each.double().norm() for each in expected.values()])
    found["norms are those of whole gradients"] = norms.tolist() == near(reference.tolist())
    with torch.no_grad():
        for weight in (*sharding.own.values(), *whole.parameters()):
            weight.mul_(2)
        with sharding.gathered():
            # Of other inputs in each process, and more of them in one.
            each = [same(loss(net, n), loss(whole, n)) for n in range(1 + 2 * world.rank)]
            found["gathered weights are those of the optimizer"] = all(each)
    found["numbers are rounded as in the whole weight"] = rounds_alike(sharding, values)
    return found


def rounds_alike(sharding, values):
    sizes = {"weights": 57, "largest": 30}
    extents = [sharding.extents[own] for own in sharding.own.values()]
    firsts = {number: each.first for number, each in enumerate(extents)}
    parts = RoundingNoise(1, 2, **sizes, firsts=firsts)
    whole = RoundingNoise(1, 2, **sizes)
    return all(
        same(
            sharding.joined(name, parts.of(number, own).view(own.shape)),
            whole.of(number, values[name]).view(values[name].shape),
        )
        or not sharding.world.is_first
        for number, (name, own) in enumerate(sharding.own.items())
    )


def same_all(one, other):
    return all(same(one[name], value) for name, value in other.items())


@pytest.mark.parametrize("size", [2, 3])
def test_processes_train_their_rows_as_one_process_trains_the_whole(together, size):
    def first(world):
        world.call("check")
        return [name for name, is_true in checks(world).items() if not is_true]

    assert together(size, first, lambda world: {"check": lambda: checks(world)}) == []
