"""Files of a run's checkpoints, written afterwards, against those that the run itself wrote."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load, load_file

from modules.jobs.convert import convert
from modules.jobs.lora_sources import files_of
from modules.jobs.merge import merge
from modules.jobs.sample import sample
from modules.jobs.train import train
from modules.trainer import Trainer
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.jobs.lora_requests import MergeRequest
from onetrainer.jobs.sample_request import SampledLora, SampleRequest
from onetrainer.jobs.sample_table import require_steps
from onetrainer.run.events import Validated
from onetrainer.run.starred import star
from onetrainer.run.steps import available_steps
from tests import runs
from tests.cases import cases
from tests.close import close

pytestmark = pytest.mark.slow

TOKEN = {"token": "<w>", "initial_text": "red"}
SCHEDULE_FREE = {"kind": "schedulefree_adamw", "lr": 0.01}
RUNS = {
    "lora": {"embeddings": {"tokens": [TOKEN]}, "ema": {"use": True}},
    "schedule-free": {"optimizer": SCHEDULE_FREE, "schedule": {"kind": "constant"}},
    "full": {"method": {"kind": "full", "targets": "attn"}},
    "embedding": {"method": {"kind": "embedding"}, "embeddings": {"tokens": [TOKEN]}},
}


@pytest.fixture
def saved_run(tmp_path, monkeypatch):
    """Makes a run of three steps with checkpoints; "Save now" is pressed after the second."""
    run_tasks = Trainer._run_due_tasks

    def ask_and_run(trainer, step):
        if step == 2:
            trainer.inbox.put("save")
        run_tasks(trainer, step)

    def made(changes, steps=3, put=(), starred=0):
        config = runs.write_project(tmp_path / "a project")
        config.write_text(json.dumps(runs.SETTINGS | {"sampling": {}} | changes))
        output = {"save_every": 1, "keep_checkpoints": 9, "name": "one"}
        folder = runs.new_run(config, training={"steps": steps}, output=output)
        monkeypatch.setattr(Trainer, "_run_due_tasks", ask_and_run)
        folder.output.mkdir(exist_ok=True)
        for name in put:
            (folder.output / name).write_bytes(b"mine")
        if starred:
            star(folder, starred, is_starred=True)
        assert train(folder) == 0
        return folder

    return made


def converted(folder, target="", **options):
    """The files that are written of a checkpoint, by name."""
    request = ConvertRequest(source=str(folder.path), target=str(target), **options)
    outputs = convert(request, lambda _: None).outputs
    return {Path(path).name: Path(path).read_bytes() for path in outputs}


def files(folder):
    return {path.name: path.read_bytes() for path in folder.output.iterdir()}


@pytest.mark.parametrize("case", cases(RUNS, []))
def test_the_file_of_a_checkpoint_is_that_which_the_run_would_have_saved(saved_run, case):
    folder = saved_run(RUNS[case])
    shutil.rmtree(folder.path.parent / "cache")
    shutil.rmtree(folder.path.parents[1] / "pictures")
    by_run = files(folder)
    for path in folder.output.iterdir():
        path.unlink()
    second = converted(folder, step=2)
    assert second == {name: data for name, data in by_run.items() if "000002" in name}
    assert files(folder) == second
    tensors = {
        name: load(data) for name, data in converted(folder, folder.path / "x.safetensors").items()
    }
    final = {
        name.replace("one", "x"): load(data) for name, data in by_run.items() if "000" not in name
    }
    assert tensors.keys() == final.keys()
    for name, expected in final.items():
        assert all(torch.equal(tensors[name][key], value) for key, value in expected.items())


def test_images_of_a_step_are_made_of_its_checkpoint_or_of_the_file_that_is_left(saved_run):
    folder = saved_run(RUNS["lora"] | {"ema": {}})

    def lora(step):
        return SampledLora(path=str(folder.path), step=step)

    def image(step):
        request = SampleRequest(
            base=str(folder.path.parents[1] / "base"), prompts=("a red square",), steps=1,
            width=64, height=64, device="cpu", out=str(folder.path / "tried"),
            loras=[lora(step)],
        )  # fmt: skip
        require_steps(request)
        (path,) = sample(request, lambda _: None).outputs
        return Image.open(path).tobytes()

    assert available_steps(folder) == [1, 2, 3]
    of_checkpoints = {step: image(step) for step in (1, 2)}
    assert of_checkpoints[1] != of_checkpoints[2] != image(None)
    target = folder.path / "merged.safetensors"
    merge(MergeRequest(target=str(target), loras=[lora(2)]), lambda _: None)
    first, second = files_of([lora(2), lora(2)], folder.path / "files", lambda _: None)
    assert first != second
    assert first.read_bytes() == second.read_bytes()
    exact, found = load_file(folder.output / "one-000002.safetensors"), load_file(target)
    up = next(name for name in found if name.endswith("lora_up.weight"))
    alpha = float(exact[up.replace("lora_up.weight", "alpha")])
    close(found[up], exact[up] * alpha / exact[up].shape[1])
    for step in (1, 2):
        shutil.rmtree(folder.checkpoint(step))
    (folder.output / "one-20261126-000002.safetensors").touch()  # of a run of another name
    assert available_steps(folder) == [2, 3]  # of 2 there is the file of "Save now"
    assert image(2) == of_checkpoints[2]
    with pytest.raises(UserError, match=r"no weights of step 1\. Expected one of the steps 2, 3"):
        image(1)


EXPORTING = {
    **RUNS["lora"],
    "validation": {"use": True, "split": 0.25, "every": 1, "keep_best": True},
    "output": {**runs.SETTINGS["output"], "export_every": 1, "keep_exports": 1},
    "training": {**runs.SETTINGS["training"], "batch_size": 1},
    "optimizer": {"lr": 0.3},
    "schedule": {"kind": "constant", "warmup_steps": 2},
}


def test_files_in_between_are_written_kept_and_those_of_checkpoints(
    saved_run, tmp_path, monkeypatch
):
    runs.script_validations(monkeypatch, 0.5, 0.6, 0.3, 0.4, 0.4)
    of_a_person = ("one-000001.bak", "one-000001-best.safetensors", "one-000002.txt")
    folder = saved_run(EXPORTING, steps=4, put=of_a_person, starred=1)
    assert all((folder.output / name).read_bytes() == b"mine" for name in of_a_person)
    for name in of_a_person:
        (folder.output / name).unlink()
    best = [one.best_step for one in runs.events_of(folder) if isinstance(one, Validated)]
    assert best[:4] == [0, 0, 2, 2]  # whose file is kept besides the newest
    written = files(folder)
    assert [name for name in sorted(written) if "000" in name] == [
        *("one-000001-w.safetensors", "one-000001.safetensors"),  # starred
        *("one-000002-w.safetensors", "one-000002.safetensors"),
        *("one-000003-w.safetensors", "one-000003.safetensors"),
    ]
    of_step = {name: data for name, data in written.items() if "000003" in name}
    assert converted(folder, step=3) == of_step
    data = converted(folder, tmp_path / "b.safetensors", precision="bf16")["b.safetensors"]
    other = load(files(folder)["one.safetensors"])
    for name, tensor in load(data).items():
        assert torch.equal(tensor, other[name].to(tensor.dtype))
    assert torch.bfloat16 in {tensor.dtype for tensor in load(data).values()}
    (folder.checkpoint(2) / "weights.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"step-000002: this checkpoint is damaged \(weights"):
        converted(folder, step=2)
    with pytest.raises(UserError, match=r"lora.pt: single files are written as .safetensors"):
        converted(folder, tmp_path / "lora.pt")
