import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.loaders.single_file_utils import (
    convert_ldm_unet_checkpoint,
    convert_ldm_vae_checkpoint,
)

from modules.families.components import read_config
from modules.families.sd15 import CONFIGS
from modules.formats.original_layout import (
    MissingTensorsError,
    find_originals,
    original_names,
    to_original,
)


@pytest.mark.parametrize(
    ("component", "model_class", "convert", "count"),
    [
        ("unet", UNet2DConditionModel, convert_ldm_unet_checkpoint, 686),
        ("vae", AutoencoderKL, convert_ldm_vae_checkpoint, 248),
    ],
)
def test_full_size_names_and_shapes_convert_back_by_diffusers_own_code(
    component, model_class, convert, count
):
    config = read_config(CONFIGS / component / "config.json")
    with torch.device("meta"):
        state = model_class.from_config(config).state_dict()
    original = to_original(component, state)
    assert len(original) == count
    back = convert(dict(original), dict(config))
    assert {n: t.shape for n, t in back.items()} == {n: t.shape for n, t in state.items()}


def test_known_names():
    names = original_names(
        "unet",
        [
            "down_blocks.1.downsamplers.0.conv.bias",
            "up_blocks.0.upsamplers.0.conv.weight",
            "up_blocks.1.upsamplers.0.conv.weight",
            "up_blocks.1.attentions.2.norm.weight",
            "mid_block.resnets.1.conv_shortcut.weight",
        ],
    )
    # As in the file that Stable Diffusion 1.x was published in.
    assert [name.removeprefix("model.diffusion_model.") for _, name in sorted(names.items())] == [
        "input_blocks.6.0.op.bias",
        "middle_block.2.skip_connection.weight",
        "output_blocks.2.1.conv.weight",
        "output_blocks.5.1.norm.weight",
        "output_blocks.5.2.conv.weight",
    ]


def test_misshapen_tensor_counts_as_missing():
    ours = {"conv_in.weight": torch.Size((8, 4, 3, 3))}
    name = "model.diffusion_model.input_blocks.0.0.weight"
    assert find_originals("unet", ours, {name: torch.Size((8, 4, 3, 3))})
    with pytest.raises(MissingTensorsError) as caught:
        find_originals("unet", ours, {name: torch.Size((8, 9, 3, 3))})
    assert caught.value.names == [name]
