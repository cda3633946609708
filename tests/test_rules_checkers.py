"""The checkers of the rules can fail: each is shown a small source that breaks its rule."""

from tests import rules
from tests.each import each
from tests.line_ends import line_violations
from tests.opening_rules import opening_violations
from tests.rules import parse
from tests.tolerances import tolerance_violations


def _files(**texts: str) -> list[rules.Source]:
    """Sources from their texts; "modules__data__images" is modules/data/images.py."""
    return [parse(f"{name.replace('__', '/')}.py", text) for name, text in texts.items()]


@each(
    ("name", "text"),
    [
        ("onetrainer__a", "import torch"),
        ("onetrainer__a", "def f():\n    from torch.nn import Linear"),
        ("ui__a", "from diffusers import UNet2DConditionModel"),
        ("modules__a", "import tkinter.ttk"),
        ("onetrainer__a", "from tkinterdnd2 import TkinterDnD"),
    ],
)
def test_library_outside_its_wing_is_found(name, text):
    assert len(list(rules.library_violations(_files(**{name: text})))) == 1


def test_library_in_its_wing_is_allowed():
    files = _files(
        modules__a="import torch, peft", ui__a="import tkinter", onetrainer__a="import PIL"
    )
    assert list(rules.library_violations(files)) == []


@each(
    ("name", "text"),
    [
        ("ui__a", "import modules.trainer"),
        ("modules__a", "from ui.model.draft import Draft"),
        ("onetrainer__a", "from modules import seeds"),
        ("onetrainer__a", "def f():\n    import ui"),
    ],
)
def test_import_between_the_wings_is_found(name, text):
    assert len(list(rules.wing_violations(_files(**{name: text})))) == 1


@each(
    ("name", "target", "is_allowed"),
    [
        ("modules__diffusion__noise", "modules.seeds", True),
        ("modules__diffusion__noise", "modules.interfaces", False),
        ("modules__interfaces", "modules.diffusion.schedule", True),
        ("modules__families__sd15", "modules.families.prompts.prompts", True),
        ("modules__families__prompts__prompts", "modules.families.load", False),
        ("modules__families__sd15", "modules.methods.full", False),
        ("modules__methods__full", "modules.formats.lora.lora_file", True),
        ("modules__formats__lora__lora_file", "modules.methods.full", False),
        ("modules__trainer", "modules.training.checkpoints", True),
        ("modules__trainer", "modules.jobs.train", False),
        ("modules__worker", "modules.jobs.train", True),
        ("modules__surprise", "modules.seeds", False),
        ("onetrainer__cache__store", "onetrainer.errors", True),
        ("onetrainer__cache__store", "onetrainer.rules.data", False),
        ("ui__widgets__grid", "ui.theme.palette", True),
        ("ui__widgets__grid", "ui.charts.axes", False),
    ],
)
def test_ranks_are_those_of_the_architecture(name, target, is_allowed):
    files = _files(**{name: f"import {target}", target.replace(".", "__"): ""})
    assert (list(rules.rank_violations(files)) == []) is is_allowed


def test_ranks_see_through_from_and_relative_imports():
    files = _files(
        modules__trainer="",
        modules__data__images="from modules import trainer",
        modules__data__cache="from .. import trainer",
        modules__data__batches="from ..trainer import Trainer",
    )
    found = list(rules.rank_violations(files))
    assert [line.split(":")[0] for line in found] == [file.path for file in files[1:]]


def test_seven_files_at_the_top_of_a_wing_are_found():
    files = _files(**{f"ui__{name}": "" for name in "abcdefg"})
    assert len(list(rules.top_violations(files))) == 1
    assert list(rules.top_violations(files[1:])) == []


def test_a_folder_that_loads_its_files_is_found():
    package = parse("ui/a/__init__.py", "from ui.a.b import C")
    files = _files(ui__a__b="from ui.c import D")
    assert len(list(rules.package_violations([package, *files]))) == 1


def test_circle_of_three_files_is_found():
    files = _files(
        modules__seeds="from modules import memory",
        modules__memory="import modules.optim",
        modules__optim="def f():\n    from modules.seeds import at",
        modules__worker="import modules.seeds",
    )
    assert rules.circles(files) == [["modules.memory", "modules.optim", "modules.seeds"]]


@each(
    "text",
    [
        "from onetrainer.config.train import Training",
        "import onetrainer.config.train",
        "from onetrainer.config import train as t",
        "from onetrainer.somewhere import TrainConfig",
        "def f(config: train.TrainConfig): ...",
        "def f(config: TrainConfig): ...",
    ],
)
def test_whole_config_outside_jobs_is_found(text):
    files = _files(modules__trainer=text, modules__jobs__train=text, onetrainer__presets=text)
    found = list(rules.config_violations(files))
    assert found
    assert all(line.startswith("modules/trainer.py") for line in found)


