"""The config: validation, messages, migration and the settings as data."""

import json
from typing import get_args

import pytest

from onetrainer.__main__ import DEVICES
from onetrainer.config.base.section import Section
from onetrainer.config.fields import setting_at
from onetrainer.config.methods.full import Full
from onetrainer.config.methods.low_rank import Lora
from onetrainer.config.migrate import migrate
from onetrainer.config.renamed import RENAMED, current_path
from onetrainer.config.run.hardware import Device
from onetrainer.config.train import VERSION, TrainConfig
from onetrainer.errors import ProblemsError, UserError
from onetrainer.families.registry import family_spec
from onetrainer.presets.presets import load_document, resolve, value_at
from onetrainer.rules.rules import check_rules
from tests.each import each


def problems_of(**document):
    with pytest.raises(ProblemsError) as caught:
        resolve(document, source="test")
    return {problem.path: problem for problem in caught.value.problems}


def test_every_problem_is_reported_at_once():
    found = problems_of(training={"steps": -1, "batch_size": "two"}, optimizer={"lr": 0})
    assert set(found) == {"training.steps", "training.batch_size", "optimizer.lr"}


@each(
    ("key", "value", "expected"),
    [
        ("steps", float("nan"), "whole number from 1"),
        ("steps", 10**12, "whole number from 1"),
        ("steps", True, "whole number from 1"),
        ("steps", 2.5, "whole number from 1"),
        ("steps", None, "whole number from 1"),
        ("gradient_clipping", float("inf"), "from 0 to 1,000"),
        ("gradient_clipping", -1, "from 0 to 1,000"),
        ("seed", 2**63, "below 2^63"),
        ("seed", "7", "below 2^63"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(key, value, expected):
    problem = problems_of(training={key: value})[f"training.{key}"]
    assert expected in problem.expected
    assert problem.remedy


def test_a_device_is_one_of_torchs_or_a_list_of_gpus():
    for wrong in ("cuda:0,cuda:0", "cuda:0,cpu", "gpu", "cuda,", "auto,auto", ["cuda:0", "mps"]):
        problem = problems_of(hardware={"device": wrong})["hardware.device"]
        assert 'or a list of several GPUs such as "cuda:0,cuda:1"' in problem.expected
    for device in (*DEVICES, "cuda:0,cuda:9"):
        assert resolve({"hardware": {"device": device}}, source="test").hardware.device == device
    for same in ("cuda:0, cuda:2", ["cuda:0", "cuda:2"]):
        config = resolve({"hardware": {"device": same}}, source="test")
        assert config.hardware.device == "cuda:0,cuda:2"
    assert set(DEVICES) == set(get_args(Device))


def test_an_unknown_key_names_the_nearest_one():
    found = problems_of(training={"sed": 1}, method={"lr": 1}, mdel={})
    assert '"training.seed"' in found["training.sed"].remedy
    assert '"optimizer.lr"' in found["method.lr"].remedy
    assert '"model"' in found["mdel"].remedy


def test_a_problem_inside_a_list_names_its_place():
    found = problems_of(sampling={"prompts": [{"prompt": "a"}, {"width": 65}]})
    assert "multiple of 8" in found["sampling.prompts.1.width"].expected


@each("name", ["", "a/b", "a\\b", "x" * 101, "nul\x00"])
def test_a_name_that_cannot_be_a_file_is_refused(name):
    assert "output.name" in problems_of(output={"name": name})


def test_defaults_break_only_the_rules_about_what_must_be_chosen():
    assert [p.path for p in check_rules(TrainConfig())] == ["model.path", "data.folder"]


def test_warm_up_beyond_the_run_breaks_a_rule():
    config = resolve({"training": {"steps": 5}, "schedule": {"warmup_steps": 6}}, source="")
    assert "schedule.warmup_steps" in [p.path for p in check_rules(config)]


def test_every_default_satisfies_its_own_check():
    document = json.loads(TrainConfig().model_dump_json())
    assert resolve(document, source="") == TrainConfig()


@each("version", [0, -1, "1", True, None, 1.5])
def test_a_version_that_is_none_is_refused(version):
    with pytest.raises(UserError, match="not a config version"):
        migrate({"version": version}, source="x.json")


@each(
    ("use", "concepts", "turns"),
    [(True, [{"folder": "/a"}], "names"), (True, [], "images"), (False, [{}], "images")],
)
def test_what_a_file_of_version_four_holds_out_of_folders_goes_by_names(use, concepts, turns):
    old = {"version": 4, "data": {"concepts": concepts}, "validation": {"use": use, "share": 0.2}}
    found = resolve(migrate(old, source=""), source="").validation
    assert (found.split_by, found.split) == (turns, 0.2)
    assert (
        resolve(migrate({**old, "version": 5}, source=""), source="").validation.split_by
        == "images"
    )


@each("has_images", [True, False])
def test_what_an_old_file_and_the_one_it_extends_hold_out_goes_by_names(tmp_path, has_images):
    both = {"data": {"concepts": [{"folder": "/a"}]}}, {"validation": {"use": True}}
    base, own = both if has_images else both[::-1]
    (tmp_path / "base.json").write_text(json.dumps({"version": 4, **base}))
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"version": 4, "extends": "base.json", **own}))
    assert resolve(load_document(path), source="").validation.split_by == "names"


