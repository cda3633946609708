"""Config files and presets: found, loaded, merged, compared, saved."""

import json
from pathlib import Path

import pytest

from onetrainer.__main__ import main
from onetrainer.config.train import VERSION, TrainConfig
from onetrainer.errors import ProblemsError, UserError
from onetrainer.presets import presets
from onetrainer.presets.differences import Difference, differences
from onetrainer.presets.find import find_presets, locate
from onetrainer.rules.rules import check_rules
from onetrainer.run.run_folder import create_run
from tests.each import each


def write(path: Path, document) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))


def test_every_built_in_preset_resolves():
    found = find_presets()
    assert {preset.name for preset in found} >= {"sd15/lora", "sd15/lora-low-memory"}
    for preset in found:
        assert preset.description
        assert json.loads(preset.path.read_text())["version"] == VERSION, preset.name
        config = presets.resolve(presets.load_document(preset.path), source=preset.name)
        wrong = {problem.path for problem in check_rules(config)} - {"model.path", "data.folder"}
        assert not wrong, preset.name


def test_a_preset_extends_another_and_wins_but_not_itself(tmp_path):
    base = {"training": {"steps": 7, "seed": 3}, "description": "base"}
    write(tmp_path / "base.json", base)
    over = write(tmp_path / "over.json", {"extends": "base.json", "training": {"steps": 9}})
    config = presets.resolve(presets.load_document(over), source="over")
    assert (config.training.steps, config.training.seed) == (9, 3)
    write(tmp_path / "base.json", {"extends": "over.json"})
    with pytest.raises(UserError, match="extends itself"):
        presets.load_document(over)


def test_paths_are_relative_to_their_file_and_names_of_the_hub_stay(tmp_path, monkeypatch):
    (tmp_path / "models" / "here").mkdir(parents=True)
    document = {"model": {"path": "owner/name", "vae": "models/here"}, "data": {"folder": "../p"}}
    path = write(tmp_path / "a.json", document)
    config = presets.resolve(presets.load_document(path), source="")
    assert config.model.path == "owner/name"
    assert config.model.vae == str(tmp_path / "models" / "here")
    assert config.data.folder == str(tmp_path.parent / "p")
    monkeypatch.chdir(tmp_path)
    assert presets.with_absolute_paths(config).model == config.model
    document = presets.with_overrides({}, ["model.path=other/name", "model.vae=models/here"])
    assert document["model"] == {"path": "other/name", "vae": str(tmp_path / "models" / "here")}


def test_a_saved_preset_holds_only_differences_and_loads_the_same(tmp_path):
    config = presets.resolve(
        {"training": {"steps": 5}, "sampling": {"prompts": [{"prompt": "é"}]}}, source=""
    )
    path = tmp_path / "new" / "mine.json"
    presets.save_preset(config, path, description="mine")
    assert set(json.loads(path.read_text())) == {"version", "description", "training", "sampling"}
    assert presets.resolve(presets.load_document(path), source="") == config


def test_differences_name_path_and_both_values():
    other = presets.resolve({"optimizer": {"lr": 0.5}}, source="")
    found = differences(TrainConfig(), other)
    assert found == [Difference("optimizer.lr", 1e-4, 0.5)]
    assert found[0].text() == "optimizer.lr: 0.0001 → 0.5"


@each(
    "overrides",
    [
        ["optimizer.beta1=0.5", "optimizer.kind=adam"],
        ["objective.timesteps.kind=logit_normal", "objective.timesteps.mean=2.0"],
        ["objective.timesteps.kind=logit_normal", "objective.kind=denoising", "training.steps=5"],
    ],
)
def test_the_order_of_overrides_does_not_matter(overrides):
    given, turned = (presets.with_overrides({}, order) for order in (overrides, overrides[::-1]))
    assert presets.resolve(given, source="") == presets.resolve(turned, source="")
    for text in overrides:
        path, _, value = text.partition("=")
        assert str(presets.value_at(turned, path)) == value


def test_an_override_that_another_variant_does_not_have_is_kept_and_refused():
    overrides = ["optimizer.fused_backward=true", "optimizer.kind=prodigy"]
    for order in (overrides, overrides[::-1]):
        with pytest.raises(ProblemsError) as caught:
            presets.resolve(presets.with_overrides({}, order), source="")
        assert [each.path for each in caught.value.problems] == ["optimizer.fused_backward"]


def test_the_folder_of_a_run_stands_for_its_config_where_that_is_meant(tmp_path):
    run = create_run(tmp_path, name="smiley", config={"training": {"steps": 7}})
    run.events.write_text("")
    found = locate(str(run.path), may_be_run=True)
    assert presets.load_document(found)["training"] == {"steps": 7}
    with pytest.raises(UserError, match="a run folder") as caught:
        locate(str(run.path))
    assert "onetrainer resume" in caught.value.remedy


def test_overrides_take_json_text_lists_and_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = presets.with_overrides(
        {},
        [
            "training.steps=5",
            "output.name=123",
            "hardware.precision=fp32",
            "sampling.prompts.0.prompt=a = b",
            "model.path=m",
        ],
    )
    config = presets.resolve(document, source="")
    assert (config.training.steps, config.output.name) == (5, "123")
    assert config.sampling.prompts[0].prompt == "a = b"
    assert config.model.path == str(tmp_path / "m")


@each("text", ["training.steps", "=5", ""])
def test_an_override_of_the_wrong_form_is_refused(text):
    with pytest.raises(UserError, match=r"key\.path=value|not a setting"):
        presets.with_overrides({}, [text])


@each(
    ("content", "words"),
    [
        ('{"a": }', "line 1, column 7"),
        ("[1]", "settings in { }"),
        ('{"version": 99}', "config version 99"),
        ('{"extends": 5}', "extends"),
        ('{"extends": "nowhere"}', "no such file or preset"),
    ],
)
def test_a_file_that_is_no_config_is_refused_with_reasons(tmp_path, content, words):
    with pytest.raises(UserError) as caught:
        presets.load_document(write(tmp_path / "a.json", content))
    assert words in str(caught.value)


def test_a_image_chosen_as_config_is_refused(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\xff\xfe")
    with pytest.raises(UserError, match="not a text file"):
        presets.load_document(path)


@each(
    ("name", "words"),
    [
        ("nope", "onetrainer presets"),
        ("sd15/lorra", '"sd15/lora"'),
        ("sdxl", "sdxl/lora, "),
    ],
)
def test_an_unknown_name_leads_to_the_presets(name, words):
    with pytest.raises(UserError, match=name) as caught:
        locate(name)
    assert words in f"{caught.value.expected} {caught.value.remedy}"


def test_an_override_with_a_former_name_sets_the_setting_of_today(capsys):
    former = ["validation.share=0.25", "embeddings.words.0.word=<cat>", "ema.place=host"]
    config = presets.resolve(presets.with_overrides({}, former), source="")
    assert (config.validation.split, config.ema.device) == (0.25, "host")
    assert config.embeddings.tokens[0].token == "<cat>"
    arguments = [argument for text in former for argument in ("--set", text)]
    main(["check", "sd15/lora", *arguments])
    assert capsys.readouterr().err.splitlines()[:3] == [
        "validation.share is now called validation.split",
        "embeddings.words.0.word is now called embeddings.tokens.0.token",
        "ema.place is now called ema.device",
    ]
