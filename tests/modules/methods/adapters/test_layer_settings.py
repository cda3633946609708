"""Which layers get an adapter, of which size, and how fast each trains."""

import pytest
import torch

from modules.formats.lora.lora_file import read_lora
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from onetrainer.config.methods.low_rank import Lora
from onetrainer.errors import UserError
from tests import tiny
from tests.adapters import section
from tests.exports import export

ALL = ("lora_unet", "lora_te1", "lora_te2")


def attach(wanted, name="sd15") -> Adapters:
    return Adapters.attach(tiny.family(name), wanted, seed=0)


def paths(method) -> list[str]:
    return [plan.layer.path for plan in method.plans.values()]


def test_a_pattern_adds_layers_outside_the_preset_and_takes_others_away():
    plain = paths(attach(Lora(targets="attn")))
    rules = [{"pattern": r"attn1\.", "train": False}, {"pattern": r"^unet\.conv_in$"}]
    found = paths(attach(Lora(targets="attn", layers=rules)))
    assert set(plain) - set(found) == {path for path in plain if ".attn1." in path}
    assert set(found) - set(plain) == {"conv_in"}


def test_only_named_layers_are_trained_where_nothing_else_is_wanted():
    rules = [
        {"pattern": "mid_block.*resnets.*conv1"},
        {"pattern": r"text_encoder\..*layers\.0.*fc"},
    ]
    method = attach(Lora(targets="named", layers=rules, **tiny.encoders()))
    assert paths(method) == [
        "mid_block.resnets.0.conv1",
        "mid_block.resnets.1.conv1",
        "text_model.encoder.layers.0.mlp.fc1",
        "text_model.encoder.layers.0.mlp.fc2",
    ]


def test_the_first_pattern_that_matches_a_layer_counts():
    rules = [
        {"pattern": "mid_block", "rank": 2, "lr": 1e-5},
        {"pattern": "attn2", "rank": 3, "alpha": 6},
    ]
    wanted = Lora(rank=8, alpha=4, targets="attn", layers=rules, unet={"alpha": 5, "lr": 1e-3})
    found = {plan.layer.path: plan for plan in attach(wanted).plans.values()}
    mid, down = (
        f"{place}.attentions.0.transformer_blocks.0" for place in ("mid_block", "down_blocks.0")
    )
    shown = [(found[p].rank, found[p].alpha, found[p].lr) for p in
             (f"{mid}.attn2.to_k", f"{down}.attn2.to_k", f"{down}.attn1.to_k")]  # fmt: skip
    assert shown == [(2, 5, 1e-5), (3, 6, 1e-3), (8, 5, 1e-3)]


def test_each_network_has_its_own_rank_alpha_rate_and_end(tmp_path):
    wanted = Lora(
        rank=8,
        alpha=4,
        targets="attn",
        unet={"rank": 6, "stop_after": 30},
        text_encoders={
            "te1": {"train": True, "rank": 2, "alpha": 1, "lr": 1e-5},
            "te2": {"train": True, "lr": 2e-5, "stop_after": 10},
        },
    )
    family = tiny.family("sdxl")
    method = Adapters.attach(family, wanted, seed=0)
    groups = [(g.component, g.lr, g.stop_after) for g in method.parameter_groups()]
    assert groups == [("unet", None, 30), ("te1", 1e-5, 0), ("te2", 2e-5, 10)]
    path = tmp_path / "lora.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    file = read_lora(path, layer_names(family))
    sizes = {
        layer.component: (len(kinds["lora_down.weight"]), float(kinds["alpha"]))
        for layer, kinds in file.layers.items()
    }
    assert sizes == {"unet": (6, 4), "te1": (2, 1), "te2": (8, 4)}
    assert file.metadata["ss_network_dim"] == "Dynamic"
    assert file.metadata["ss_network_alpha"] == "Dynamic"


def test_a_pattern_that_matches_no_layer_is_refused_with_near_names():
    for pattern in ("mid_blok.attentions", "text_encoder", "conv_norm_out"):
        with pytest.raises(UserError, match=r"method\.layers\.0\.pattern") as raised:
            attach(Lora(layers=[{"pattern": pattern}]))
        assert "unet." in raised.value.expected
    with pytest.raises(UserError) as raised:
        attach(Lora(layers=[{"pattern": "mid_blok.attentions"}]))
    assert "unet.mid_block.attentions.0" in raised.value.expected


def test_a_rule_behind_one_that_takes_all_its_layers_is_refused():
    rules = [{"pattern": "attn", "rank": 4}, {"pattern": "attn2", "rank": 8}]
    with pytest.raises(UserError, match=r'method\.layers\.1\.pattern: "attn2" has no effect'):
        attach(Lora(layers=rules))
    ranks = {plan.rank for plan in attach(Lora(targets="attn", layers=rules[::-1])).plans.values()}
    assert ranks == {4, 8}


def test_where_the_rank_of_lokr_does_not_count_is_reported():
    method = attach(section("lokr", rank=16, factor=-1))
    adapters = method.adapters["unet"].values()
    whole = [one for one in adapters if not any("_w2_" in n for n, _ in one.named_parameters())]
    (note,) = method.notes
    assert f"have no effect on {len(whole)} of {len(method.plans)} layers" in note
    assert attach(section("lokr", rank=1, factor=2)).notes == ()
    assert attach(section("lokr-whole")).notes == ()  # there the settings say so


def test_oft_leaves_layers_out_that_it_cannot_turn():
    # Seven outputs divide into blocks of 1 or 7, and there is one of 7 alone.
    family = tiny.family()
    family.unet.conv_out = torch.nn.Conv2d(8, 7, 3)
    method = Adapters.attach(family, section("oft", targets="full"), seed=0)
    (note,) = method.notes
    assert note.startswith("OFT skips 1 layer whose outputs")
    assert note.endswith(": unet.conv_out")
    assert "conv_out" not in paths(method)
    with pytest.raises(UserError, match="no layer gets an adapter"):
        only = {"targets": "named", "layers": [{"pattern": "conv_out"}]}
        Adapters.attach(family, section("oft", **only), seed=0)
