"""The command line, without a worker: messages and exit codes."""

import json
import subprocess
import sys

import pytest

from onetrainer.__main__ import COMMANDS, main
from onetrainer.config.train import TrainConfig
from tests import tiny
from tests.each import each


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))


@pytest.fixture
def config(tmp_path):
    def write(document):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write


def loaded_modules(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom onetrainer.__main__ import main\n"
        "try:\n  main(sys.argv[1:])\nexcept SystemExit:\n  pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.rsplit("MODULES", 1)[1].split())


def test_help_loads_nothing_but_argparse():
    assert not loaded_modules("--help") & {"pydantic", "PIL", "torch", "tkinter", "json"}


def test_check_reports_every_problem_with_path_expectation_and_remedy(config, capsys):
    path = config({"training": {"steps": 0, "sed": 1}, "optimizer": {"lr": -1}})
    assert main(["check", path]) == 2
    lines = dict(line.split(": ", 2)[1:] for line in capsys.readouterr().out.splitlines())
    assert list(lines) == [
        "training.steps",
        "training.sed",
        "optimizer.lr",
        "model.path",
        "data.folder",
    ]
    assert "Expected a whole number from 1" in lines["training.steps"]
    assert "leave it out to get 1000" in lines["training.steps"]
    assert 'Did you mean "training.seed"?' in lines["training.sed"]
    assert "Expected a number above 0" in lines["optimizer.lr"]
    assert "Choose one" in lines["data.folder"]


ODD_CONFIGS = {
    "nested": '{"a":' * 3000 + "1" + "}" * 3000,
    "digits": '{"training": {"steps": ' + "9" * 5000 + "}}",
    "twice": '{"training": {}, "training": {}}',
    "list": "[]",
    "number": "5",
    "nothing": "",
    "nul": '{"output": {"name": "a\\u0000b"}}',
    "surrogate": '{"output": {"name": "a\\ud800b"}}',
    "nobody": '{"model": {"path": "~nobody-at-all/x"}}',
    "long": '{"model": {"path": "' + "x" * 5000 + '"}}',
    "long folder": '{"data": {"folder": "' + "x" * 5000 + '"}}',
    "long output": '{"output": {"folder": "' + "x" * 5000 + '"}}',
    "device": '{"data": {"cache_folder": "/proc/x"}}',
    "prompts": '{"sampling": {"prompts": ["a", 5, {"promt": "b"}]}}',
    "itself": '{"extends": "config.json"}',
}


@each("kind", ODD_CONFIGS)
def test_an_odd_config_is_refused_with_a_message_and_exit_code_2(tmp_path, capsys, kind):
    path = tmp_path / "config.json"
    path.write_text(ODD_CONFIGS[kind])
    for command in ("check", "train"):
        assert main([command, str(path)]) == 2
        assert "".join(capsys.readouterr()).strip()
    assert not list(tmp_path.glob("runs*"))


@each(
    "text",
    ["version=99", "extends=x", "a" * 5000, "sampling.prompts.9.seed=1", "=", "x.y.z=1"],
)
def test_an_odd_set_is_refused_with_a_message_and_exit_code_2(tmp_path, capsys, text):
    (tmp_path / "config.json").write_text("{}")
    assert main(["check", str(tmp_path / "config.json"), "--set", text]) == 2
    assert "".join(capsys.readouterr()).strip()


def test_text_settings_take_text_that_resembles_another_type(config, capsys):
    main(["check", config({}), "--set", "sampling.prompts.0.prompt=1984", "--json"])
    paths = {problem["path"] for problem in json.loads(capsys.readouterr().out)}
    assert not any(path.startswith("sampling") for path in paths)


def test_no_command_shows_the_help(capsys):
    assert main([]) == 2
    assert "resume" in capsys.readouterr().out


def test_check_as_json_is_data(config, capsys):
    assert main(["check", config({}), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)
    assert {problem["path"] for problem in problems} == {"model.path", "data.folder"}
    assert all(problem["remedy"] for problem in problems)


def test_a_config_that_cannot_start_leaves_nothing_behind(config, tmp_path, capsys):
    path = config({"model": {"path": "x"}, "output": {"folder": "runs"}})
    assert main(["train", path]) == 2
    assert "data.folder" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_resume_of_no_run_is_one_message(tmp_path, capsys):
    assert main(["resume", str(tmp_path)]) == 2
    assert "config.json" in capsys.readouterr().err


def test_presets_are_listed_with_what_they_are_for(capsys):
    assert main(["presets"]) == 0
    assert "sd15/lora-low-memory" in capsys.readouterr().out


def test_diff_shows_what_a_preset_changes(capsys):
    assert main(["diff", "sd15/lora", "sd15/lora-low-memory"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "training.accumulation: 1 → 2" in lines
    assert 'hardware.gradient_checkpointing: "off" → "block"' in lines


def test_schema_accepts_what_the_program_writes_and_describes_every_setting(capsys):
    main(["schema"])
    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) == set(TrainConfig().model_dump())
    assert schema["additionalProperties"] is False
    described = schema["$defs"]["AdamW"]["properties"]
    assert all(field.get("description") for name, field in described.items() if name != "kind")


@each("name", COMMANDS)
def test_every_commands_help_says_first_what_it_does(capsys, name):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    said = " ".join(capsys.readouterr().out.split("\n\n")[1].split())
    assert said.lower() == f"{COMMANDS[name][1]}.".lower()


def test_begun_name_of_a_preset_is_refused_with_those_that_begin_so(capsys):
    assert main(["check", "sdxl"]) == 2
    said = capsys.readouterr().out
    assert "sdxl/lora" in said
    assert "sd15/lora" not in said


@each("value", ["a cat", '["a cat"]', '{"prompt": "a cat"}', "5"])
def test_a_wrong_list_of_prompts_is_refused_with_an_example(tmp_path, capsys, value):
    (tmp_path / "config.json").write_text("{}")
    given = ["--set", f"sampling.prompts={value}"]
    assert main(["check", str(tmp_path / "config.json"), *given]) == 2
    assert 'Expected a list such as [{"prompt": "a cat"}].' in capsys.readouterr().out


def test_runs_are_checked_and_compared_by_their_folders(tmp_path, capsys):
    for name, method in (("a", {"kind": "oft"}), ("b", {"kind": "lora", "rank": 4})):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"method": method}))
        (folder / "events.jsonl").write_text("")
    assert main(["check", str(tmp_path / "a")]) == 2
    assert "error: model.path: " in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == 'method.kind: "oft" → "lora"'
    assert "method.rank: (not with oft) → 4" in rest


