"""Results on the pretended GPU are the processor's numbers, bit for bit."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests import pretend
from tests.each import each
from tests.stepping import equal

STEPS = 4
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Net(nn.Module):
    """Convolution, norm, attention, dropout and an embedding, one part of them checkpointed."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.words = nn.Embedding(5, 8)
        self.project = nn.Linear(8, 24)
        self.drop = nn.Dropout(0.2)

    def forward(self, pixels, numbers):
        hidden = functional.silu(self.norm(self.first(pixels))).flatten(2).transpose(1, 2)
        hidden = torch.cat([hidden, self.words(numbers)], dim=1)
        return checkpoint(self._attend, hidden, use_reentrant=False)

    def _attend(self, hidden):
        query, key, value = self.project(self.drop(hidden)).chunk(3, dim=-1)
        return functional.scaled_dot_product_attention(query, key, value)


def train(device, dtype, optimizer=torch.optim.AdamW):
    """The weights and losses of a few steps with clipping and a loss scale."""
    torch.manual_seed(3)
    net = Net().to(device)
    moving = optimizer(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**8, enabled=dtype == torch.float16)
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        pixels = torch.randn(2, 3, 4, 4, generator=generator).to(device)
        numbers = torch.tensor([[step, 1], [2, 0]], device=device)
        with torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = net(pixels, numbers).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(moving)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(moving)
        scaler.update()
        moving.zero_grad()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses).cpu()} | {
        name: weight.detach().cpu() for name, weight in net.named_parameters()
    }


@each("precision", DTYPES)
def test_training_gives_the_processors_weights(precision):
    expected = train("cpu", DTYPES[precision])
    with pretend.accelerator() as gpu:
        made = train("cuda", DTYPES[precision])
    assert equal(made, expected)
    assert gpu.to_device.count > STEPS


@pytest.mark.parametrize("name", ["SGD", "RAdam"])
def test_optimizers_make_the_processors_steps(name):
    kind = getattr(torch.optim, name)
    with pretend.accelerator():
        made = train("cuda", None, kind)
    assert equal(made, train("cpu", None, kind))


def test_fused_and_foreach_steps_work_on_the_gpu_too():
    for way in ({"fused": True}, {"foreach": True}):
        with pretend.accelerator():
            net = nn.Linear(3, 3).to("cuda")
            optimizer = torch.optim.AdamW(net.parameters(), **way)
            net(torch.ones(1, 3, device="cuda")).sum().backward()
            optimizer.step()
            assert optimizer.state[net.weight]["exp_avg"].device.type == "cuda"


def test_the_loss_scale_falls_when_gradients_overflow():
    with pretend.accelerator():
        weight = nn.Parameter(torch.ones(2, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
        scaler.scale((weight * torch.inf).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 2.0
        assert weight.tolist() == [1, 1]
