"""A report holds what explains a failure and nothing private, and can be made of any run folder."""

import json
import os
import shutil
import zipfile
from contextlib import closing

import pytest

from onetrainer.__main__ import main
from onetrainer.errors import UserError
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import BrokenStep, Failed, Phase, Progress, Sample, Warned
from onetrainer.run.run_folder import RunFolder
from onetrainer.support.findings import Finding
from onetrainer.support.report import write_report

FOUND = (Finding("system", "Linux anns-laptop"),)
PROMPT, TRIGGER, TOKEN = 'a "secret" portrait of Ann', "annsmith", "hf_AbCdEfGhIjKlMnOp"
PRIVATE = (
    "secret",
    "Ann",
    TRIGGER,
    TOKEN,
    "holiday",
    "beach",
    "ann.smith",
    "anns-laptop",
    "line two",
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that has failed, of a person who has written private things everywhere."""
    home = tmp_path / "ann.smith"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("platform.node", lambda: "anns-laptop")
    folder = RunFolder(home / "runs" / "lora-001")
    for path in (folder.samples, folder.checkpoint(3)):
        path.mkdir(parents=True)
    folder.config.write_text(
        json.dumps(
            {
                "model": {"path": f"https://ann:{TOKEN}@hub/model", "family": "sd15"},
                "data": {
                    "folder": f"{home}/images",
                    "trigger": TRIGGER,
                    "class_text": "line\nline two",
                },
                "optimizer": {"kind": "adamw", "lr": 0.125},
                "sampling": {"prompts": [{"prompt": PROMPT, "seed": 7}], "every": 50},
                "output": {"name": "lora"},
                "unknown": "Ann",
            }
        )
    )
    events = EventWriter(folder.events)
    events.write(Sample(3, 0, "samples/step-000003-00.png", PROMPT, 7))
    events.write(
        Warned(f"{home}/images/holiday on the beach.png: left out, the same as “beach.jpg”")
    )
    events.write(Progress(3, 10, 0, 0.25, 0.125))
    events.write(Failed("program", f"the program failed: KeyError: '{TRIGGER}'"))
    events.close()
    folder.log.write_text(
        f"loading {home}/x.safetensors with {TOKEN}\nprompt: {PROMPT}\nfrom line two\n"
    )
    (folder.samples / "step-000003-00.png").write_bytes(b"an image")
    (folder.checkpoint(3) / "state.json").write_text('{"step": 3, "versions": {"torch": "2.13.0"}}')
    (folder.checkpoint(3) / "weights.safetensors").write_bytes(b"weights")
    return folder


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_report_explains_the_failure_without_anything_private(run):
    report = write_report(run.path, FOUND)
    files = contents(report.path)
    assert set(files) == {"config.json", "events.jsonl", "state.json", "files.txt", "doctor.txt",
                          "worker.log", "about.txt"}  # fmt: skip
    for name, text in files.items():
        assert not [word for word in PRIVATE if word in text], (name, text)
    config = json.loads(files["config.json"])
    assert (config["optimizer"]["lr"], config["sampling"]["prompts"][0]["seed"]) == (0.125, 7)
    assert config["model"]["path"] == "https://<token>@hub/model"
    assert config["data"]["folder"] == "~/images"
    sample, warned, progress, failed = map(json.loads, files["events.jsonl"].splitlines())
    assert sample["path"] == "samples/step-000003-00.png"
    # The same text has the same number everywhere.
    assert sample["prompt"] == config["sampling"]["prompts"][0]["prompt"]
    assert warned["text"] == "~/images/<image 1>.png: left out, the same as “<image 2>.jpg”"
    assert failed["what"] == f"the program failed: KeyError: '{config['data']['trigger']}'"
    assert (progress["step"], progress["loss"]) == (3, 0.25)
    assert '"torch": "2.13.0"' in files["state.json"]
    assert "checkpoints/step-000003/weights.safetensors: 7 bytes" in files["files.txt"]
    assert "no images" not in files["about.txt"]
    assert "Not in it: images" in files["about.txt"]
    assert [line.partition(":")[0] for line in report.contents] == [*files][:-1]


def test_the_files_of_the_run_are_listed_by_their_names_and_the_report_is_not(run):
    for name in ("step-000003-00.thumb.jpg", "step-000003-00.jpg", "holiday.thumb.jpg"):
        (run.samples / name).write_bytes(b"an image")
    listed = contents(write_report(run.path, FOUND).path)["files.txt"].splitlines()
    assert {line.partition(":")[0] for line in listed} == {
        "checkpoints/step-000003/state.json",
        "checkpoints/step-000003/weights.safetensors",
        "config.json",
        "events.jsonl",
        "samples/<image 3>.jpg",  # two are in the events
        "samples/step-000003-00.jpg",
        "samples/step-000003-00.png",
        "samples/step-000003-00.thumb.jpg",
        "worker.log",
    }


def test_a_broken_step_is_reported_without_its_images_and_prompts(run):
    names = {"images": [f"{run.path}/holiday.png"], "prompts": ["Ann on the beach", "a sea"]}
    message = 'step 4: the loss of "Ann on the beach" is nan'
    step = BrokenStep(
        4, timesteps=[7], losses=[None], gradient_norm=2.0, cause="loss", message=message, **names
    )
    with closing(EventWriter(run.events)) as events:
        events.write(step)
    run.log.write_text(f"WARNING {step}\n")
    files = contents(write_report(run.path, FOUND).path)
    for name in ("events.jsonl", "worker.log"):
        assert not [word for word in (*PRIVATE, "a sea") if word in files[name]]
    found = json.loads(files["events.jsonl"].splitlines()[-1])
    assert (found["timesteps"], found["gradient_norm"]) == ([7], 2.0)
    assert found["prompts"][0].startswith("<text ")


def test_prompts_and_samples_are_added_on_request_and_tokens_never(run):
    (run.samples / "step-000001-\udcff.png").write_bytes(b"of another encoding")
    files = contents(write_report(run.path, FOUND, with_samples=True).path)
    assert files["samples/step-000003-00.png"] == "an image"
    assert json.loads(files["config.json"])["sampling"]["prompts"][0]["prompt"] == PROMPT
    assert "holiday on the beach.png" in files["events.jsonl"]
    assert "It holds prompts, and samples" in files["about.txt"]
    assert not [word for word in (TOKEN, "ann.smith/", "laptop") if word in "".join(files.values())]


def test_a_report_never_replaces_a_file(run, tmp_path):
    first, second = (write_report(run.path, ()).path for _ in range(2))
    assert [path.name for path in (first, second)] == ["report-001.zip", "report-002.zip"]
    mine = tmp_path / "mine.zip"
    mine.write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        write_report(run.path, (), out=mine)
    assert mine.read_text() == "mine"
    with pytest.raises(UserError, match="cannot be written here"):
        write_report(run.path, (), out=mine / "report.zip")
    monkey = tmp_path / "other.zip"
    with pytest.raises(ZeroDivisionError):
        write_report(run.path, (Finding("a", "b") for _ in [1 / 0]), out=monkey)
    assert not monkey.exists()


def test_a_damaged_run_has_a_report_too(run):
    run.config.write_text('{"sampling": {"prompts": [{"prompt": "Ann"')
    run.events.write_bytes(b'\xff\xfe{"type"\n' + b'{"a": {"prompt": "Ann"}}\n[[[[')
    run.log.unlink()
    run.log.mkdir()
    (run.checkpoint(3) / "state.json").unlink()
    files = contents(write_report(run.path, FOUND).path)
    assert files["config.json"] == '{"sampling": {"prompts": [{"prompt": "<text>"'
    lines = files["events.jsonl"].splitlines()
    assert len(lines) == 3
    assert "Ann" not in lines[1]
    assert "it is a folder" in files["worker.log"].lower()
    assert files["state.json"] == "there is no complete checkpoint"
    run.config.unlink()
    assert "could not be read" in contents(write_report(run.path, ()).path)["config.json"]
    with pytest.raises(UserError, match="not the folder of a run"):
        write_report(run.samples, ())


def test_a_long_run_has_a_short_report(run):
    events = EventWriter(run.events)
    line = {"type": "Progress", "step": 0, "loss": 0.5}
    with run.events.open("a") as handle:
        handle.writelines(json.dumps(line | {"step": step}) + "\n" for step in range(50_000))
    events.write(Phase("saving"))
    events.close()
    run.log.write_text("chatter\n" * 200_000)
    report = write_report(run.path, FOUND)
    files = contents(report.path)
    assert report.path.stat().st_size < 100_000
    lines = list(map(json.loads, files["events.jsonl"].splitlines()))
    assert len(lines) < 2_100
    assert [lines[0]["type"], lines[-1]["type"]] == ["Sample", "Phase"]
    assert lines[-2]["step"] == 49_999
    assert len(files["worker.log"]) <= 512 * 1024


def test_the_command_says_what_is_in_the_report(run, capsys, monkeypatch):
    monkeypatch.setattr("onetrainer.cli.support.examine", lambda: iter(FOUND))
    assert main(["report", str(run.path)]) == 0
    out = capsys.readouterr().out
    assert f"{run.path / 'report-001.zip'}" in out
    assert "config.json: the settings" in out
    assert "no images, prompts, captions or weights" in out
    assert main(["report", str(run.path), "--with-samples"]) == 0
    assert "prompts and samples" in capsys.readouterr().out.splitlines()[-1]
    assert main(["report", str(run.path / "nothing")]) == 2
    assert "not the folder of a run" in capsys.readouterr().err


def test_names_of_folders_are_in_no_part_of_a_report(run, tmp_path):
    config = json.loads(run.config.read_text())
    config["data"]["folder"] = "/mnt/Maria Lopez/wedding"
    config["data"]["concepts"] = [{"folder": r"D:\Fotos von Jan\kids"}]
    config["model"]["path"] = r"\\nas-of-eve\models\base.safetensors"
    run.config.write_text(json.dumps(config))
    with run.log.open("a") as log:
        for line in (
            'File "/opt/of-olga/OneTrainer/modules/worker.py", line 7, in main',
            'File "/x/of-olga/lib/python3.11/site-packages/torch/nn.py", line 8',
            "file:///mnt/Maria%20Lopez/a.txt and file://D:/of-olga/b and ~/of-olga is missing",
            r"C:\Program Files\of-olga\a.dll; //nas-of-eve/share; ('/srv/of-olga',)",
            "Maria Lopez/wedding/sub: 3 images; https://huggingface.co/a/b?x=1; 3/4 it/s",
        ):
            log.write(f"{line}\n")
    (run.path / "of-olga").mkdir()
    (run.path / "of-olga" / "a.bin").write_bytes(b"")
    text = "\n".join(contents(write_report(run.path, FOUND).path).values())
    for name in ("Maria", "Lopez", "wedding", "Jan", "kids", "nas-of-eve", "of-olga"):
        assert name not in text, name
    for kept in ("modules/worker.py", "torch/nn.py", "base.safetensors", "co/a/b?x=1", "3/4 it/s"):
        assert kept in text, kept


def test_a_link_in_a_run_leads_into_no_report(run, tmp_path):
    (tmp_path / "key").write_text("very private")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "state.json").write_text("very private")
    (tmp_path / "folder" / "a.png").write_text("very private")
    for path in (run.log, run.events, run.config, run.path / "worker-1.log"):
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / "key")
    os.mkfifo(run.path / "worker-2.log")
    for path in (run.samples, run.checkpoint(9)):
        shutil.rmtree(path, ignore_errors=True)
        path.symlink_to(tmp_path / "folder")
    texts = contents(write_report(run.path, FOUND, with_samples=True).path)
    assert "very private" not in "\n".join(texts.values())
    assert "links" in texts["worker.log"] or "a link" in texts["worker.log"]
    assert "a pipe" in texts["worker-2.log"]


def test_folders_in_folders_without_end_are_no_end_of_a_report(run):
    run.output.mkdir()
    deepest = run.output
    for _ in range(1500):
        deepest /= "d"
        deepest.mkdir()
    try:
        assert "config.json" in contents(write_report(run.path, FOUND).path)["files.txt"]
    finally:  # what removes the folder of a test calls itself, too
        while deepest != run.output:
            deepest.rmdir()
            deepest = deepest.parent
