"""The layers of each family: all of them, once, in the order in which they are computed."""

import torch
from diffusers.models.attention import BasicTransformerBlock
from diffusers.models.attention_processor import Attention
from diffusers.models.resnet import ResnetBlock2D

from tests import tiny
from tests.adapters import predict
from tests.each import each


@each("name", tiny.FAMILIES)
def test_layers_are_listed_in_the_order_in_which_they_are_computed(name):
    family = tiny.family(name)
    listed = family.layers()
    assert listed.keys() == {"unet", *family.text_encoders, "vae"}
    computed = []
    for own in listed.values():
        for layer in own:
            layer.register_forward_hook(lambda layer, *_: computed.append(layer))
    predict(family)
    family.decode_latents(torch.zeros(1, 4, 8, 8))
    order = [*family.text_encoders, "unet", "vae"]
    expected = [layer for part in order for layer in listed[part]]
    assert list(map(id, computed)) == list(map(id, expected))


@each("name", ["sd15", "sd2", "sdxl"])
def test_no_block_is_left_out(name):
    family = tiny.family(name)
    listed = family.layers()
    unet = [
        m for m in family.unet.modules() if isinstance(m, ResnetBlock2D | BasicTransformerBlock)
    ]
    decoder = [m for m in family.vae.decoder.modules() if isinstance(m, ResnetBlock2D | Attention)]
    assert set(map(id, listed["unet"])) == set(map(id, unet))
    assert set(map(id, listed["vae"])) == set(map(id, decoder))
    for part, encoder in family.text_encoders.items():
        assert len(listed[part]) == encoder.config.num_hidden_layers


def test_the_first_block_of_the_middle_is_a_layer_though_diffusers_never_checkpoints_it():
    family = tiny.family()
    assert family.unet.mid_block.resnets[0] in family.layers()["unet"]
