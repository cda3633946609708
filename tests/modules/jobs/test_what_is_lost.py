"""Nothing of a change is lost without a word: each tensor of a file is carried, or named."""

import re

import pytest
import torch
from peft.utils.other import get_pattern_key
from safetensors.torch import load_file, save_file

from modules.formats.embeddings.convert_embedding import convert_embedding
from modules.formats.lora.lora_file import read_lora
from modules.jobs.merge import merge
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import merge_loras
from onetrainer.errors import UserError
from onetrainer.jobs.lora_requests import MergeRequest
from onetrainer.jobs.sample_request import SampledLora
from onetrainer.model_files.adapter_settings import alpha_of
from tests import adapters, tiny
from tests.close import close, near
from tests.each import each

ATTENTION = "mid_block.attentions.0.transformer_blocks.0.attn1"
OUT, KEY, NORM = f"{ATTENTION}.to_out.0", f"{ATTENTION}.to_k", "conv_norm_out"
STRANGE = "lora_te_text_model_encoder_layers_9_self_attn"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.write_folder(tmp_path_factory.mktemp("models") / "base")


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


def lora(path, layer=OUT, rank=2, **more):
    """A file with a LoRA of one layer of the small model, and more tensors of that layer."""
    sides = dict(tiny.family().unet.named_modules())[layer].weight.shape
    name = f"unet.{layer}"
    tensors = {f"{name}.lora_A.weight": noise(rank, sides[1])}
    tensors |= {f"{name}.lora_B.weight": noise(sides[0], rank)}
    tensors |= {f"{name}.{kind.replace('__', '.')}": each for kind, each in more.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)
    return path


def run(tmp_path, source, **options):
    loras = [SampledLora(path=str(source), strength=1)]
    request = MergeRequest(target=str(tmp_path / "out.safetensors"), loras=loras, **options)
    return "\n".join(merge(request, lambda event: None).summary)


def test_pefts_bias_is_a_change_of_the_layers_bias(tmp_path, base):
    bias = noise(tiny.family().unet.get_submodule(OUT).bias.numel())
    source = lora(tmp_path / "in.safetensors", alpha=torch.tensor([4.0]), lora_B__bias=bias)
    said = run(tmp_path, source, base=str(base), to="diffusers")
    assert "1 change of a bias or norm" in said
    assert "Nothing of the change was lost" in said
    close(load_file(tmp_path / "out.safetensors")[f"unet.{OUT}.lora_B.bias"], 2 * bias)
    family, before = tiny.family(), tiny.family().unet.get_submodule(OUT)
    assert merge_loras(family, [(read_lora(source, layer_names(family)), 1)]) == []
    merged, tensors = family.unet.get_submodule(OUT), load_file(source)
    up, down = (tensors[f"unet.{OUT}.lora_{side}.weight"] for side in "BA")
    close(merged.bias, before.bias + 2 * bias, of=bias)
    close(merged.weight, before.weight + 2 * up @ down)


def test_a_bias_without_a_place_is_named_with_its_share(tmp_path, base):
    size = tiny.family().unet.get_submodule(KEY).weight.shape[0]
    source = lora(tmp_path / "in.safetensors", KEY, lora_B__bias=noise(size))
    tensors = load_file(source)
    up, down = (tensors[f"unet.{KEY}.lora_{side}.weight"] for side in "BA")
    lost, kept = float(noise(size).square().sum()), float((up @ down).square().sum())
    baked = run(tmp_path, source, into=str(base), to="original")
    assert "Nothing of the change was lost" not in baked
    family = tiny.family()
    (note,) = merge_loras(family, [(read_lora(source, layer_names(family)), 1)])
    for said in (baked, note):
        share = re.search(r"(\d+\.\d\d)% of the change's energy", said)
        assert share and share[1] == f"{100 * lost / (lost + kept):.2f}"


def test_norms_alone_are_something(tmp_path, base):
    source = tmp_path / "in.safetensors"
    size = tiny.family().unet.get_submodule(NORM).weight.numel()
    save_file({f"lora_unet_out_0.{kind}": noise(size) for kind in ("w_norm", "b_norm")}, source)
    said = run(tmp_path, source, base=str(base))
    assert "Nothing is left" not in said
    assert said.endswith("2 changes of biases and norms, kept as they are.\n"
                         "Nothing of the change was lost.")  # fmt: skip
    assert len(load_file(tmp_path / "out.safetensors")) == 2


def test_layers_that_no_model_has_are_lost_with_their_share(tmp_path, base):
    source = lora(tmp_path / "in.safetensors")
    tensors = load_file(source)
    down, up = (tensors[f"unet.{OUT}.lora_{side}.weight"] for side in "AB")
    tensors |= {f"{STRANGE}.lora_down.weight": down.clone()}
    tensors |= {f"{STRANGE}.lora_up.weight": up.clone()}
    save_file(tensors, source)
    for option in ({"base": str(base)}, {"into": str(base), "to": "original"}):
        said = run(tmp_path, source, overwrite=True, **option)
        assert "50.00% of the change's energy" in said
        assert f"100.00% in unknown.{STRANGE}" in said


def test_training_goes_on_from_the_rank_of_each_layer_and_names_what_it_leaves_out(tmp_path):
    source = lora(tmp_path / "in.safetensors", rank=3, lora_B__bias=noise(32))
    tensors = load_file(source) | load_file(lora(tmp_path / "other.safetensors", KEY, rank=1))
    size = tiny.family().unet.get_submodule(OUT).weight.shape[0]
    tensors[f"unet.{OUT}.lora_B.bias"] = noise(size)
    save_file(tensors, source)
    section = adapters.section("lora", rank=0, start_from=str(source))
    method = Adapters.attach(tiny.family(), section, seed=0)
    ranks = {plan.layer.path: plan.rank for plan in method.plans.values()}
    assert (ranks[OUT], ranks[KEY]) == (3, 1)
    assert any("biases and norms" in n and "% of the change's energy" in n for n in method.notes)


def test_an_embedding_beside_a_bundled_one_is_not_left_out(tmp_path):
    source, target = tmp_path / "two.safetensors", tmp_path / "out.safetensors"
    save_file({"clip_l": noise(2, 8), "clip_g": noise(2, 8), "bundle_emb.cat.clip_l": noise(1, 8)},
              source)  # fmt: skip
    with pytest.raises(UserError, match="holds 2 embeddings: cat, two"):
        convert_embedding(source, target)
    convert_embedding(source, target, name="two")
    assert load_file(target).keys() == {"clip_l", "clip_g"}


@each(
    ("patterns", "layer"),
    [
        ({"to_q": 1, ".*": 3}, "down.attn1.to_q"),
        ({"attn1.to_q": 1}, "down.xattn1.to_q"),
        ({r"down\.\d+\.to_k": 2}, "unet.down.11.to_k"),
        ({"^mid.to_q": 5}, "mid.to_q"),
        ({"^mid.to_q": 5}, "a.mid.to_q"),
        ({"to_": 5}, "a.to_q"),
        ({"a|b": 5}, "x.b"),
    ],
)
def test_alphas_match_layers_as_peft_matches_them(patterns, layer):
    expected = patterns.get(get_pattern_key(patterns, layer), 7)
    settings = {"lora_alpha": 7, "alpha_pattern": patterns}
    assert alpha_of(settings, "unet", layer, 4) == near(expected)
