import pytest
import torch
from lycoris.wrapper import network_module_dict
from torch import nn

from modules.methods.adapters.weight_formulas import merged_bias, merged_weight
from tests.close import close
from tests.each import each

LAYERS = {
    "linear": lambda: nn.Linear(24, 16),
    "conv": lambda: nn.Conv2d(12, 16, 3, padding=1),
    "conv1x1": lambda: nn.Conv2d(12, 16, 1),
}
INPUTS = {"linear": (2, 5, 24), "conv": (2, 12, 6, 6), "conv1x1": (2, 12, 6, 6)}
# Strengths other than 1 only where LyCORIS' own meaning is the published one.
KINDS = {
    "lora": ("lora", {}, (1.0, 0.7)),
    "lora-tucker": ("lora", {"use_tucker": True}, (1.0, 0.7)),
    "dora-out": ("lora", {"weight_decompose": True, "wd_on_out": True}, (1.0,)),
    "dora-in": ("lora", {"weight_decompose": True, "wd_on_out": False}, (1.0,)),
    "loha": ("loha", {}, (1.0, 0.7)),
    "loha-tucker": ("loha", {"use_tucker": True}, (1.0, 0.7)),
    "loha-dora": ("loha", {"weight_decompose": True, "wd_on_out": True}, (1.0,)),
    "lokr": ("lokr", {"factor": 4}, (1.0, 0.7)),
    "lokr-both": ("lokr", {"factor": 4, "decompose_both": True}, (1.0, 0.7)),
    "lokr-whole": ("lokr", {"factor": 4, "full_matrix": True}, (1.0, 0.7)),
    "lokr-tucker": ("lokr", {"factor": 2, "use_tucker": True}, (1.0, 0.7)),
    "oft": ("diag-oft", {}, (1.0, 0.7)),
    "oft-constrained": ("diag-oft", {"constraint": 0.01}, (1.0, 0.7)),
    "oft-rescaled": ("diag-oft", {"rescaled": True}, (1.0,)),
    "boft": ("boft", {}, (1.0, 0.7)),
    "boft-rescaled": ("boft", {"rescaled": True}, (1.0,)),
    "glora": ("glora", {}, (1.0, 0.7)),
    "full": ("full", {}, (1.0, 0.7)),
    "ia3-in": ("ia3", {"train_on_input": True}, (1.0, 0.7)),
    "ia3-out": ("ia3", {"train_on_input": False}, (1.0, 0.7)),
}


def train_a_little(module) -> None:
    """Gives an adapter an effect; fresh ones have none."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator) * 0.3
        parameter.data.copy_(noise.abs() + 0.5 if "scale" in name else noise)


@each("layer", LAYERS)
@each("kind", KINDS)
def test_merged_weight_computes_what_lycoris_own_module_does(kind, layer):
    algorithm, options, strengths = KINDS[kind]
    for strength in strengths:
        torch.manual_seed(0)
        plain = LAYERS[layer]()
        weight, bias = plain.weight.detach().clone(), plain.bias.detach().clone()
        module = network_module_dict[algorithm](
            "x", plain, multiplier=strength, lora_dim=4, alpha=2, bypass_mode=False, **options
        )
        train_a_little(module)
        kinds = {key: tensor.detach() for key, tensor in module.state_dict().items()}
        if algorithm == "full":  # which otherwise takes the layer's weight into itself
            module.is_diff, plain.forward = True, module.forward
            kinds = {"diff": module.weight.detach(), "diff_b": module.bias.detach()}
        else:
            module.apply_to()
        given = torch.randn(INPUTS[layer])
        with torch.no_grad():
            expected = plain(given)
        new = merged_weight(weight, kinds, strength), merged_bias(bias, kinds, strength)
        merged = LAYERS[layer]()
        merged.load_state_dict({"weight": new[0], "bias": new[1]})
        assert (new[0] - weight).abs().max() > 0.01
        close(merged(given), expected)


def test_dora_of_half_strength_goes_half_the_way():
    # As ComfyUI does: W + strength (m (W + change) / |W + change| - W).
    generator = torch.Generator().manual_seed(0)
    weight, up, down, scale = (
        torch.randn(*shape, generator=generator) for shape in ((6, 5), (6, 2), (2, 5), (6, 1))
    )
    kinds = {"lora_up.weight": up, "lora_down.weight": down, "dora_scale": scale}
    full = merged_weight(weight, kinds, 1.0)
    length = (weight + up @ down).norm(dim=1, keepdim=True)
    close(full, (weight + up @ down) / length * scale)
    close(merged_weight(weight, kinds, 0.5), (weight + full) / 2)


@each(
    "kinds",
    [
        {"lora_up.weight": torch.ones(4, 2), "lora_down.weight": torch.ones(2, 7)},
        {"diff": torch.ones(3, 3)},
        {"novelty": torch.ones(4, 5)},
    ],
)
def test_adapters_of_another_shape_or_of_no_known_kind_are_refused(kinds):
    with pytest.raises(ValueError, match=r"change of shape|unknown kind of adapter"):
        merged_weight(torch.ones(4, 5), kinds, 1.0)