def test_a_newer_version_is_refused_with_reasons():
    with pytest.raises(UserError, match="config version 99") as caught:
        migrate({"version": 99}, source="x.json")
    assert "Update" in caught.value.remedy


@each(
    ("family", "prediction", "side"),
    [
        ("sd15", "v_prediction", 512),
        ("sd2", "epsilon", 512),
        ("sd2-inpainting", "epsilon", 512),
        ("sd2", "v_prediction", 768),
        ("sdxl-inpainting", "v_prediction", 1024),
    ],
)
def test_every_family_has_a_native_side(family, prediction, side):
    assert family_spec(family).side_of(prediction) == side


def test_remedy_of_an_optional_setting_does_not_mention_null():
    (problem,) = problems_of(method={"text_encoders": {"te1": {"lr": "x"}}}).values()
    assert problem.remedy == "Correct it, or leave it out."


OLD = {
    1: ({"method": {"train_text_encoder": True}}, "method.text_encoders.te1.train", True),
    2: ({"hardware": {"gradient_checkpointing": True}}, "hardware.gradient_checkpointing", "block"),
    3: ({"objective": {"caption_dropout": 0.1}}, "data.captions.dropout", 0.1),
    4: ({"data": {"concepts": [{"folder": "/a"}]}, "validation": {"use": True}},
        "validation.split_by", "names"),
    5: ({"optimizer": {"kind": "adamw", "step_in_backward": True}}, "optimizer.fused_backward",
        True),
    6: ({"method": {"text_encoder_2": {"train": True}}}, "method.text_encoders.te2.train", True),
    7: ({"validation": {"every": 2, "unit": "epochs"}}, "validation.every", "2 epochs"),
    8: ({"validation": {"split_by": "folders"}}, "validation.split_by", "images"),
}  # fmt: skip


def test_a_file_of_each_earlier_version_migrates():
    assert set(OLD) == set(range(1, VERSION))
    for version, (document, path, value) in OLD.items():
        config = resolve(migrate({"version": version, **document}, source=""), source="")
        assert value_at(config.model_dump(mode="json"), path) == value, version


def test_a_begun_run_keeps_its_steps_and_its_split_and_a_new_one_of_its_file_does_not():
    begun = {"version": 8, "training": {"batch_size": 2}, "validation": {"split_by": "folders"}}
    found = []
    for goes_on in (True, False):
        config = resolve(migrate(begun, source="", goes_on=goes_on), source="")
        found.append((config.training.mixes_shapes, config.validation.split_by))
    assert found == [(False, "folders"), (True, "images")]


def test_every_renamed_setting_exists_and_migrates():
    for former, current in RENAMED.items():
        inner = ".train" if "text_encoders" in current else ""
        assert setting_at(current.replace("*", "0") + inner), current
        old = value = {}
        for key in former.split(".")[:-1]:
            inner = [{}] if key in ("concepts", "words") and "*" in former else {}
            if key != "*":
                value[key] = inner
                value = inner[0] if inner else inner
        value[former.rpartition(".")[2]] = 7
        migrated = migrate({"version": 5, **old}, source="")
        for key in current.replace("*", "0").split("."):
            migrated = migrated[int(key)] if isinstance(migrated, list) else migrated[key]
        assert migrated == 7, former
        assert current_path(former.replace("*", "3")) == current.replace("*", "3")


def test_former_names_are_known_without_a_version_and_refused_with_todays():
    found = resolve(migrate({"schedule": {"warmup_share": 0.25}}, source=""), source="")
    assert found.schedule.warmup_fraction == 0.25
    current = {"version": VERSION, "embeddings": {"words": [{"word": "<x>"}]}}
    for document, name in (
        (current, "embeddings.tokens"),
        ({"version": VERSION, "schedule": {"warmup_share": 0.25}}, "schedule.warmup_fraction"),
    ):
        with pytest.raises(ProblemsError) as caught:
            resolve(migrate(document, source=""), source="")
        assert [p.remedy for p in caught.value.problems] == [f'It is now called "{name}".']


def _below(section):
    for inner in section.__subclasses__():
        yield from (inner, *_below(inner))


def test_a_default_is_what_a_section_makes_of_nothing():
    sections = [
        section
        for section in _below(Section)
        if not any(field.is_required() for field in section.model_fields.values())
    ]
    assert {Lora, Full, TrainConfig} <= {*sections}
    for section in sections:
        assert section.default() == section(), section
        assert section.default().model_dump() == section().model_dump(), section
