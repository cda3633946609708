"""The command line, without a worker: messages and exit codes."""

import json
import re
import subprocess
import sys

import pytest

from onetrainer.__main__ import main
from onetrainer.config.train import TrainConfig
from tests import tiny


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


def test_check_loads_neither_torch_nor_tkinter(config):
    loaded = loaded_modules("check", config({"model": {"path": "x"}, "data": {"folder": "y"}}))
    assert not loaded & {"torch", "tkinter", "numpy", "diffusers"}


def test_check_tells_every_problem_with_path_expectation_and_remedy(config, capsys):
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


@pytest.mark.parametrize("kind", ODD_CONFIGS)
@pytest.mark.parametrize("command", ["check", "train"])
def test_an_odd_config_is_told_in_words_and_exit_code_2(tmp_path, capsys, command, kind):
    path = tmp_path / "config.json"
    path.write_text(ODD_CONFIGS[kind])
    assert main([command, str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out + err).strip()
    assert not list(tmp_path.glob("runs*"))


@pytest.mark.parametrize(
    "text",
    ["version=99", "extends=x", "a" * 5000, "sampling.prompts.9.seed=1", "=", "x.y.z=1"],
)
def test_an_odd_set_is_told_in_words_and_exit_code_2(config, capsys, text):
    assert main(["check", config({}), "--set", text]) == 2
    assert "".join(capsys.readouterr()).strip()


def test_text_settings_take_text_that_looks_like_something_else(config, capsys):
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


def test_set_wins_over_the_file(config, capsys):
    path = config({"training": {"steps": 0}})
    main(["check", path, "--set", "training.steps=5", "--json"])
    paths = {problem["path"] for problem in json.loads(capsys.readouterr().out)}
    assert "training.steps" not in paths


@pytest.mark.parametrize("command", ["check", "train"])
def test_a_missing_config_is_one_message_and_exit_code_2(command, capsys):
    assert main([command, "nope.json"]) == 2
    text = "".join(capsys.readouterr())
    assert "nope.json" in text
    assert "Traceback" not in text


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


def test_schema_accepts_what_the_program_writes(capsys):
    main(["schema"])
    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) == set(TrainConfig().model_dump())
    assert schema["additionalProperties"] is False


def test_schema_describes_every_setting(capsys):
    main(["schema"])
    schema = json.loads(capsys.readouterr().out)
    described = schema["$defs"]["AdamW"]["properties"]
    assert all(field.get("description") for name, field in described.items() if name != "kind")


@pytest.mark.parametrize(
    "name", ["train", "resume", "check", "demo", "sample", "convert", "show", "presets", "doctor"]
)
def test_every_commands_help_says_first_what_it_does(capsys, name):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.search(rf"^    {name} +(.+)", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(SystemExit):
        main([name, "--help"])
    said = capsys.readouterr().out.split("\n\n")[1]
    assert said.lower().startswith(listed[1].lower()[:30])


def test_begun_name_of_a_preset_is_told_with_those_that_begin_so(capsys):
    assert main(["check", "sdxl"]) == 2
    said = capsys.readouterr().out
    assert "sdxl/lora" in said
    assert "sd15/lora" not in said


@pytest.mark.parametrize(
    ("name", "near"),
    [("training.bananas", ""), ("training.sed", "training.seed"), ("optimizer.rank", "method.rank"),
     ("trainig.steps", "training"), ("training.batchsize", "training.batch_size")],
)  # fmt: skip
def test_only_near_names_are_suggested(config, capsys, name, near):
    main(["check", config({}), "--set", f"{name}=1", "--json"])
    problems = json.loads(capsys.readouterr().out)
    (remedy,) = [p["remedy"] for p in problems if p["what"] == "there is no such setting"]
    assert remedy == (f'Did you mean "{near}"?' if near else "Remove it.")


@pytest.mark.parametrize("value", ["a cat", '["a cat"]', '{"prompt": "a cat"}', "5"])
def test_a_wrong_list_of_prompts_is_told_with_an_example(config, capsys, value):
    assert main(["check", config({}), "--set", f"sampling.prompts={value}"]) == 2
    assert 'Expected a list such as [{"prompt": "a cat"}].' in capsys.readouterr().out


def test_too_long_a_warm_up_names_both_settings(config, capsys):
    main(["check", config({"training": {"steps": 50}, "schedule": {"warmup_steps": 50}})])
    said = capsys.readouterr().out
    assert "Lower schedule.warmup_steps, or raise training.steps." in said


def test_show_tells_what_a_file_is_in_words_and_as_json(tmp_path, capsys):

    file = str(tiny.write_sdxl(tmp_path / "xl.safetensors"))
    assert main(["show", file]) == 0
    assert "SDXL" in capsys.readouterr().out.splitlines()[0]
    assert main(["show", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "sdxl"


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


def test_convert_tells_wrong_options_before_it_loads_anything(capsys):
    assert main(["convert", "a.safetensors", "b", "--precision", "fp8"]) == 2
    text = capsys.readouterr().err
    assert "--precision" in text
    assert "bf16" in text


def test_sample_and_convert_load_no_engine_in_this_process():
    loaded = loaded_modules("sample", "./nothing", "--prompt", "x")
    loaded |= loaded_modules("convert", "./nothing", "x")
    assert not loaded & {"torch", "tkinter", "numpy", "diffusers", "huggingface_hub"}


def test_check_as_json_tells_the_fix(config, capsys, tmp_path):
    path = tiny.write_sdxl(tmp_path / "xl.safetensors")
    assert main(["check", config({"model": {"path": str(path)}}), "--json"]) == 2
    found = {problem["path"]: problem for problem in json.loads(capsys.readouterr().out)}
    assert found["model.family"]["fix"] == {"path": "model.family", "value": "sdxl"}


def test_small_images_for_sdxl_are_a_warning_with_a_fix(config, capsys):
    main(["check", config({"model": {"family": "sdxl"}}), "--json"])
    found = {problem["path"]: problem for problem in json.loads(capsys.readouterr().out)}
    assert found["data.resolution"]["severity"] == "warning"
    assert found["data.resolution"]["fix"] == {"path": "data.resolution", "value": 1024}
