"""A person's own reward: run only if trusted, checked, and its faults reported with their place."""

import py_compile
import sys
from importlib.machinery import PathFinder

import pytest
import torch

from modules.rewards.load import make_rewards
from modules.user_code.trusted_imports import _stdlib_spec
from onetrainer.config.rewards.reward import Reward as Section
from onetrainer.errors import UserError
from onetrainer.trust.function_file import find_function
from onetrainer.trust.trusted_files import trust
from tests.close import close

CPU = torch.device("cpu")
PROMPTS = ("a", "b")


def load(spec, **options):
    section = Section(reward="function", function=spec, **options)
    return make_rewards([section], device=CPU, dtype=torch.float32, offline=True, report=print)[0]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "settings"))


@pytest.fixture
def make(tmp_path):
    """Makes the reward of some code, allowed or not."""

    def made(code, *, allowed=True, name="score", has_gradient=False):
        file = tmp_path / "own.py"
        file.write_text(code)
        spec = f"{file}:{name}"
        if allowed:
            trust(find_function(spec))
        return load(spec, has_gradient=has_gradient)

    return made


def images():
    return torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))


def test_nothing_is_run_before_consent(make, tmp_path):
    trace = tmp_path / "trace"
    code = f"import pathlib\npathlib.Path({str(trace)!r}).touch()\ndef score(p, q): return [0, 0]\n"
    with pytest.raises(UserError, match="this code is not trusted yet"):
        make(code, allowed=False)
    assert not trace.exists()
    make(code)
    assert trace.exists()


@pytest.mark.parametrize(
    "answer",
    ["[1, 2.5]", "(1, 2.5)", "np.array([1, 2.5])", "torch.tensor([1, 2.5], dtype=torch.float64)"],
)
def test_scores_may_be_tensors_or_numbers(make, answer):
    code = f"import numpy as np, torch\ndef score(images, prompts): return {answer}\n"
    scores = make(code).score(images(), PROMPTS)
    assert scores.dtype == torch.float32
    assert scores.tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("None", "it returned nothing"),
        ("'high'", "it returned a str"),
        ("1.0", r"shape \(\) for 2 images"),
        ("[1]", r"shape \(1,\) for 2 images"),
        ("images.mean((2, 3))", r"shape \(2, 3\) for 2 images"),
        ("[1, float('nan')]", "not a finite number"),
        ("[1, float('inf')]", "not a finite number"),
    ],
)
def test_an_answer_that_is_no_score_is_reported(make, answer, words):
    own = make(f"def score(images, prompts): return {answer}\n")
    with pytest.raises(UserError, match=rf"own\.py: score: .*{words}"):
        own.score(images(), PROMPTS)


def test_what_the_code_raises_is_reported_with_its_line(make):
    own = make(
        "import json\ndef score(images, prompts): return read()\n"
        "def read():\n    return json.loads('?')\n"
    )
    with pytest.raises(UserError, match=r"own\.py, line 4: JSONDecodeError: Expecting value"):
        own.score(images(), PROMPTS)
    with pytest.raises(UserError, match=r"own\.py, line 1: SystemExit: 3"):
        make("raise SystemExit(3)\ndef score(images, prompts): pass\n")
    with pytest.raises(UserError, match=r"own\.py: \"score\" is a int"):
        make("score = 5\n")


def test_a_lack_of_memory_stays_what_it_is(make):
    own = make("def score(images, prompts): raise MemoryError\n")
    with pytest.raises(MemoryError):
        own.score(images(), PROMPTS)


def test_a_gradient_flows_through_a_function_that_has_one(make):
    own = make(
        "def score(images, prompts): return images[:, 0].mean((1, 2)) * 2\n", has_gradient=True
    )
    shown = images().requires_grad_()
    own.score(shown, PROMPTS).sum().backward()
    assert shown.grad[:, 0].unique().tolist() == [2 / 16]
    assert not shown.grad[:, 1:].any()


def test_a_promised_gradient_that_is_none_is_reported(make):
    own = make("def score(images, prompts): return [1, 2]\n", has_gradient=True)
    with pytest.raises(UserError, match="no gradient"):
        own.score(images().requires_grad_(), PROMPTS)
    assert own.score(images(), PROMPTS).tolist() == [1, 2]


def test_what_a_function_does_to_its_images_is_its_own_copy(make):
    own = make(
        "def score(images, prompts):\n    images.zero_(); prompts.clear()\n    return [0, 0]\n"
    )
    shown, kept = images(), images()
    own.score(shown, PROMPTS)
    assert torch.equal(shown, kept)


def test_files_next_to_it_can_be_imported_and_the_search_path_is_left_alone(make, tmp_path):
    (tmp_path / "beside_own_reward.py").write_text("VALUE = 7\n")
    before = list(sys.path)
    own = make("from beside_own_reward import VALUE\ndef score(p, q): return [VALUE, VALUE]\n")
    assert own.score(images(), PROMPTS).tolist() == [7, 7]
    assert sys.path == before


