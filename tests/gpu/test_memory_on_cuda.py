"""The ways of saving a GPU's memory, on one: trained, sampled, resumed bit for bit."""

import json

import pytest
import torch
from torch import nn

from modules.interfaces import ParameterGroup
from modules.optim.build import build_optimizer
from modules.optim.optimizer_state import OptimizerProgress
from onetrainer.config.optimizers.adam import PagedAdamW8bit
from tests import table

pytestmark = pytest.mark.cuda

FUSED_BACKWARD = {
    "optimizer": {"kind": "adamw", "lr": 1e-3, "fused_backward": True},
    "training": {"gradient_clipping": 0.0},
}
WAYS = {
    "8-bit": ("full-bf16", "plain", {"optimizer": {"kind": "adamw8bit"}}),
    "paged": ("full-bf16", "plain", {"optimizer": {"kind": "paged_adamw8bit"}}),
    "4-bit": ("full-bf16", "plain", {"optimizer": {"kind": "adamw4bit"}}),
    "step in backward": ("full-bf16", "plain", FUSED_BACKWARD),
    "EMA in host memory": ("full-bf16", "plain", {"ema": {"use": True, "device": "host"}}),
    "own prediction": ("full-bf16", "rich", {"ema": {"use": True, "device": "host"}}),
    "vae": ("vae", "plain", {"method": {"kind": "vae", "weights": "bf16"}}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_of_saving_memory_trains_and_resumes_exactly(tmp_path, way):
    method, objective, changes = WAYS[way]
    case = table.Case("sd15", method, objective, "bf16")
    assert table.run(case, table.write_project(tmp_path / "p", "sd15"), "cuda", changes) == ""


class Paged:
    """A weight so large that its statistics are paged, and all that moves it."""

    def __init__(self):
        self.weight = nn.Parameter(torch.ones(400, 300, device="cuda"))
        weights = {"weight": self.weight}
        self.optimizer = build_optimizer(PagedAdamW8bit(), [ParameterGroup("unet", weights)])
        self.progress = OptimizerProgress(self.optimizer, weights)

    def go(self, steps):
        for step in steps:
            generator = torch.Generator("cuda").manual_seed(step)
            self.weight.grad = torch.randn(400, 300, device="cuda", generator=generator)
            self.optimizer.step()


def test_paged_statistics_stay_paged_after_a_checkpoint():
    whole, other = Paged(), Paged()
    whole.go(range(3))
    tensors, document = whole.progress.save()
    tensors = {name: tensor.cpu().clone() for name, tensor in tensors.items()}
    assert other.progress.load(tensors, json.loads(json.dumps(document))) == []
    with torch.no_grad():
        other.weight.copy_(whole.weight)
    for name in ("state1", "state2"):
        assert other.optimizer.state[other.weight][name].is_paged
    whole.go(range(3, 6))
    other.go(range(3, 6))
    assert torch.equal(whole.weight, other.weight)
