"""The one reader of adapters, by headers alone."""

import pytest

from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import adapter_name, split
from onetrainer.model_files.adapter_layers import adapter_layers, kind_of, spelled_alike
from onetrainer.tensor_files.entries import TensorEntry
from tests.each import each

LAYER = "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"
KOHYA = "lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k"
PAIR = {"lora_down.weight": (4, 8), "lora_up.weight": (6, 4)}
LOKR = {"lokr_w1": (2, 2), "lokr_w2_a": (3, 2), "lokr_w2_b": (2, 4)}
LOHA = {
    f"hada_w{n}_{side}": shape for n in (1, 2) for side, shape in (("a", (6, 2)), ("b", (2, 8)))
}


def read(tensors, name=LAYER, dtype="F32"):
    entries = {f"{name}.{kind}": entry(shape, dtype) for kind, shape in tensors.items()}
    return adapter_layers(entries)


def entry(shape, dtype="F32"):
    return TensorEntry(dtype, tuple(shape), 0, 0)


@each(
    ("tensors", "kind"),
    [
        (PAIR, "LoRA"),
        ({**PAIR, "alpha": ()}, "LoRA"),
        ({**PAIR, "alpha": (1,), "lora_B.bias": (6,)}, "LoRA"),
        ({**PAIR, "dora_scale": (1, 8)}, "DoRA"),
        ({**PAIR, "lora_magnitude_vector": (6,)}, "DoRA"),
        ({**PAIR, "lora_mid.weight": (4, 4, 3, 3)}, "LoCon (Tucker)"),
        (LOHA, "LoHa"),
        ({**LOHA, "dora_scale": (6, 1)}, "LoHa with DoRA"),
        (LOKR, "LoKr"),
        ({"lokr_w1": (2, 2), "lokr_w2": (3, 4)}, "LoKr"),
        ({"oft_blocks": (3, 2, 2)}, "OFT"),
        ({"oft_blocks": (2, 3, 2, 2)}, "OFT"),
        ({"weight": (6,), "on_input": ()}, "IA3"),
        ({"diff": (6, 8), "diff_b": (6,)}, "full differences"),
        ({"w_norm": (6,), "b_norm": (6,)}, "norms"),
    ],
)
def test_every_kind_is_recognized_and_sound(tensors, kind):
    found = read(tensors)
    (kinds,) = found.layers.values()
    assert (kind_of(kinds.keys()), found.problems) == (kind, [])


@each(
    ("tensors", "problem"),
    [
        ({"lora_down.weight": (4, 8)}, "incomplete: lora_up.weight is missing"),
        ({"lora_up.weight": (6, 4), "alpha": ()}, "incomplete: lora_down.weight is missing"),
        ({"alpha": ()}, "incomplete: it has alpha only"),
        ({"dora_scale": (6, 1)}, "incomplete: it has dora_scale only"),
        ({"hada_w1_a": (6, 2), "hada_w1_b": (2, 8)}, "hada_w2_a, hada_w2_b is missing"),
        ({"lokr_w1": (2, 2), "lokr_w2_a": (3, 2)}, "lokr_w2_b is missing"),
        ({**PAIR, "lora_up.weight": (6, 2)}, "its ranks are 2 and 4"),
        ({**PAIR, "lora_down.weight": (4,)}, "its shape is [4]"),
        ({"lora_down.weight": (0, 8), "lora_up.weight": (6, 0)}, "its ranks are 0"),
        ({**PAIR, "lora_mid.weight": (3, 4, 3, 3)}, "its ranks are 3 and 4"),
        ({**LOKR, "lokr_w2_b": (3, 4)}, "its ranks are 2 and 3"),
        ({"oft_blocks": (3, 2, 4)}, "its ranks are 2 and 4"),
        ({**PAIR, "dora_scale": (5, 1)}, "its shape is [5, 1], for 6 outputs, 8 inputs"),
        ({**PAIR, "lora_B.bias": (8,)}, "its shape is [8]"),
        ({**PAIR, "alpha": (2,)}, "is no number: its shape is [2]"),
        ({**PAIR, "scalar": (2, 2)}, "is no number: its shape is [2, 2]"),
        ({"weight": (6,), "on_input": (2,)}, "is no number: its shape is [2]"),
        ({**PAIR, **LOKR}, "of two kinds: LoRA, and one with lokr_w1"),
        ({"oft_R.weight": (80, 28)}, "of a kind that cannot be read here"),
    ],
)
def test_what_no_program_can_merge_is_a_problem(tensors, problem):
    found = read(tensors)
    assert [problem in each for each in found.problems] == [True], found.problems


def test_weights_are_no_whole_numbers():
    assert "I8, which are no weights" in read(PAIR, dtype="I8").problems[0]
    assert read(PAIR, dtype="F8_E4M3").problems == []


def test_a_layer_of_two_spellings_or_two_adapters_is_there_twice(tmp_path):
    peft = ("lora_A{}.weight", "lora_B{}.weight")
    shapes = list(PAIR.values())
    kohya = {f"{KOHYA}.{kind}": entry(shape) for kind, shape in PAIR.items()}
    for name in ("", ".default", ".my.style"):
        named = [f"{LAYER}.{each.format(name)}" for each in peft]
        entries = dict(zip(named, map(entry, shapes), strict=True))
        assert adapter_layers(entries).problems == []
        assert {split(key)[0] for key in entries} == {LAYER}
        assert {adapter_name(key) for key in entries} == {name.removeprefix(".")}
        other = {key.replace("lora_A", "lora_A.b").replace("lora_B", "lora_B.b"): each
                 for key, each in entries.items() if not name}  # fmt: skip
        for twice in (kohya, other) if other else (kohya,):
            found = adapter_layers({**entries, **twice})
            assert len(found.problems) == 1
            with pytest.raises(UserError, match=r"x\.safetensors: it holds a layer twice, as"):
                found.require_sound(tmp_path / "x.safetensors")


def test_original_and_diffusers_names_of_a_layer_are_spelled_alike():
    pairs = {
        "lora_unet_down_blocks_0_resnets_1_conv1": "diffusion_model.input_blocks.2.0.in_layers.2",
        "unet.down_blocks.0.downsamplers.0.conv": "lora_unet_input_blocks_3_0_op",
        "up_blocks.1.upsamplers.0.conv": "lora_unet_output_blocks_5_2_conv",
        "base_model.model.mid_block.attentions.0.proj_in": "lycoris_mid_block_attentions_0_proj_in",
        "unet.time_embedding.linear_1": "diffusion_model.time_embed.0",
    }
    assert [spelled_alike(one) for one in pairs] == [spelled_alike(each) for each in pairs.values()]
