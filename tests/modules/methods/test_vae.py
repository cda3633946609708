"""Training a VAE's decoder, and the files it is written to."""

import itertools
import json

import pytest
import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file

from modules.families.components import load_vae
from modules.interfaces import ExportOptions
from modules.methods.vae import VaeDecoder
from onetrainer.config.methods.full import Vae as VaeSection
from onetrainer.families.registry import base_of
from onetrainer.families.stable_diffusion import SD15
from onetrainer.model_files.inspection import inspect_model
from tests import tiny
from tests.cases import cases
from tests.modules.methods.sources import shake, states, write_origin

CPU = torch.device("cpu")
FP32 = ExportOptions(dtype=torch.float32, metadata={"modelspec.title": "mine"})
FOLDER = ExportOptions(dtype=torch.float32, metadata={}, model_format="diffusers")


@pytest.fixture(scope="module")
def old_file(tmp_path_factory):
    return write_origin(tmp_path_factory.mktemp("old-file"), "sd15", "file")


def attached(origin, weights="fp32", **options):
    family = origin.load(dtype=torch.bfloat16)
    section = VaeSection(weights=weights)
    return family, VaeDecoder.attach(family, section, source=origin.source, **options)


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, other[name])] == []


def test_the_decoder_trains_and_the_encoder_stays(family):
    method = VaeDecoder.attach(family, VaeSection(), source=None)
    (group,) = method.parameter_groups()
    assert group.component == "vae"
    assert group.parameters.keys() == method.state_dict().keys()
    before = states(family)
    optimizer = torch.optim.AdamW(group.parameters.values(), lr=1e-3)
    latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        family.decode_unclamped(latents).square().mean().backward()
        optimizer.step()
    moved = {name for name, now in states(family).items() if not torch.equal(now, before[name])}
    assert moved == method.state_dict().keys()
    starts = ("vae.decoder.", "vae.post_quant_conv.")
    assert moved == {name for name in before if name.startswith(starts)}


def test_bf16_decoder_leaves_the_encoder_and_its_latents_as_they_are(family):
    pixels = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    before = family.encode_images(pixels)
    method = VaeDecoder.attach(family, VaeSection(weights="bf16"), source=None)
    after = family.encode_images(pixels)
    assert {tensor.dtype for tensor in method.state_dict().values()} == {torch.bfloat16}
    assert torch.equal(before.mean, after.mean)
    assert torch.equal(before.std, after.std)
    decoded = family.decode_unclamped(after.mean)
    assert decoded.dtype == torch.float32
    exact = tiny.family().decode_unclamped(after.mean)
    assert (decoded - exact).norm() < 0.05 * exact.norm()  # 8 bits through some thirty layers


@pytest.mark.parametrize(
    ("name", "layout"),
    cases(
        itertools.product(["sd15", "sd2", "sd15-inpainting"], ["file", "folder"]),
        [("sd2", "file")],
    ),
)
def test_a_file_in_the_original_layout_comes_back_exactly(tmp_path, name, layout):
    origin = write_origin(tmp_path, name, layout)
    family, method = attached(origin)
    shake(method)
    (written,) = method.export(tmp_path / "mine", FP32)
    assert written == tmp_path / "mine.safetensors"
    expected = dict(family.vae.state_dict())
    configs = origin.configs / base_of(name)
    assert_same(dict(load_vae(written, SD15.vae, configs).state_dict()), expected)
    theirs = AutoencoderKL.from_single_file(
        str(written), config=str(configs), subfolder="vae", local_files_only=True
    )
    assert_same(dict(theirs.state_dict()), expected)
    names = load_file(written)
    assert "encoder.mid.block_1.norm1.weight" in names  # what A1111 and ComfyUI look for
    assert names["decoder.mid.attn_1.q.weight"].ndim == 4
    assert inspect_model(written).kind == "vae"


def test_a_diffusers_folder_comes_back_exactly(tmp_path, old_file):
    origin = old_file
    family, method = attached(origin)
    shake(method)
    assert method.export(tmp_path / "mine", FOLDER) == [tmp_path / "mine"]
    expected = dict(family.vae.state_dict())
    theirs = AutoencoderKL.from_pretrained(tmp_path / "mine", local_files_only=True)
    assert_same(dict(theirs.state_dict()), expected)
    ours = load_vae(tmp_path / "mine", SD15.vae, origin.configs / "sd15")
    assert_same(dict(ours.state_dict()), expected)
    again = states(origin.load(vae=tmp_path / "mine"))
    assert torch.equal(again["vae.decoder.conv_in.weight"], expected["decoder.conv_in.weight"])


def test_another_vae_is_the_one_that_is_written(tmp_path, old_file):
    origin = old_file
    folder = tiny.write_folder(tmp_path / "other", tiny.components(9)) / "vae"
    config = json.loads((folder / "config.json").read_text()) | {"scaling_factor": 0.5}
    (folder / "config.json").write_text(json.dumps(config))
    section = origin.section.model_copy(update={"vae": str(folder)})
    _, method = attached(type(origin)(section, origin.configs))
    method.export(tmp_path / "mine", FOLDER)
    written = AutoencoderKL.from_pretrained(tmp_path / "mine", local_files_only=True)
    assert_same(dict(written.state_dict()), dict(tiny.components(9).vae.state_dict()))
    assert written.config.scaling_factor == 0.5


def test_state_is_put_back_and_base_model_decodes_as_before(family):
    latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = family.decode_unclamped(latents)
    method = VaeDecoder.attach(family, VaeSection(), source=None, keep_original=CPU)
    kept = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    shake(method)
    with method.base_model():
        assert torch.equal(family.decode_unclamped(latents), expected)
    assert not torch.equal(family.decode_unclamped(latents), expected)
    method.load_state_dict(kept)
    assert torch.equal(family.decode_unclamped(latents), expected)
