"""Recorded steps have the bits of eager ones, whatever happens between them."""

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from modules.jobs.train import train
from modules.stepping import recordings
from modules.stepping.gradients import StaticGradients
from modules.stepping.recordings import WARM_RUNS, Recordings
from onetrainer.run.events import Progress, Validated, Warned
from tests import runs, table
from tests.tape import Tape

STEPS = 5
LONG = {"training": {"steps": STEPS, "gradient_clipping": 1.0}, "output": {"save_every": 2}}
BETWEEN = {
    "training": {"steps": 4},  # two of which are replayed
    "sampling": {"every": 2, "steps": 1, "at_start": False},
    "validation": {"use": True, "folder": "held-out", "every": 2, "timesteps": 2},
}
CASES = {
    "lora": (table.Case("sd15", "lora", "plain", "fp32"), {}),
    "accumulated": (
        table.Case("sd15", "lora", "plain", "fp32"),
        {"training": {"batch_size": 1, "accumulation": 2}},
    ),
    "full with ema": (table.Case("sd15", "full-fp32", "plain", "bf16"), {"ema": {"use": True}}),
    "rounded": (table.Case("sd15", "full-bf16", "plain", "bf16"), {}),
    "sdxl": (table.Case("sdxl", "lora", "plain", "bf16"), {}),
    "vae": (table.Case("sd15", "vae", "plain", "fp32"), {}),
    "accumulated in fp16": (
        table.Case("sd15", "lora", "plain", "fp16"),
        {"training": {"batch_size": 1, "accumulation": 2}},
    ),
    "dora": (table.Case("sd15", "dora", "plain", "fp16"), {}),
    "dropout": (table.Case("sd15", "lora", "plain", "fp32"), {"method": {"dropout": 0.3}}),
    "checkpointed": (
        table.Case("sd15", "lokr", "plain", "fp32"),
        {"hardware": {"gradient_checkpointing": "block"}},
    ),
    "other optimizer": (
        table.Case("sd15", "loha", "plain", "fp32"),
        {"optimizer": {"kind": "prodigy"}},
    ),
    "effects": (
        table.Case("sd15-inpainting", "oft", "rich", "fp32"),
        {"training": {"steps": 6}},  # of several shapes, each recorded at its second step
    ),
}
FEW = ("accumulated in fp16", "full with ema", "vae")
IN_LONG = [pytest.param(name, marks=pytest.mark.long) for name in CASES if name not in FEW]


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    root = tmp_path_factory.mktemp("captured")
    made = {}

    def project(family):
        if family not in made:
            made[family] = table.write_project(root / family, family)
        return made[family]

    return project


@pytest.fixture
def tape(monkeypatch):
    """Stands for the graphs of a card; the second step is recorded and the third one replayed."""
    made = Tape()
    monkeypatch.setattr(recordings, "WARM_RUNS", 1)
    monkeypatch.setattr("modules.assembly.stepping.recorder_for", lambda _device: made)
    return made


def new_run(projects, case, *changes):
    document = table.document_of(case)
    if case.method != "vae":
        document["method"] = {
            key: value for key, value in document["method"].items() if key != "text_encoders"
        }
    for sections in (LONG, *changes):
        for name, values in sections.items():
            document[name] = {**document.get(name, {}), **values}
    return table._new_run(case, projects(case.family), document)


def raw(tensor):
    return tensor.flatten().view(torch.uint8).numpy().tobytes()


def results(folder):
    """Everything that a run has computed, as bytes."""
    files = [path for path in folder.path.rglob("*.safetensors") if path.parent != folder.output]
    found = {
        (path.relative_to(folder.path).as_posix(), name): raw(tensor)
        for path in files
        for name, tensor in load_file(path).items()
    }
    for path in folder.samples.glob("*.png"):
        with Image.open(path) as image:
            found[path.name, ""] = image.tobytes()
    events = runs.events_of(folder)
    steps = [(e.step, e.loss, e.lr, e.gradient_norm) for e in events if isinstance(e, Progress)]
    found["steps", ""] = steps
    found["validation", ""] = [(e.step, e.loss) for e in events if isinstance(e, Validated)]
    return found


