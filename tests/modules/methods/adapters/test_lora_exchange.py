"""Our LoRA files in other programs' hands, for every base and naming."""

import itertools
from functools import cache
from pathlib import Path

import pytest
import torch
from diffusers import (
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLInpaintPipeline,
    StableDiffusionXLPipeline,
)
from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint
from safetensors.torch import load_file

from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from onetrainer.config.methods.low_rank import Dora
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.errors import UserError
from tests import tiny
from tests.adapters import shake
from tests.batches import TIME_IDS
from tests.cases import cases
from tests.close import close
from tests.exports import export

pytestmark = pytest.mark.usefixtures("real_blocks")

BASES = ("sd15", "sd2", "sdxl")
INPAINTING = ("sd15-inpainting", "sdxl-inpainting")
PIPELINES = {
    "sdxl": StableDiffusionXLPipeline,
    "sd15-inpainting": StableDiffusionInpaintPipeline,
    "sdxl-inpainting": StableDiffusionXLInpaintPipeline,
}


def trained(name: str, *, targets: str = "full", text: bool = True) -> tuple[object, Adapters]:
    """A family with adapters that have an effect, alpha half of the rank."""
    family = tiny.family(name)
    section = LoraSection(rank=4, alpha=2.0, targets=targets, **tiny.encoders(text))
    method = Adapters.attach(family, section, seed=0)
    generator = torch.Generator().manual_seed(1)
    for key, tensor in method.state_dict().items():
        if key.endswith("lora_up.weight"):
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return family, method


@cache
def noisy() -> torch.Tensor:
    return torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(2))


@cache
def masked() -> torch.Tensor:
    """A mask and the latents of what is left, for inpainting models."""
    return torch.randn(1, 5, 8, 8, generator=torch.Generator().manual_seed(4))


def predict(family) -> torch.Tensor:
    """The mask is ignored by models that do not inpaint."""
    conditioning, step = family.encode_text(["a cat"]), torch.tensor([500])
    with torch.no_grad():
        return family.predict(noisy(), step, conditioning, time_ids=TIME_IDS, masked=masked())


def pipeline(folder: Path, name: str):
    kind = PIPELINES.get(name, StableDiffusionPipeline)
    return kind.from_pretrained(folder, local_files_only=True)


def predict_theirs(pipe) -> torch.Tensor:
    given = torch.cat([noisy(), masked()], 1) if pipe.unet.config.in_channels == 9 else noisy()
    with torch.no_grad():
        if isinstance(pipe, StableDiffusionXLPipeline | StableDiffusionXLInpaintPipeline):
            hidden, _, pooled, _ = pipe.encode_prompt("a cat", do_classifier_free_guidance=False)
            added = {"text_embeds": pooled, "time_ids": TIME_IDS}
        else:
            (hidden, _), added = pipe.encode_prompt("a cat", "cpu", 1, False), {}
        return pipe.unet(given, 500, hidden, added_cond_kwargs=added).sample


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Gives the folder of a family with as many blocks as those of the test."""
    home = tmp_path_factory.mktemp("models")

    @cache
    def written(name: str, layers: int) -> Path:
        return tiny.write_folder(home / f"{name}-{layers}", name=name)

    return lambda name: written(name, tiny.layers_per_block)


@pytest.fixture
def few_blocks(monkeypatch) -> None:
    """For naming that follows diffusers' own, which is alike in every block."""
    monkeypatch.setattr(tiny, "layers_per_block", 1)


@pytest.mark.parametrize(
    ("name", "naming"),
    cases(
        itertools.product([*BASES, *INPAINTING], ["kohya", "diffusers"]),
        [("sd15", "diffusers"), ("sdxl-inpainting", "kohya")],
    ),
)
def test_diffusers_computes_with_our_file_what_we_do(tmp_path, folder_of, name, naming):
    family, method = trained(name)
    path = tmp_path / "lora.safetensors"
    export(method, path, dtype=torch.float32, metadata={}, naming=naming)
    pipe = pipeline(folder_of(name), name)
    close(predict_theirs(pipe), predict(tiny.family(name)))
    pipe.load_lora_weights(tmp_path, weight_name=path.name)
    ours, theirs = predict(family), predict_theirs(pipe)
    assert (ours - predict(tiny.family(name))).abs().max() > 0.05
    close(ours, theirs)


