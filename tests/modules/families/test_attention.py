"""Plain attention computes what diffusers' usual one does, to the last bit."""

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor2_0

from modules.families.attention import use_plain_attention
from tests import tiny
from tests.batches import time_ids_of
from tests.each import each


def layers(network):
    return [layer for layer in network.modules() if isinstance(layer, Attention)]


def prediction_and_gradients(family):
    family.unet.requires_grad_(True)
    noisy = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        text = family.encode_text(["a cat", "two dogs"])
    ids = time_ids_of(2)
    predicted = family.predict(noisy, torch.tensor([20, 500]), text, time_ids=ids)
    predicted.square().mean().backward()
    return predicted.detach(), [weight.grad.clone() for weight in family.unet.parameters()]


@each("name", ["sd15", "sd2", "sdxl"])
def test_predictions_and_gradients_are_those_of_the_library(name):
    found, usual = tiny.family(name), tiny.family(name)
    usual.unet.set_attn_processor(AttnProcessor2_0())
    assert all(type(each.processor) is not AttnProcessor2_0 for each in layers(found.unet))
    torch.testing.assert_close(
        prediction_and_gradients(found), prediction_and_gradients(usual), rtol=0, atol=0
    )


def test_layers_with_anything_special_keep_the_librarys():
    special = [
        Attention(8, heads=2, dim_head=4, residual_connection=True),
        Attention(8, heads=2, dim_head=4, rescale_output_factor=2.0),
        Attention(8, heads=2, dim_head=4, qk_norm="layer_norm"),
        Attention(8, heads=2, dim_head=4, norm_num_groups=4),
        Attention(8, heads=2, dim_head=4, kv_heads=1),
    ]
    for layer in special:
        use_plain_attention(layer)
        assert type(layer.processor) is AttnProcessor2_0