@pytest.mark.parametrize("name", [*FEW, *IN_LONG])
def test_recorded_steps_have_the_bits_of_eager_ones(projects, tape, name):
    """Also where images are sampled and measured and checkpoints saved between replays."""
    case, changes = CASES[name]
    eager = new_run(projects, case, BETWEEN, changes)
    assert train(eager) == 0
    assert (tape.records, tape.replays) == (0, 0)
    captured = new_run(projects, case, BETWEEN, changes, {"hardware": _hardware(case, changes)})
    assert train(captured) == 0
    assert tape.replays > 0
    expected, found = results(eager), results(captured)
    assert found.keys() == expected.keys()
    assert [key for key in expected if found[key] != expected[key]] == []


def test_a_resumed_run_records_anew_and_has_the_same_bits(projects, tape, crash_in):
    case, _ = CASES["lora"]
    capture = {"hardware": _hardware(case, {})}
    straight, died = (new_run(projects, case, capture) for _ in range(2))
    assert train(straight) == 0
    crash_in(died, 3)
    replayed = tape.replays
    assert train(died) == 0
    assert tape.replays > replayed
    weights = [
        load_file(each.checkpoint(STEPS) / "weights.safetensors") for each in (straight, died)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def _hardware(case, changes):
    return {
        "precision": case.precision, "device": "cpu", "threads": 1, "capture": True,
        **changes.get("hardware", {}),
    }  # fmt: skip


def warnings_of(folder):
    return [event.text for event in runs.events_of(folder) if isinstance(event, Warned)]


def test_what_is_not_recorded_is_said_with_the_reason(projects, tape):
    live = table.Case("sd15", "lora", "plain", "fp32", "uncached")
    rounded, _ = CASES["rounded"]
    few = {"training": {"steps": 1}}
    runs_made = [
        new_run(projects, case, few, {"hardware": _hardware(case, {})}) for case in (live, rounded)
    ]
    assert [train(folder) for folder in runs_made] == [0, 0]
    said = [" ".join(warnings_of(folder)) for folder in runs_made]
    assert "steps are not captured (hardware.capture): captions are encoded in every" in said[0]
    assert "the optimizer's steps are not captured (hardware.capture): stochastic" in said[1]


def test_a_processor_has_no_recordings():
    assert recordings.recorder_for(torch.device("cpu")) is None


def test_a_tape_refuses_reads_and_memory_that_does_not_stay():
    fresh = torch.ones(3)
    for work, message in (
        (lambda: torch.arange(3).sum().item(), "cannot read a value"),
        (lambda: torch.arange(3).tolist(), "cannot read a value"),
        (lambda: fresh * 2, "does not stay"),
    ):
        with pytest.raises(RuntimeError, match=message):
            Tape().record(work)


def test_results_of_a_replay_are_not_overwritten_by_the_next_one():
    layer = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)

    def work():
        with torch.no_grad():
            return layer.weight.add_(1)[0] * 2

    made = Recordings(Tape())
    found = [made.run("key", work) for _ in range(WARM_RUNS + 3)]
    assert [each.tolist() for each in found[-3:]] == [[8, 8], [10, 10], [12, 12]]


def test_gradients_are_added_to_fixed_memory_without_a_changed_bit():
    weight, unused = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    gradient = torch.tensor([-0.0, 0.0, 1.5])
    gradients = StaticGradients([weight, unused])
    weight.grad = gradient.clone()
    gradients.learn()
    gradients.begin()
    assert gradients.are_set()
    assert unused.grad is None
    memory = weight.grad
    (weight * gradient).sum().backward()
    assert weight.grad is memory
    assert torch.equal(weight.grad.view(torch.int32), gradient.view(torch.int32))
    weight.grad = gradient
    assert not gradients.are_set()
