"""Settings of text encoders: one section for each that a family may have."""

import json

import pytest

from onetrainer.config.base.encoders import FAMILY
from onetrainer.config.fields import settings
from onetrainer.config.methods.components import component_settings, trained_components
from onetrainer.config.methods.full import Full
from onetrainer.config.methods.low_rank import Lora
from onetrainer.config.train import TrainConfig
from onetrainer.errors import ProblemsError
from onetrainer.families import registry
from onetrainer.presets.presets import as_preset, resolve, with_overrides
from onetrainer.rules.rules import check_rules
from tests.each import each

SECOND = "method.text_encoders.te2.train"


@pytest.fixture
def trio(monkeypatch):
    """A registered family with a third text encoder."""
    sdxl = registry.family_spec("sdxl")
    third = sdxl.encoders[0]._replace(name="te3", label="sentence encoder")
    spec = sdxl._replace(name="trio", label="Trio", encoders=(*sdxl.encoders, third))
    monkeypatch.setattr(registry, "FAMILIES", (*registry.FAMILIES, spec))
    return spec


def test_a_family_with_three_encoders_has_settings_for_each(trio):
    method = {"kind": "lora", "text_encoders": {"te3": {"train": True, "rank": 4}}}
    config = resolve({"model": {"family": "trio"}, "method": method}, source="")
    assert [*config.method.text_encoders] == ["te1", "te2", "te3"]
    assert [*trained_components(config.method, "trio")] == ["unet", "te3"]
    assert component_settings(config.method, "te3").rank == 4
    found = {s.path: s for s in settings(TrainConfig, selected={FAMILY: "trio"})}
    third = found["method.text_encoders.te3.lr"]
    assert third.ui.label == "Sentence encoder learning rate"
    assert third.help.startswith("The sentence encoder's learning rate")
    assert third.ui.only_with == {FAMILY: ("trio",)}


def test_what_is_left_out_is_the_default_and_is_not_saved():
    config = resolve(with_overrides({}, [f"{SECOND}=true"]), source="")
    assert as_preset(config)["method"] == {"text_encoders": {"te2": {"train": True}}}
    assert resolve(json.loads(config.model_dump_json()), source="") == config
    assert resolve({"method": {"text_encoders": {}}}, source="") == TrainConfig()


def test_encoders_that_no_family_has_are_refused():
    with pytest.raises(ProblemsError) as caught:
        resolve({"method": {"text_encoders": {"te9": {"train": True}}}}, source="")
    [problem] = caught.value.problems
    assert problem.path == "method.text_encoders.te9"
    assert problem.expected == 'Expected "te1" or "te2"'


@each(("family", "paths"), [("sd15", [SECOND]), ("sdxl", [])])
def test_training_an_encoder_that_the_family_lacks_is_a_warning(family, paths):
    document = {"model": {"family": family}, "method": {"text_encoders": {"te2": {"train": True}}}}
    found = check_rules(resolve(document, source=""))
    warnings = [p for p in found if p.path.startswith("method.")]
    assert [p.path for p in warnings] == paths
    assert all(p.fix.path == SECOND and "te1 (text encoder)" in p.expected for p in warnings)


@each("method", [Lora(), Full()])
def test_other_components_have_no_settings(method):
    for component in ("vae", ""):
        with pytest.raises(ValueError, match="not a text encoder"):
            component_settings(method, component)
