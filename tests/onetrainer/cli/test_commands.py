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
        path.write_text(document if isinstance(document, str) else json.dumps(document))
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


def test_help_loads_nothing_but_argparse_and_no_command_loads_an_engine(config):
    assert not loaded_modules("--help") & {"pydantic", "PIL", "torch", "tkinter", "json"}
    loaded = loaded_modules("sample", "./nothing", "--prompt", "x")
    loaded |= loaded_modules("check", config({"model": {"path": "x"}, "data": {"folder": "y"}}))
    assert not loaded & {"torch", "tkinter", "numpy", "diffusers", "huggingface_hub"}


def test_check_reports_every_problem_with_path_expectation_and_remedy(config, capsys):
    path = config({"training": {"steps": 0, "sed": 1}, "optimizer": {"lr": -1}})
    assert main(["check", path]) == 2
    output = capsys.readouterr().out
    assert output.count(" (line 1): ") == 3  # of what the file says
    lines = dict(line.split(": ", 2)[1:] for line in output.replace(" (line 1)", "").splitlines())
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
    "deep": '{"a":' * 900 + "1" + "}" * 900,
    "deep list": '{"a":' + "[" * 900 + "]" * 900 + "}",
    "itself": '{"extends": "config.json"}',
    "no folder": '{"model": {"path": "x"}, "output": {"folder": "runs"}}',
}
ODD_SETS = (
    "version=99",
    "extends=x",
    "a" * 5000,
    "sampling.prompts.9.seed=1",
    "=",
    "x.y.z=1",
    "a." * 1000 + "a=1",
)
ODD_SETS += ("x=" + "[" * 900 + "]" * 900, f"sampling.prompts.{'9' * 5000}.seed=1")


def test_odd_settings_are_refused_with_a_message_exit_code_2_and_no_trace(config, tmp_path, capsys):
    commands = [[name, odd] for odd in ODD_CONFIGS.values() for name in ("check", "train")]
    commands += [["check", "{}", "--set", odd] for odd in ODD_SETS]
    for name, text, *rest in commands:
        assert main([name, config(text), *rest]) == 2, text[:80]
        assert "".join(capsys.readouterr()).strip()
    assert not list(tmp_path.glob("runs*"))


WRONG_PROMPTS = ("a cat", '["a cat"]', '{"prompt": "a cat"}', "5")


@each(
    ("arguments", "code", "words"),
    [
        ("", 2, ["resume"]),
        ("resume .", 2, ["config.json"]),
        ("presets", 0, ["sd15/lora-low-memory"]),
        ("diff sd15/lora sd15/lora-low-memory", 0, [
            "training.accumulation: 1 → 2\n",
            'hardware.gradient_checkpointing: "off" → "block"\n',
        ]),
        ("check sdxl", 2, ["presets: sdxl/dora, ", "sdxl/lora, "]),
        ("convert a.safetensors b --precision fp8", 2, ["--precision", "bf16"]),
        *((f"check sd15/lora --set sampling.prompts={value.replace(' ', '_')}", 2,
           ['Expected a list such as [{"prompt": "a cat"}].']) for value in WRONG_PROMPTS),
    ],
)  # fmt: skip
def test_commands_say_what_they_found(capsys, arguments, code, words):
    assert main([part.replace("_", " ") for part in arguments.split()]) == code
    said = "".join(capsys.readouterr())
    assert all(word in said for word in words), said


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


def test_an_error_of_a_command_with_json_is_json_too(capsys):
    for command in ("plan", "cache", "check-data"):
        assert main([command, "nowhere", "--json"]) == 2
        out, err = capsys.readouterr()
        assert json.loads(out) == {"problem": err.strip()}
        assert "nowhere" in err


def test_check_as_json_has_every_problem_with_its_remedy_and_fix(config, capsys, tmp_path):
    def problems(document, *arguments):
        assert main(["check", config(document), *arguments, "--json"]) == 2
        return {problem["path"]: problem for problem in json.loads(capsys.readouterr().out)}

    # A text setting takes text that resembles another type.
    found = problems({}, "--set", "sampling.prompts.0.prompt=1984")
    assert set(found) == {"model.path", "data.folder"}
    assert all(problem["remedy"] for problem in found.values())
    path = tiny.write_sdxl(tmp_path / "xl.safetensors")
    found = problems({"model": {"path": str(path)}})
    assert found["model.family"]["fix"] == {"path": "model.family", "value": "sdxl"}
    found = problems({"model": {"family": "sdxl"}})  # images are small for it
    assert found["data.resolution"]["severity"] == "warning"
    assert found["data.resolution"]["fix"] == {"path": "data.resolution", "value": 1024}
