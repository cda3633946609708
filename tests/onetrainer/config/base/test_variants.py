"""Sections with variants: selected, changed, compared, saved, migrated."""

import json

import pytest

from onetrainer.config.base.variants import selected_variants
from onetrainer.config.fields import is_available, setting_at, settings
from onetrainer.config.migrate import migrate
from onetrainer.config.train import TrainConfig
from onetrainer.errors import ProblemsError
from onetrainer.presets.differences import differences
from onetrainer.presets.presets import (
    as_preset,
    defaults,
    resolve,
    value_at,
    with_overrides,
    with_variant,
)
from tests.each import each

EVERY = list(settings(TrainConfig))
KINDS = [
    (setting.path.removesuffix(".kind"), kind)
    for setting in EVERY
    if setting.path.endswith(".kind")
    for kind in setting.choices
]


def chosen(path, kind):
    """Return a document with this variant of a section, and of the sections around it."""
    document = {}
    for outer, selected in setting_at(f"{path}.kind").needs:
        document = with_variant(document, outer, sorted(selected)[0])
    return with_variant(document, path, kind)


def refused(document):
    with pytest.raises(ProblemsError) as caught:
        resolve(document, source="test")
    return {problem.path: problem for problem in caught.value.problems}


@each(("path", "kind"), KINDS)
def test_every_variant_is_chosen_saved_loaded_and_lists_exactly_its_settings(path, kind):
    config = resolve(chosen(path, kind), source="")
    assert resolve(as_preset(config), source="") == config
    document = config.model_dump(mode="json")
    selected = selected_variants(document, TrainConfig)
    assert selected[path] == kind
    listed = {s.path: s for s in settings(TrainConfig, selected=selected)}
    for place, setting in listed.items():
        inside = value_at(document, place.rpartition(".")[0]) if "." in place else document
        assert place.rpartition(".")[2] in inside, place
        shown = list(setting.default) if setting.kind == "list" else setting.default
        assert value_at(document, place) == shown or place.endswith(".kind"), place
    assert {s.path for s in EVERY if is_available(s, selected)} == set(listed)


def test_a_document_without_variants_means_the_default_ones():
    config = resolve({"method": {"rank": 4}, "optimizer": {"lr": 1.0}}, source="")
    assert (config.method.kind, config.method.rank) == ("lora", 4)
    assert (config.optimizer.kind, config.optimizer.lr) == ("adamw", 1.0)


def test_choosing_another_variant_keeps_what_a_person_has_set():
    document = {"optimizer": {"kind": "adamw", "lr": 3e-4, "beta2": 0.99}}
    changed = with_variant(document, "optimizer", "adam")["optimizer"]
    assert (changed["lr"], changed["beta2"]) == (3e-4, 0.99)
    assert changed["weight_decay"] == 0.0  # Adam's own, since nothing else was asked for


def test_an_override_of_a_variant_leaves_nothing_of_the_old_one():
    document = with_overrides(
        {"method": {"kind": "lora", "rank": 4}}, ["method.kind=full", "method.weights=fp32"]
    )
    config = resolve(document, source="")
    assert (config.method.kind, config.method.weights) == ("full", "fp32")


def test_a_wrong_value_names_the_setting_and_not_the_variant():
    found = refused({"optimizer": {"kind": "adam", "lr": -1}})
    assert set(found) == {"optimizer.lr"}


def test_a_setting_of_another_variant_says_where_it_belongs():
    problem = refused({"method": {"kind": "full", "rank": 4}})["method.rank"]
    assert '"lora"' in problem.expected
    assert "method.kind" in problem.expected


@each(
    ("word", "near"),
    [
        ("adamm", "adam"),
        ("AdamW8bit", "adamw8bit"),
        ("adamw8", "adamw8bit"),
        ("AdaFactor", "adafactor"),
        ("schedule-free AdamW", "schedulefree_adamw"),
        ("lions8bit", "lion8bit"),
        ("prodigyopt", "prodigy"),
        ("", None),
        ("xyz", None),
    ],
)
def test_an_unknown_variant_names_the_nearest(word, near):
    problem = refused({"optimizer": {"kind": word}})["optimizer.kind"]
    assert problem.remedy == (f'Did you mean "{near}"?' if near else "Correct it.")


def test_a_section_that_is_no_section_is_refused():
    assert "method" in refused({"method": 3}) or "method.kind" in refused({"method": 3})
    assert refused({"method": {"kind": 7}})


def test_differences_between_variants_are_reported_one_by_one():
    left = resolve({"method": {"kind": "lora"}}, source="")
    right = resolve({"method": {"kind": "full"}}, source="")
    found = {d.path: d for d in differences(left, right)}
    assert next(iter(found)) == "method.kind"
    assert found["method.kind"].text() == 'method.kind: "lora" → "full"'
    assert found["method.rank"].text() == "method.rank: 16 → (not with full)"
    assert found["method.weights"].text() == 'method.weights: (not with lora) → "bf16"'


def test_variant_of_an_inner_section_comes_before_what_is_in_it():
    left = resolve({"objective": {"timesteps": {"kind": "logit_normal"}}}, source="")
    found = [d.path for d in differences(left, resolve({}, source=""))]
    assert found[0] == "objective.timesteps.kind"
    assert len(found) > 1


def test_defaults_of_variants_are_those_of_the_sections():
    assert defaults({"optimizer": "adam"})["optimizer"]["weight_decay"] == 0.0
    assert defaults({}) == json.loads(TrainConfig().model_dump_json())


@each(("family", "names"), [("sd15", {"te1"}), ("sdxl", {"te1", "te2"})])
def test_the_switch_for_all_encoders_becomes_one_for_each(family, names):
    old = {
        "version": 1,
        "model": {"family": family},
        "method": {"rank": 8, "train_text_encoder": True},
        "optimizer": {"lr": 1e-4, "text_encoder_lr": 5e-5},
    }
    new = migrate(old, source="x")
    config = resolve(new, source="x")
    encoders = config.method.text_encoders
    assert {name for name, encoder in encoders.items() if encoder.train} == names
    assert all(encoders[name].lr == 5e-5 for name in names)
    assert old["method"]["train_text_encoder"] is True  # the document itself is left alone


def test_a_damaged_file_of_version_one_is_refused_with_reasons(tmp_path):
    old = {"version": 1, "method": 3, "optimizer": {"text_encoder_lr": "x"}}
    with pytest.raises(ProblemsError):
        resolve(migrate(old, source="x"), source="x")