def test_local_files_that_were_not_shown_are_refused_however_they_are_imported(make, tmp_path):
    for folder in ("", "elsewhere", "shown"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "hidden_from_trust.py").write_text("raise SystemExit('it was run')\n")
    (tmp_path / "shown" / "__init__.py").touch()
    score = "def score(p, q):\n    importlib.import_module(NAME)\n    return [0, 0]\n"
    elsewhere = f"import sys\nsys.path.insert(0, {str(tmp_path / 'elsewhere')!r})\n"
    for code in (
        "NAME = 'hidden_from_trust'\n",
        f"{elsewhere}NAME = 'hidden_from_trust'\n",
        "import shown\nNAME = 'shown.hidden_from_trust'\n",
    ):
        before = list(sys.path)
        own = make(f"import importlib\n{code}{score}")
        with pytest.raises(UserError, match=r"own\.py, line \d: ImportError: .*was not shown"):
            own.score(images(), PROMPTS)
        sys.path[:] = before
    own = make(f"import importlib\nNAME = 'nowhere_at_all'\n{score}")
    with pytest.raises(UserError, match="ModuleNotFoundError: No module named 'nowhere_at_all'"):
        own.score(images(), PROMPTS)


def test_files_of_the_current_folder_are_never_run_unseen(make, tmp_path, monkeypatch):
    current = tmp_path / "current"
    (current / "plain_in_current").mkdir(parents=True)
    for name in ("in_current", "plain_in_current/light"):
        (current / f"{name}.py").write_text("raise SystemExit('it was run')\n")
    monkeypatch.chdir(current)
    for entry in ("", ".", "../current"):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
        for name in ("in_current", "plain_in_current.light"):
            with pytest.raises(UserError, match=r"line 1: ImportError: .*was not shown"):
                make(f"import {name}\ndef score(p, q): return [0, 0]\n")


def test_a_local_file_never_stands_in_for_one_of_pythons_own_modules(make, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("wave", "winreg" if sys.platform != "win32" else "readline"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text("raise SystemExit('it was run')\n")
    before = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    score = "def score(p, q): return [len(wave.WAVE_FORMAT_PCM.to_bytes())] * 2\n"
    assert make(f"{before}import wave\n{score}").score(images(), PROMPTS).tolist() == [1, 1]
    with pytest.raises(UserError, match=r"own\.py, line 3: ImportError: .*was not shown"):
        make(f"{before}import {name}\n{score}")


def test_pythons_own_modules_are_found_where_python_finds_them():
    names = [*sorted(sys.stdlib_module_names), "xml.dom.minidom", "json.tool"]
    for name in names:
        if (usual := PathFinder.find_spec(name.partition(".")[0])) is not None:
            found = _stdlib_spec(name)
            assert found is not None, (name, usual.origin)
            assert "." in name or found.origin in (usual.origin, "built-in", "frozen")


def test_two_functions_have_their_own_modules_of_one_name_also_when_scoring(tmp_path):
    code = "def score(p, q):\n    from beside_each import VALUE\n    return [VALUE, VALUE]\n"
    rewards = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "beside_each.py").write_text(f"VALUE = {number}\n")
        (folder / "own.py").write_text(code)
        trust(find_function(f"{folder / 'own.py'}:score"))
        rewards.append(load(f"{folder / 'own.py'}:score"))
        (folder / "beside_each.py").write_text("VALUE = 9\n")  # not what was trusted
    for number, own in [*enumerate(rewards), *enumerate(rewards)]:
        assert own.score(images(), PROMPTS).tolist() == [number, number]
    assert "beside_each" not in sys.modules


def test_packages_without_an_init_are_imported_from_what_was_trusted(make, tmp_path):
    (tmp_path / "plain_beside" / "deep").mkdir(parents=True)
    (tmp_path / "plain_beside" / "deep" / "light.py").write_text("from ..dark import VALUE\n")
    (tmp_path / "plain_beside" / "dark.py").write_text("VALUE = 3\n")
    code = "from plain_beside.deep import light\ndef score(p, q): return [light.VALUE] * 2\n"
    assert make(code).score(images(), PROMPTS).tolist() == [3, 3]


def test_a_module_is_run_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "own_reward_module.py").write_text("def score(p, q): return p.mean((1, 2, 3))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    trust(find_function("own_reward_module:score"))
    own = load("own_reward_module:score")
    shown = images()
    close(own.score(shown, PROMPTS), shown.mean((1, 2, 3)))


def test_what_was_compiled_of_a_module_before_is_not_run(tmp_path, monkeypatch):
    package = tmp_path / "own_compiled_package"
    package.mkdir()
    shown = {"__init__.py": "", "light.py": "def score(p, q): return [1] * len(p)\n"}
    for name, code in shown.items():
        (package / name).write_text("raise RuntimeError('not what was shown')\n")
        py_compile.compile(
            package / name, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        (package / name).write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    trust(find_function("own_compiled_package.light:score"))
    own = load("own_compiled_package.light:score")
    assert own.score(images(), PROMPTS).tolist() == [1, 1]
