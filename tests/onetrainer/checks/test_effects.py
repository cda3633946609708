"""What a run does outside its folder is listed before its first start, or asked for."""

import json
from pathlib import Path

import pytest

from onetrainer.__main__ import main
from onetrainer.checks.effects import confirm_effects, is_own, new_effects
from onetrainer.cli.effects import ask_for_base_model, ask_for_effects_of, note_effects
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_USER, UserError
from onetrainer.presets.find import BUILT_IN, own_folder
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.run_folder import STATE_FILE, create_run
from onetrainer.run.user_folder import user_folder
from onetrainer.trust.trusted_files import FILE
from tests.onetrainer.generated_images import leaves


def config_of(**sections):
    return TrainConfig.model_validate(sections)


@pytest.fixture
def strange(tmp_path):
    """A run from somebody else, which writes its cache elsewhere and downloads a model."""
    config = config_of(
        model={"path": "somebody/model"}, data={"cache_folder": str(tmp_path / "precious")}
    )
    return create_run(tmp_path / "runs", name="a", config=config.model_dump(mode="json"))


def test_what_is_elsewhere_is_listed_and_a_run_with_plain_settings_does_nothing(tmp_path):
    own = tmp_path / "own"
    inside = config_of(output={"folder": str(own / "runs")}, data={"cache_folder": str(own)})
    assert new_effects(inside, own) == new_effects(TrainConfig(), own) == []
    outside = config_of(
        model={"path": "somebody/model"},
        output={"folder": str(tmp_path / "x")},
        data={"cache_folder": str(tmp_path / "y")},
        schedule={"kind": "custom", "function": str(tmp_path / "own.py:curve")},
    )
    lines = new_effects(outside, own)
    for line, part in zip(
        lines, ("output.folder", "data.cache_folder", "somebody/model", "own.py:curve"), strict=True
    ):
        assert part in line
    assert len(new_effects(outside, own, is_new=False)) == 3
    confirm_effects(lines[:2])
    assert new_effects(outside, own) == lines[2:]  # what is confirmed is not asked again


def test_presets_of_the_program_and_of_the_user_are_their_own(tmp_path):
    assert is_own(BUILT_IN / "sd15" / "lora.json") and is_own(own_folder() / "a.json")
    assert not is_own(tmp_path / "a.json")
    assert not is_own(BUILT_IN / ".." / ".." / "a.json")


def test_a_config_that_is_named_lists_what_it_does_elsewhere_once(tmp_path, capsys):
    file = tmp_path / "own" / "my.json"
    config = config_of(output={"folder": str(tmp_path / "models")})
    for expected in (1, 0):
        note_effects(config, file)
        assert capsys.readouterr().err.count("note: my.json writes to") == expected


def test_a_folder_is_not_resumed_queued_or_forked_before_a_person_has_confirmed(strange, capsys):
    for command in ("resume", "queue add"):
        assert main([*command.split(), str(strange.path)]) == EXIT_USER
        said = capsys.readouterr().err
        assert "precious" in said and "somebody/model" in said and "--yes" in said
    assert not strange.events.exists() and not strange.lock.exists()
    assert sorted(path.name for path in strange.path.iterdir()) == [
        *("checkpoints", "config.json", "output", "samples"),
    ]
    ask_for_effects_of(strange, is_meant=True)
    ask_for_effects_of(strange, is_meant=False)  # it is known by now
    with pytest.raises(UserError):
        document = json.loads(strange.config.read_text())
        document["data"]["cache_folder"] += "-other"
        strange.config.write_text(json.dumps(document))
        ask_for_effects_of(strange, is_meant=False)


def test_a_run_that_is_only_looked_at_writes_nothing_elsewhere(
    strange, tmp_path, capsys, monkeypatch
):
    # Lets files be relied on that were written just now, so that what is found is stored.
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)
    (tmp_path / "precious").mkdir()
    (tmp_path / "pictures").mkdir()
    leaves(0, 160).save(tmp_path / "pictures" / "a.png")
    document = json.loads(strange.config.read_text())
    document["data"]["folder"] = str(tmp_path / "pictures")
    strange.config.write_text(json.dumps(document))
    strange.events.write_bytes(b"")
    for command in ("check", "check-data", "cache", "cache --prune"):
        main([*command.split(), str(strange.path)])
        said = capsys.readouterr().err
        assert "precious" in said and "not done here" in said, command
        assert not [*(tmp_path / "precious").iterdir()], command
    ask_for_effects_of(strange, is_meant=True)
    capsys.readouterr()
    assert main(["check-data", str(strange.path)]) == 0, capsys.readouterr()
    assert "not done here" not in capsys.readouterr().err
    assert [*(tmp_path / "precious").iterdir()]


def test_no_model_is_downloaded_for_a_run_before_a_person_has_confirmed(strange, tmp_path, capsys):
    document = json.loads(strange.config.read_text())
    document["model"]["path"] = "third/model"  # the others are confirmed by other tests
    strange.config.write_text(json.dumps(document))
    strange.events.write_bytes(b"")
    strange.checkpoint(4).mkdir()
    config = config_of(model={"path": "other/model"}).model_dump(mode="json")
    state = state_content({"step": 4, "events_size": 0, "config": config}, {})
    (strange.checkpoint(4) / STATE_FILE).write_bytes(state)
    for command, *more in (("cache", "--encode"), ("convert", str(tmp_path / "a.safetensors"))):
        assert main([command, str(strange.path), *more]) == EXIT_USER
        model = "other/model" if command == "convert" else "third/model"  # the checkpoint's
        said = capsys.readouterr().err
        assert f"downloads {model} from the Hugging Face Hub" in said and "--yes" in said
    ask_for_base_model(strange, 4, is_meant=True)
    ask_for_base_model(strange, None, is_meant=False)  # it is known by now


def test_confirmed_effects_and_trusted_code_share_a_file(strange, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def curve(step, steps):\n    return 1.0\n")
    assert main(["trust", f"{own}:curve", "--yes"]) == 0
    ask_for_effects_of(strange, is_meant=True)
    stored = json.loads((user_folder() / FILE).read_text())
    assert str(own) in stored and any(key.startswith("effect ") for key in stored)
    assert all(Path(key).is_absolute() or key.startswith("effect ") for key in stored)
