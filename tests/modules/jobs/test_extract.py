"""The difference of two models as a LoRA, by request: from files to a file."""

import pytest
import torch
from diffusers import StableDiffusionPipeline
from safetensors.torch import load_file, save_file

from modules.jobs.extract import extract as extract_job
from onetrainer.errors import UserError
from onetrainer.jobs.lora_requests import ExtractRequest
from tests import tiny

UNET = "unet/diffusion_pytorch_model.safetensors"


@pytest.fixture
def base(tmp_path):
    return tiny.write_folder(tmp_path / "base")


@pytest.fixture
def tuned(tmp_path):
    """The base with changes of rank 3 in every layer of its UNet, and one of a norm."""
    folder = tiny.write_folder(tmp_path / "tuned")
    generator = torch.Generator().manual_seed(5)
    state = load_file(folder / UNET)
    for name, tensor in state.items():
        if name.endswith("weight") and tensor.ndim > 1:
            rows, columns = tensor.flatten(1).shape
            up = torch.randn(rows, 3, generator=generator)
            change = up @ torch.randn(3, columns, generator=generator)
            state[name] = tensor + 0.05 * change.reshape(tensor.shape)
    save_file(state, folder / UNET)
    return folder


def extract(base, tuned, target, **options):
    request = ExtractRequest(base=str(base), tuned=str(tuned), target=str(target), **options)
    return extract_job(request, lambda event: None).summary


def test_diffusers_computes_with_the_difference_what_the_trained_model_does(tmp_path, base, tuned):
    """To 1e-4: the difference of float32 weights, at the rank that it has."""
    target = tmp_path / "lora.safetensors"
    report = extract(base, tuned, target, rank=3, precision="fp32", to="diffusers")
    assert "of rank 3." in " ".join(report)
    expected, untouched = predict(tuned), predict(base)
    found = predict(base, target)
    assert (expected - untouched).abs().max() > 0.05
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def predict(model, lora=None):
    pipe = StableDiffusionPipeline.from_pretrained(model, safety_checker=None)
    if lora is not None:
        pipe.load_lora_weights(lora.parent, weight_name=lora.name)
    generator = torch.Generator().manual_seed(2)
    noisy = torch.randn(1, 4, 8, 8, generator=generator)
    with torch.no_grad():
        hidden, _ = pipe.encode_prompt("a cat", "cpu", 1, False)
        return pipe.unet(noisy, 500, hidden).sample


def test_norms_and_another_vae_are_named_as_left_out(tmp_path, base, tuned):
    for path, name in (
        (tuned / UNET, "conv_norm_out.weight"),
        (tuned / "vae" / "diffusion_pytorch_model.safetensors", "decoder.conv_in.weight"),
    ):
        state = load_file(path)
        state[name] = state[name] + 1
        save_file(state, path)
    report = " ".join(extract(base, tuned, tmp_path / "lora.safetensors", energy=0.9))
    assert "Left out the changes of 1 norm or bias" in report
    assert "unet.conv_norm_out.weight" in report
    assert "The VAEs differ" in report


def test_equal_models_and_others_are_refused(tmp_path, base):
    same = tiny.write_folder(tmp_path / "same")
    with pytest.raises(UserError, match="the same weights"):
        extract(base, same, tmp_path / "lora.safetensors")
    with pytest.raises(UserError, match="SDXL"):
        extract(base, tiny.write_folder(tmp_path / "xl", name="sdxl"), tmp_path / "a.safetensors")
    assert not list(tmp_path.glob("*.safetensors"))