def test_convert_reports_wrong_options_before_it_loads_anything(capsys):
    assert main(["convert", "a.safetensors", "b", "--precision", "fp8"]) == 2
    text = capsys.readouterr().err
    assert "--precision" in text
    assert "bf16" in text


def test_no_command_loads_an_engine_in_this_process(config):
    loaded = loaded_modules("sample", "./nothing", "--prompt", "x")
    loaded |= loaded_modules("check", config({"model": {"path": "x"}, "data": {"folder": "y"}}))
    assert not loaded & {"torch", "tkinter", "numpy", "diffusers", "huggingface_hub"}


def test_an_error_of_a_command_with_json_is_json_too(capsys):
    for command in ("plan", "cache", "check-data"):
        assert main([command, "nowhere", "--json"]) == 2
        out, err = capsys.readouterr()
        assert json.loads(out) == {"problem": err.strip()}
        assert "nowhere" in err


def test_check_as_json_contains_the_fix(config, capsys, tmp_path):
    path = tiny.write_sdxl(tmp_path / "xl.safetensors")
    assert main(["check", config({"model": {"path": str(path)}}), "--json"]) == 2
    found = {problem["path"]: problem for problem in json.loads(capsys.readouterr().out)}
    assert found["model.family"]["fix"] == {"path": "model.family", "value": "sdxl"}


def test_small_images_for_sdxl_are_a_warning_with_a_fix(config, capsys):
    main(["check", config({"model": {"family": "sdxl"}}), "--json"])
    found = {problem["path"]: problem for problem in json.loads(capsys.readouterr().out)}
    assert found["data.resolution"]["severity"] == "warning"
    assert found["data.resolution"]["fix"] == {"path": "data.resolution", "value": 1024}