@pytest.mark.usefixtures("few_blocks")
@pytest.mark.parametrize("name", cases(BASES, ["sdxl"]))
def test_ranks_and_alphas_of_each_layer_reach_diffusers(tmp_path, folder_of, name):
    # diffusers loses alphas in kohya's form where they differ; in its own none is left to lose.
    family, method = trained(name, text=False)
    names = layer_names(family)
    export(method, tmp_path / "one.safetensors", dtype=torch.float32, metadata={})
    file = read_lora(tmp_path / "one.safetensors", names)
    layers = {}
    for place, (layer, kinds) in enumerate(file.layers.items()):
        rank = 1 + place % 4
        layers[layer] = {
            "lora_down.weight": kinds["lora_down.weight"][:rank],
            "lora_up.weight": kinds["lora_up.weight"][:, :rank],
            "alpha": torch.tensor(1.0 + place % 3),
        }
    mixed = LoraFile(layers, {}, {}, {}, "kohya")
    path = tmp_path / "mixed.safetensors"
    write_lora(path, mixed, names, naming="diffusers", dtype=torch.float32)
    pipe = pipeline(folder_of(name), name)
    pipe.load_lora_weights(tmp_path, weight_name=path.name)

    plain = tiny.family(name)
    modules = dict(plain.unet.named_modules())
    for layer, kinds in layers.items():  # the formula by hand, in float64
        down, up = (kinds[kind].double().flatten(1) for kind in list(kinds)[:2])
        weight = modules[layer.path].weight.data
        change = float(kinds["alpha"]) / len(down) * (up @ down)
        weight.copy_((weight.double() + change.view(weight.shape)).float())
    close(predict_theirs(pipe), predict(plain))


@pytest.mark.parametrize("name", cases([*BASES, *INPAINTING], ["sdxl-inpainting"]))
def test_comfyui_names_are_paths_in_the_original_layout(tmp_path, name):
    family, method = trained(name, text=False)
    export(method, tmp_path / "l.safetensors", dtype=torch.float32, metadata={}, naming="comfyui")
    tensors = load_file(tmp_path / "l.safetensors")
    checkpoint = load_file(tiny.write_single_file(tmp_path / "m.safetensors", name=name))
    for key in [key for key in tensors if key.endswith("lora_A.weight")]:
        layer = key.removesuffix(".lora_A.weight")
        down, up = tensors[key], tensors[f"{layer}.lora_B.weight"]
        weight = checkpoint[f"model.{layer}.weight"]
        weight += (tensors[f"{layer}.alpha"] / 4 * up.flatten(1) @ down.flatten(1)).view_as(weight)
    plain = tiny.family(name)
    plain.unet.load_state_dict(convert_ldm_unet_checkpoint(checkpoint, plain.unet.config))
    close(predict(family), predict(plain))


def test_comfyui_names_text_encoders_as_comfyui_does(tmp_path):
    first = {"sd15": ["clip_l"], "sd2": ["clip_h"], "sdxl": ["clip_g", "clip_l"]}
    for name in BASES:
        _, method = trained(name, targets="attn")
        path = tmp_path / "lora.safetensors"
        export(method, path, dtype=torch.float32, metadata={}, naming="comfyui")
        text = {key for key in load_file(path) if key.startswith("text_encoders.")}
        assert sorted({key.split(".")[1] for key in text}) == first[name]
        last = "transformer.text_model.encoder.layers.0.self_attn.q_proj.lora_A.weight"
        assert all(f"text_encoders.{clip}.{last}" in text for clip in first[name])


