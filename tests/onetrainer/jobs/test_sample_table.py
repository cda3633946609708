"""Grids over any two settings, as a command line asks for them; no engine is loaded."""

import pytest

from onetrainer.__main__ import make_parser
from onetrainer.config.run.sampling import Prompt
from onetrainer.errors import UserError
from onetrainer.jobs.sample_options import request_of
from onetrainer.jobs.sample_table import table_of
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.run_folder import RunFolder, fill_run
from tests.each import each

HUB = "owner/model"


def table(*arguments):
    options = make_parser("sample").parse_args(["sample", HUB, "--prompt", "a cat", *arguments])
    return table_of(request_of(options), "sd15", "epsilon")


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints of the steps 10 and 20, as far as headers are read."""
    folder = fill_run(tmp_path / "paper-001", config={})
    folder.events.write_text("")
    for step in (10, 20):
        folder.checkpoint(step).mkdir()
        state = state_content({"step": step, "events_size": 0}, {})
        (folder.checkpoint(step) / "state.json").write_bytes(state)
    return folder


def test_rows_and_columns_vary_one_setting_each(tmp_path):
    lora = tmp_path / "style.safetensors"
    lora.write_bytes(b"")
    found = table("--x", "guidance=3, 5", "--y", "seed=7-9", "--steps", "4")
    assert found.columns == ("guidance 3", "guidance 5")
    assert found.rows == ("seed 7", "seed 8", "seed 9")
    assert [(cell.row, cell.column) for cell in found.cells] == [
        (row, column) for row in range(3) for column in range(2)
    ]
    last = found.cells[-1].shot
    assert (last.guidance, last.steps, last.prompt.seed) == (5.0, 4, 9)


@each(
    ("axis", "label", "changed"),
    [
        ('prompt=["a dog, wet", "a fox"]', "a dog, wet", {"prompt": "a dog, wet"}),
        ("negative=blur", "negative prompt blur", {"negative": "blur"}),
        ("size=512x768", "size 512x768", {"width": 512, "height": 768}),
        ("size=640", "size 640", {"width": 640, "height": 640}),
    ],
)
def test_each_setting_of_a_prompt_can_be_varied(axis, label, changed):
    found = table("--x", axis)
    assert (found.rows, found.columns[0]) == (("",), label)
    usual = {"prompt": "a cat", "width": 512, "height": 512}
    assert found.cells[0].shot.prompt == Prompt(**usual | changed)


def test_samplers_are_named_as_people_do():
    found = table("--x", "sampler=euler_a, DPM++ 2M Karras", "--y", "steps=2-4")
    assert found.columns == ("Euler a", "DPM++ 2M Karras")
    assert [(cell.shot.sampler, cell.shot.steps) for cell in found.cells[:3]] == [
        ("euler_a", 2),
        ("dpmpp_2m_karras", 2),
        ("euler_a", 3),
    ]


def test_strengths_and_steps_of_a_run_are_those_of_the_chosen_lora(run, tmp_path):
    loras = ("--lora", f"{run.path}@10", "--lora", f"{run.path}:0.5")
    found = table(*loras, "--x", "strength:2=0,1", "--y", "step=10,20")
    assert found.rows == ("step 10", "step 20")
    assert [[(lora.step, lora.strength) for lora in cell.loras] for cell in found.cells] == [
        [(10, 1.0), (None, 0.0)],
        [(10, 1.0), (None, 1.0)],
        [(20, 1.0), (None, 0.0)],
        [(20, 1.0), (None, 1.0)],
    ]
    assert found.cells[0].loras[0].name == "paper-001-10"
    assert found.cells[0].loras[0].run.path == RunFolder(run.path).path


@each(
    ("arguments", "what"),
    [
        (("--x", "taste=1,2"), "this is no setting with values"),
        (("--x", "guidance="), "this is no setting with values"),
        (("--x", "guidance=99"), "Guidance: "),
        (("--x", "seed=1-400"), "Seed: these are"),
        (("--x", "strength=1"), "LoRA strength: there is not a LoRA number 1"),
        (("--x", "step=1"), "Step of the run: there is not a run's step"),
        (("--x", "steps=2", "--y", "steps=3"), "rows and columns of the grid both vary it"),
        (("--x", "steps=2", "--seeds", "2"), "one prompt and one seed"),
        (("--x", "seed=1-64", "--y", "steps=1-64"), "The grid would have 4,096 images"),
    ],
)
def test_what_is_no_grid_is_refused_before_anything_is_loaded(arguments, what):
    with pytest.raises(UserError) as raised:
        table(*arguments)
    assert what in str(raised.value)
