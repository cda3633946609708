"""Going on from an adapter file."""

import pytest
import torch

from modules.formats.lora.lora_file import LoraFile, read_lora, write_lora
from modules.methods.adapters.adapters import Adapters
from modules.methods.layers.layer_presets import layer_names
from onetrainer.errors import UserError
from tests import tiny
from tests.adapters import KINDS, predict, section, shake
from tests.cases import cases
from tests.close import close
from tests.exports import export


def written(folder, kind, *, name="sd15", naming="kohya", fold=False, **changes):
    """A prediction with trained adapters, and their file."""
    family = tiny.family(name)
    method = Adapters.attach(family, section(kind, **changes), seed=0)
    shake(method)
    path = folder / "start.safetensors"
    export(method, path, dtype=torch.float32, metadata={}, naming=naming, fold_alpha=fold)
    return predict(family), path


@pytest.mark.parametrize(
    ("name", "kind", "naming"),
    cases(
        [("sd15", kind, "kohya") for kind in KINDS]
        + [("sd2", "lora", "comfyui"), ("sdxl", "dora", "comfyui"), ("sdxl", "lora", "diffusers")],
        [("sd15", kind, "kohya") for kind in ("lokr-both", "oft-constrained", "ia3")]
        + [("sdxl", "dora", "comfyui"), ("sd15", "dora-outputs", "kohya")],
    ),
)
def test_a_saved_adapter_goes_on_as_it_was(tmp_path, name, kind, naming):
    expected, path = written(tmp_path, kind, name=name, naming=naming, text=True, targets="full")
    family = tiny.family(name)
    wanted = section(kind, text=True, targets="full", start_from=str(path))
    method = Adapters.attach(family, wanted, seed=5)
    assert (predict(tiny.family(name)) - expected).abs().max() > 0.02
    close(predict(family), expected)
    assert not [note for note in method.notes if path.name in note]


@pytest.mark.parametrize(
    "kind",
    cases(["lora", "dora", "loha", "lokr", "lokr-both", "lokr-whole"], ["loha", "lokr"]),
)
def test_another_alpha_leaves_the_effect_as_it_was(tmp_path, kind):
    expected, path = written(tmp_path, kind)
    family = tiny.family()
    Adapters.attach(family, section(kind, alpha=3.0, start_from=str(path)), seed=5)
    close(predict(family), expected)


@pytest.mark.parametrize("kind", cases(["lora", "dora", "loha"], ["lora"]))
def test_another_rank_is_refused_with_the_setting_to_change(tmp_path, kind):
    _, path = written(tmp_path, kind)
    with pytest.raises(UserError) as raised:
        Adapters.attach(tiny.family(), section(kind, rank=1, start_from=str(path)), seed=0)
    ranks = KINDS[kind].rank
    assert f"its rank is {ranks}, not 1 as set here" in raised.value.what
    assert "unet.down_blocks.0.attentions.0" in raised.value.what
    assert f"Set the rank to {ranks}" in raised.value.remedy


@pytest.mark.parametrize("kind", cases(["lora", "dora", "loha", "lokr"], ["lora"]))
def test_a_rank_of_0_is_that_of_the_file(tmp_path, kind):
    expected, path = written(tmp_path, kind, unet={"rank": 3})
    family = tiny.family()
    method = Adapters.attach(family, section(kind, rank=0, start_from=str(path)), seed=5)
    assert {plan.rank for plan in method.plans.values()} == {3}
    close(predict(family), expected)


def test_other_blocks_and_factors_are_refused(tmp_path):
    for kind, changes, setting in (
        ("oft", {"block_size": 2}, "method.block_size"),
        ("lokr", {"rank": 1}, "method.rank"),
        ("lokr-whole", {"factor": 4}, "factor"),
    ):
        _, path = written(tmp_path, kind)
        with pytest.raises(UserError, match="does not fit") as raised:
            Adapters.attach(tiny.family(), section(kind, **changes, start_from=str(path)), seed=0)
        assert setting in raised.value.remedy


def test_another_variant_of_adapter_is_refused(tmp_path):
    _, path = written(tmp_path, "loha")
    with pytest.raises(UserError, match="holds LoHa") as raised:
        Adapters.attach(tiny.family(), section("lora", start_from=str(path)), seed=0)
    assert 'Choose "loha" as the method' in raised.value.remedy


def test_layers_that_would_be_lost_are_refused(tmp_path):
    _, path = written(tmp_path, "lora", text=True)
    for changes in ({"text": False}, {"text": True, "targets": "attn"}):
        with pytest.raises(UserError, match="not trained and would be lost"):
            Adapters.attach(tiny.family(), section("lora", **changes, start_from=str(path)), seed=0)


def test_trained_layers_that_are_not_in_the_file_begin_again_and_are_reported(tmp_path):
    _, path = written(tmp_path, "lora", targets="attn")
    wanted = section("lora", targets="attn-mlp", start_from=str(path))
    method = Adapters.attach(tiny.family(), wanted, seed=5)
    state = method.state_dict()
    fresh = Adapters.attach(tiny.family(), section("lora", targets="attn-mlp"), seed=5).state_dict()
    same = {name for name, tensor in state.items() if torch.equal(tensor, fresh[name])}
    assert len(method.notes) == 1
    assert "it lacks 16 trained layers" in method.notes[0]
    assert len(same) == 2 * 16
    assert not any(".attn" in name for name in same)


def test_what_no_layer_here_needs_is_reported(tmp_path):
    _, path = written(tmp_path, "lora")
    names = layer_names(tiny.family())
    file = read_lora(path, names)
    # sd-scripts 0.9.0 trained such, its issue 1964.
    key = "lora_te_text_model_encoder_layers_0_self_attn.lora_down.weight"
    more = LoraFile(
        file.layers,
        {"cat": {"string_to_param.*": torch.ones(1, 32)}},
        {key: torch.ones(1)},
        {},
        "kohya",
    )
    write_lora(path, more, names, naming="kohya", dtype=None)
    notes = Adapters.attach(tiny.family(), section("lora", start_from=str(path)), seed=0).notes
    assert len(notes) == 2
    assert key in notes[0]
    assert '"cat"' in notes[1]


def test_other_norms_of_dora_are_refused(tmp_path):
    for held, wanted in (("dora", "dora-outputs"), ("dora-outputs", "dora")):
        _, path = written(tmp_path, held)
        with pytest.raises(UserError, match="other sizes") as raised:
            Adapters.attach(tiny.family(), section(wanted, start_from=str(path)), seed=0)
        assert "method.norms" in raised.value.remedy
