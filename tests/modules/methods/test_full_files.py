"""What full fine-tuning writes, read by diffusers and by our own loader, tensor for tensor."""

import itertools
import shutil

import pytest
import torch
from diffusers import (
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLInpaintPipeline,
    StableDiffusionXLPipeline,
)
from safetensors import safe_open
from safetensors.torch import load_file

from modules.families.components import load_vae
from modules.formats.files import files
from modules.interfaces import ExportOptions
from modules.methods.layers.layer_presets import unread_layers
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.errors import UserError
from onetrainer.families.registry import base_of
from onetrainer.families.stable_diffusion import SD15
from tests import tiny
from tests.cases import cases
from tests.modules.methods.sources import attach, shake, states, write_origin

pytestmark = pytest.mark.usefixtures("real_blocks")

PIPELINES = {
    "sd15": StableDiffusionPipeline,
    "sd15-inpainting": StableDiffusionInpaintPipeline,
    "sd2": StableDiffusionPipeline,
    "sd2-inpainting": StableDiffusionInpaintPipeline,
    "sdxl": StableDiffusionXLPipeline,
    "sdxl-inpainting": StableDiffusionXLInpaintPipeline,
}
SECTION = FullSection(weights="fp32", targets="attn", **tiny.encoders(True))
FP32 = ExportOptions(dtype=torch.float32, metadata={"modelspec.title": "mine"})
FOLDER = ExportOptions(dtype=torch.float32, metadata={}, model_format="diffusers")
OPTIONS = {"file": FP32, "folder": FOLDER}


def components(pipeline, name):
    """Every tensor of a pipeline of diffusers, by part."""
    encoders = {"te": pipeline.text_encoder}
    if base_of(name) == "sdxl":
        encoders = {"te1": pipeline.text_encoder, "te2": pipeline.text_encoder_2}
    components = {"unet": pipeline.unet, "vae": pipeline.vae, **encoders}
    return {
        f"{part}.{key}": tensor
        for part, module in components.items()
        for key, tensor in module.state_dict().items()
    }


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, other[name])] == []


@pytest.mark.parametrize(
    ("name", "layout", "written_as"),
    cases(
        itertools.product(tiny.FAMILIES, OPTIONS, OPTIONS),
        [("sd2-inpainting", "file", "folder"), ("sdxl", "folder", "file")],
    ),
)
def test_the_written_model_holds_what_was_trained_and_nothing_else_has_changed(
    tmp_path, name, layout, written_as
):
    options = OPTIONS[written_as]
    origin = write_origin(tmp_path, name, layout)
    # Frozen parts computed in bf16: what is written of them must not have gone through it.
    family, method = attach(origin, SECTION, dtype=torch.bfloat16)
    shake(method)
    (written,) = method.export(tmp_path / "mine", options)
    expected = states(tiny.family(name))
    # The keys may lack the level `text_model`, as the library's version has it.
    unread = tuple(
        f"{layer.component}.{layer.path.removeprefix('text_model.')}."
        for layer in unread_layers(family)
    )
    for key, tensor in states(family).items():
        is_chosen = ".attn" in key or ".self_attn." in key
        if is_chosen and not key.replace("text_model.", "").startswith(unread):
            assert not torch.equal(tensor, expected[key])
            expected[key] = tensor
    assert_same(states(origin.load(path=written)), expected)
    load = PIPELINES[name]
    if written_as == "folder":
        pipeline = load.from_pretrained(written, local_files_only=True)
    else:
        home = tmp_path / "base" if layout == "folder" else origin.configs / base_of(name)
        pipeline = load.from_single_file(written, config=str(home), local_files_only=True)
    assert_same(components(pipeline, name), expected)


@pytest.fixture(scope="module")
def old_file(tmp_path_factory):
    """An old single file of SD 1.5, and a method that trains some of its layers."""
    origin = write_origin(tmp_path_factory.mktemp("old-file"), "sd15", "file")
    return origin, attach(origin, SECTION)[1]


@pytest.mark.parametrize("dtype", cases([torch.float16, torch.bfloat16], [torch.float16]))
def test_every_weight_is_rounded_once_from_what_was_trained_or_its_file(tmp_path, dtype):
    origin = write_origin(tmp_path, "sd15", "file")
    other = torch.float16 if dtype == torch.bfloat16 else torch.bfloat16
    _, method = attach(origin, SECTION, dtype=other)
    shake(method)
    (half,) = method.export(tmp_path / "half", ExportOptions(dtype=dtype, metadata={}))
    (full,) = method.export(tmp_path / "full", FP32)
    written, exact = load_file(half), load_file(full)
    assert written.keys() == exact.keys()
    for name, tensor in exact.items():
        assert torch.equal(
            written[name], tensor.to(dtype) if tensor.is_floating_point() else tensor
        )


def test_marks_of_velocity_and_zero_terminal_snr_and_extras_are_carried_over(tmp_path):
    v = {"prediction": "v_prediction", "zero_terminal_snr": True}
    origin = write_origin(tmp_path, "sd2", "folder", **v)
    _, method = attach(origin, SECTION)
    (written,) = method.export(tmp_path / "mine", FP32)
    with safe_open(written, "pt") as file:
        assert {"v_pred", "ztsnr"} <= set(file.keys())
        assert file.metadata()["modelspec.title"] == "mine"
    family = origin.load(path=written)
    assert family.process.prediction == "v_prediction"
    assert family.process.settings.zero_terminal_snr


def test_position_ids_of_an_old_file_are_kept(tmp_path, old_file):
    origin, method = old_file
    (written,) = method.export(tmp_path / "mine", FP32)
    assert load_file(written).keys() == load_file(origin.section.path).keys()


def test_another_vae_is_written_with_the_model_it_was_trained_with(tmp_path, old_file):
    origin, _ = old_file
    other = tiny.write_folder(tmp_path / "other", tiny.components(9)) / "vae"
    section = origin.section.model_copy(update={"vae": str(other)})
    origin = type(origin)(section, origin.configs)
    _, method = attach(origin, SECTION)
    (written,) = method.export(tmp_path / "mine", FP32)
    vae = load_vae(written, SD15.vae, origin.configs / "sd15").state_dict()
    assert_same(dict(vae), dict(tiny.components(9).vae.state_dict()))


@pytest.mark.parametrize("options", [FP32, FOLDER], ids=["file", "folder"])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, options, old_file):
    _, method = old_file
    method.export(tmp_path / "out" / "mine", options)
    before = sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "out").rglob("*"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(UserError, match="are needed, and the disk has 1 kB free"):
        method.export(tmp_path / "out" / "mine", options)
    assert sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "out").rglob("*")) == before
