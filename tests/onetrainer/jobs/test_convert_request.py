from itertools import product

import pytest
import torch
from safetensors.torch import save_file

from onetrainer.__main__ import main
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest, examine
from tests import tiny
from tests.each import each

LORA = {
    "lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": torch.zeros(2, 4, 1, 1),
    "lora_unet_mid_block_attentions_0_proj_in.lora_up.weight": torch.zeros(4, 2, 1, 1),
}
BUNDLED = {"bundle_emb.cat.clip_l": torch.zeros(2, 768)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("sources")
    tiny.write_single_file(folder / "model.safetensors")
    save_file(LORA | BUNDLED, folder / "lora.safetensors")
    save_file({"emb_params": torch.zeros(2, 768)}, folder / "embedding.safetensors")
    return folder


def request(folder, kind, target="out.safetensors", **options):
    source = str(folder / f"{kind}.safetensors")
    return ConvertRequest(source=source, target=str(folder / target), **options)


@each(
    ("kind", "options", "named"),
    [
        ("lora", {"vae": "v.safetensors", "ema": True}, "a LoRA; --vae, --ema"),
        ("lora", {"prediction": "v_prediction"}, "--prediction"),
        ("lora", {"zero_terminal_snr": "on"}, "--zero-terminal-snr"),
        ("lora", {"name": "cat", "to": "comfyui"}, "an embedding in a LoRA's file; --to"),
        ("embedding", {"bundle": ("b.safetensors",)}, "--bundle"),
        ("embedding", {"to": "kohya"}, "an embedding; --to"),
        ("embedding", {"family": "sdxl", "ema": True}, "--family, --ema"),
        ("model", {"name": "cat"}, "an SD 1.5 model; --name"),
    ],
)
def test_option_that_a_kind_does_not_have_is_refused(sources, kind, options, named):
    with pytest.raises(UserError, match=f"{named} cannot be used with it"):
        examine(request(sources, kind, **options))


@each(
    ("kind", "options"),
    [
        ("lora", {"to": "comfyui", "family": "sd15", "precision": "fp16", "overwrite": True}),
        ("lora", {"name": "cat"}),
        ("lora", {"bundle": ("one.safetensors", "two.pt")}),
        ("embedding", {"name": "dog", "precision": "bf16", "overwrite": True}),
        ("model", {"to": "original", "family": "sd15", "prediction": "v_prediction", "ema": True}),
    ],
)
def test_options_of_a_kind_are_taken(sources, kind, options):
    assert examine(request(sources, kind, **options)).path.stem == kind


@each("kind, target", product(("lora", "embedding"), ("out.pt", "out")))
def test_file_that_is_written_as_safetensors_is_called_so(sources, kind, target):
    with pytest.raises(UserError, match=r"written as \.safetensors only") as caught:
        examine(request(sources, kind, target))
    assert caught.value.remedy == "Use out.safetensors"


def test_other_vae_is_examined_first(sources):
    with pytest.raises(UserError, match="Expected a VAE, or a model with one") as caught:
        examine(request(sources, "model", vae=str(sources / "lora.safetensors")))
    assert "a LoRA" in str(caught.value)


def test_what_is_no_model_is_reported_with_its_kind(sources):
    save_file({"decoder.conv_in.weight": torch.zeros(4, 4, 3, 3)}, sources / "vae.safetensors")
    with pytest.raises(UserError, match="a VAE alone"):
        examine(request(sources, "vae"))


def test_shell_names_the_options_of_what_does_not_fit(sources, capsys):
    source = str(sources / "model.safetensors")
    assert main(["convert", source, str(sources / "x"), "--name", "cat"]) == 2
    assert "--name cannot be used with it" in capsys.readouterr().err
    vae = str(sources / "lora.safetensors")
    assert main(["convert", source, str(sources / "x"), "--vae", vae]) == 2
    assert "Here, model.vae is --vae." in capsys.readouterr().err


def test_no_source_is_ever_written(sources):
    out = str(sources / "out.safetensors")
    for options in ({"vae": out}, {"bundle": (out,)}):
        with pytest.raises(UserError, match=r"this would overwrite out\.safetensors"):
            examine(request(sources, "lora", overwrite=True, **options))
