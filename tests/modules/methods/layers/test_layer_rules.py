import re

import pytest

from modules.methods.layers.layer_rules import layer_name, require_all_used, rule_for, similar_names
from onetrainer.config.base.components import LayerRule
from onetrainer.errors import UserError
from tests.each import each

TO_K = "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"
FC1 = "text_encoder.text_model.encoder.layers.0.mlp.fc1"
NAMES = [TO_K, "unet.conv_in", FC1]


def test_layers_are_called_alike_with_and_without_the_text_level():
    assert layer_name("te1", "encoder.layers.0.mlp.fc1") == FC1
    assert layer_name("te", "text_model.encoder.layers.0.mlp.fc1") == FC1
    assert layer_name("te2", "text_projection") == "text_encoder_2.text_projection"
    assert layer_name("unet", "conv_in") == "unet.conv_in"


def test_the_first_rule_that_is_found_anywhere_in_the_name_counts():
    rules = [LayerRule(pattern=r"attn2\.to_[kv]$", lr=1e-5), LayerRule(pattern="attn2")]
    assert rule_for(TO_K, rules) is rules[0]
    assert rule_for(TO_K.replace("to_k", "to_q"), rules) is rules[1]
    assert rule_for("unet.conv_in", rules) is None


@each(
    ("pattern", "near"),
    [("atn2", TO_K), ("attn2.to_kk", TO_K), ("mlp.fc3", FC1), (r"unet\.conv_inn$", "unet.conv_in")],
)
def test_a_pattern_that_matches_nothing_is_reported_with_the_names_it_was_meant_for(pattern, near):
    rules = [LayerRule(pattern="conv_in"), LayerRule(pattern=pattern)]
    with pytest.raises(UserError) as raised:
        require_all_used(rules, NAMES)
    assert str(raised.value).startswith(f'method.layers.1.pattern: "{pattern}" matches none of the')
    assert raised.value.expected.startswith(f"Expected names such as {near}")


def test_a_pattern_like_no_name_is_reported_with_the_first_names():
    assert similar_names("§§§", NAMES) == NAMES


def test_a_broken_pattern_is_reported():
    with pytest.raises(UserError, match=re.escape('"attn2)" is not a regular expression')):
        require_all_used([LayerRule(pattern="attn2)")], NAMES)


@each("before", [["attn2"], ["to_k", "conv"], [r"^unet\.down", "fc1"]])
def test_a_rule_that_no_layer_goes_by_is_reported(before):
    rules = [LayerRule(pattern=pattern) for pattern in [*before, r"attn2\.to_k$"]]
    with pytest.raises(UserError, match=rf"method\.layers\.{len(before)}\.pattern.*has no effect"):
        require_all_used(rules, NAMES)
    names = [*NAMES, TO_K.replace("to_k", "to_v"), TO_K.replace("attn2.", "attn1.")]
    require_all_used([rules[-1], *rules[:-1]], names)