def test_long_file_and_long_function_are_found():
    body = "\n".join("    x = 1" for _ in range(60))
    long_file = parse("a.py", "\n" * 401)
    long_function = parse("b.py", f"class A:\n    def f(self):\n{body.replace('    ', '        ')}")
    assert len(list(rules.size_violations(long_file))) == 1
    assert len(list(rules.size_violations(long_function))) == 1
    assert list(rules.size_violations(parse("c.py", "\n" * 400))) == []


@each(
    ("path", "text", "count"),
    [
        ("modules__a", 'if family == "sdxl": pass', 1),
        ("ui__a", '"""For SDXL."""', 1),
        ("onetrainer__a", "config.text_encoder_2", 1),
        ("onetrainer__a", 'key.startswith("lora_te_")', 0),
        ("onetrainer__families__new", 'name="sdxl"', 0),
        ("onetrainer__config__migrate", '"sdxl"', 0),
        ("onetrainer__config__migrate", "", 1),
    ],
)
def test_family_named_outside_of_its_room_is_found(path, text, count):
    assert len(list(rules.family_violations(_files(**{path: text})))) == count


def test_deep_nesting_is_found_and_long_elif_chains_are_not():
    keywords = ["for a in b:", "while a:", "if a:", "with a:", "try:"]
    lines = [f"{'    ' * depth}{line}" for depth, line in enumerate(keywords, 1)]
    deep = ["def f():", *lines, "    " * 6 + "pass", "    " * 5 + "except ValueError: pass"]
    flat = ["def f():", "    if a: pass", *["    elif a: pass"] * 9, "    else: pass"]
    assert len(list(rules.size_violations(parse("a.py", "\n".join(deep))))) == 1
    assert list(rules.size_violations(parse("b.py", "\n".join(flat)))) == []


@each(
    ("text", "count"),
    [
        ("x = f()  # type: ignore", 1),
        ("x = f()  # type: ignore[attr-defined]", 1),
        ("x = f()  # type: ignore[no-untyped-call]  # torch's", 0),
    ],
)
def test_silenced_check_without_a_reason_is_found(text, count):
    assert len(list(rules.manner_violations(parse("a.py", text)))) == count


@each(
    ("text", "count"),
    [
        ("text.splitlines()", 1),
        ("path.read_text().splitlines(keepends=True)[0]", 1),
        ("file.readlines()", 1),
        (r"text.split('\n', 1)", 1),
        (r"content.split(b'\n')", 0),
        ("split_lines(text)", 0),
    ],
)
def test_text_cut_into_lines_in_another_way_is_found(text, count):
    assert len(list(line_violations(parse("ui/a.py", text)))) == count


def test_file_named_after_nothing_is_found():
    assert len(list(rules.manner_violations(parse("ui/utils.py", "")))) == 1


@each(
    ("last", "count"),
    [("_", 1), ("_ if x", 0), ("B()", 0), ("other", 0)],
)
def test_match_over_our_classes_that_falls_through_is_found(last, count):
    text = f"from modules.a import A\nmatch x:\n    case A(): pass\n    case {last}: pass\n"
    assert len(list(rules.match_violations(parse("a.py", text)))) == count
    of_a_library = text.replace("from modules.a import A", "from a import A")
    assert not list(rules.match_violations(parse("a.py", of_a_library)))


@each(
    ("text", "count"),
    [
        ("torch.testing.assert_close(a, b, rtol=0, atol=1e-6)", 1),
        ("torch.testing.assert_close(a, b, **CLOSE)\nCLOSE = {'atol': 1e-6, 'rtol': 1e-6}", 1),
        ("assert torch.allclose(a, b, 1e-7)", 1),
        ("assert a.allclose(b)", 1),
        ("import torch\nassert a.tolist() == pytest.approx(b)", 1),
        ("assert a == pytest.approx(b, abs=2**-20)", 1),
        ("assert (a - b).abs().max() < 5 * 1e-7", 1),
        ("limit = 1e-6 * scale\nassert limit >= (a - b).norm()", 1),
        ("assert a == pytest.approx(b)", 0),
        ("torch.testing.assert_close(a, b, rtol=0, atol=0)", 0),
        ("torch.testing.assert_close(a, b, rtol=1e-2, atol=0.5 / 255)", 0),
        ("close(a, b, roundings=1000)\nassert (a - b).norm() > 1e-9", 0),
        ("section = AdamW(lr=1e-6, eps=1e-8)", 0),
    ],
)
def test_tolerance_that_is_a_bare_small_number_is_found(text, count):
    assert len(list(tolerance_violations(parse("tests/test_a.py", text)))) == count


@each("text", ["path.read_bytes()", "open(path)", "shutil.rmtree(path)", "folder.lock.touch()"])
def test_opening_files_of_run_folders_otherwise_is_found(text):
    found = [*opening_violations(_files(onetrainer__run__a=text, onetrainer__presets__a=text))]
    assert found == ["onetrainer/run/a.py:1: open it by onetrainer/files/inside.py"]
    assert len([*opening_violations(_files(onetrainer__run__fork="open_inside(path)"))]) == 1
