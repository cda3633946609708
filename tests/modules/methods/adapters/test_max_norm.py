"""The largest norm of adapters' changes, against the formula of sd-scripts in float64."""

import torch

from modules.methods.adapters.adapters import Adapters
from tests import tiny
from tests.adapters import section, shake
from tests.close import close
from tests.each import each

MAX = 0.5


def changes(state: dict[str, torch.Tensor], scales: dict[str, float]) -> dict[str, torch.Tensor]:
    """The change of each layer in float64, by the definition of its kind of adapter."""
    layers: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in state.items():
        layer, _, key = name.partition(".")
        layers.setdefault(layer, {})[key.removesuffix(".weight")] = tensor.double().flatten(1)
    return {layer: scales[layer] * _product(tensors) for layer, tensors in layers.items()}


def _product(t: dict[str, torch.Tensor]) -> torch.Tensor:
    if "lora_up" in t:
        return t["lora_up"] @ t["lora_down"]
    if "hada_w1_a" in t:
        return (t["hada_w1_a"] @ t["hada_w1_b"]) * (t["hada_w2_a"] @ t["hada_w2_b"])
    w1, w2 = (t[w] if w in t else t[f"{w}_a"] @ t[f"{w}_b"] for w in ("lokr_w1", "lokr_w2"))
    return torch.kron(w1, w2)


@each("kind", ["lora", "loha", "lokr", "lokr-both", "lokr-whole"])
def test_larger_changes_get_the_norm_and_smaller_ones_keep_their_bits(kind):
    wanted = section(kind, targets="named", layers=[{"pattern": "down_blocks.1"}], max_norm=MAX)
    method = Adapters.attach(tiny.family(), wanted, seed=0)
    shake(method, scale=0.4)
    scales = {name: each.scale for name, each in method.adapters["unet"].items()}
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    method.after_step()
    was, now = changes(before, scales), changes(method.state_dict(), scales)
    factors = {layer: min(1.0, MAX / float(was[layer].norm())) for layer in was}
    assert any(factor < 1 for factor in factors.values())
    for layer, change in now.items():
        close(change, was[layer] * factors[layer], dtype=torch.float32)
    for name, tensor in method.state_dict().items():
        layer = name.partition(".")[0]
        count = sum(other.partition(".")[0] == layer for other in before)
        factor = factors[layer] ** (1 / count)  # the square root for LoRA, as sd-scripts
        close(tensor, before[name] * factor)
        assert factor < 1 or torch.equal(tensor, before[name])