@pytest.mark.parametrize("name", cases(BASES, ["sdxl"]))
def test_changing_the_naming_back_and_forth_changes_no_effect(tmp_path, name):
    family, method = trained(name)
    names, path = layer_names(family), tmp_path / "lora.safetensors"
    export(method, path, dtype=torch.float32, metadata={"ss_seed": "7"})
    first = read_lora(path, names)
    for naming in ("diffusers", "kohya", "comfyui", "kohya"):
        write_lora(path, read_lora(path, names), names, naming=naming, dtype=None)
    last = read_lora(path, names)
    metadata = first.metadata | {
        "ss_network_alpha": "4"
    }  # in diffusers' form the rank, and so since
    metadata["ss_network_args"] = '{"conv_dim": "4", "conv_alpha": "4"}'
    assert (last.naming, last.unknown, last.metadata) == ("kohya", {}, metadata)
    assert last.layers.keys() == first.layers.keys()
    for layer, kinds in first.layers.items():
        own = last.layers[layer]
        assert torch.equal(own["lora_down.weight"], kinds["lora_down.weight"])
        # 2 / 4 is a power of two, so that nothing is rounded on the way through diffusers' form.
        assert torch.equal(own["lora_up.weight"], kinds["lora_up.weight"] * 0.5)
        assert "alpha" not in own  # which means the rank


# Of SD 1.5 projections are convolutions, of SDXL linear.
@pytest.mark.usefixtures("few_blocks")
@pytest.mark.parametrize("name", cases(["sd15", "sdxl"], ["sd15"]))
def test_dora_reaches_diffusers_and_comes_back(tmp_path, folder_of, name):
    family, method = trained(name, text=False)
    names, path = layer_names(family), tmp_path / "dora.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    plain = tiny.family(name)
    modules, layers = dict(plain.unet.named_modules()), {}
    for layer, kinds in read_lora(path, names).layers.items():
        weight = modules[layer.path].weight
        length = torch.linalg.vector_norm(weight.flatten(1), dim=1) * 1.3
        scale = length.reshape(-1, *[1] * (weight.ndim - 1))
        layers[layer] = {**kinds, "dora_scale": scale}
        change = 0.5 * kinds["lora_up.weight"].flatten(1) @ kinds["lora_down.weight"].flatten(1)
        changed = weight + change.view(weight.shape)
        norm = torch.linalg.vector_norm(changed.flatten(1), dim=1).reshape(scale.shape)
        weight.data.copy_(changed * scale / norm)
    file = LoraFile(layers, {}, {}, {}, "kohya")
    write_lora(path, file, names, naming="diffusers", dtype=torch.float32)
    pipe = pipeline(folder_of(name), name)
    pipe.load_lora_weights(tmp_path, weight_name=path.name)
    close(predict_theirs(pipe), predict(plain))
    for layer, kinds in read_lora(path, names).layers.items():
        close(kinds["dora_scale"], layers[layer]["dora_scale"])


@pytest.mark.usefixtures("few_blocks")
@pytest.mark.parametrize("name", cases(["sd15", "sdxl"], ["sd15"]))
def test_diffusers_computes_with_dora_of_outputs_what_was_trained(tmp_path, folder_of, name):
    family = tiny.family(name)
    section = Dora(rank=4, alpha=2.0, targets="full", norms="outputs", **tiny.encoders(False))
    method = Adapters.attach(family, section, seed=0)
    shake(method)
    export(method, tmp_path / "d.safetensors", dtype=torch.float32, metadata={}, naming="diffusers")
    pipe = pipeline(folder_of(name), name)
    pipe.load_lora_weights(tmp_path, weight_name="d.safetensors")
    theirs = predict_theirs(pipe)
    assert (theirs - predict(tiny.family(name))).abs().max() > 0.02
    torch.testing.assert_close(theirs, predict(family), atol=2e-5, rtol=1e-4)


def test_what_diffusers_naming_does_not_support_is_refused(tmp_path, family):
    names = layer_names(family)
    layer = names.layers[0]
    plain = {"lora_up.weight": torch.ones(8, 2, 1, 1), "lora_down.weight": torch.ones(2, 4, 3, 3)}
    for kinds, words in (
        ({"lokr_w1": torch.ones(2, 2), "lokr_w2": torch.ones(4, 2)}, "does not support lokr_w1"),
        ({**plain, "lora_mid.weight": torch.ones(2, 2, 3, 3)}, "does not support lora_mid.weight"),
        ({**plain, "dora_scale": torch.ones(1, 4, 1, 1)}, "DoRA scales of its inputs"),
    ):
        file = LoraFile({layer: kinds}, {}, {}, {}, "kohya")
        with pytest.raises(UserError, match=words):
            write_lora(tmp_path / "x.safetensors", file, names, naming="diffusers", dtype=None)
    assert not list(tmp_path.iterdir())
