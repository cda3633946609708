"""`onetrainer train` and `resume` as a person meets them: real processes, output, exit codes."""

import io
import os
import signal
import subprocess
import sys

import pytest

from onetrainer.cli.run_progress import follow
from onetrainer.run import client
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Finished, Progress, Started, Warned
from onetrainer.run.run_folder import RunFolder, create_run
from tests import runs

LONG = ["--set", "training.steps=100000", "--set", "sampling.every=0"]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("in the terminal"))


def command(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "onetrainer", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )


@pytest.mark.slow
def test_train_ctrl_c_resume_and_resume_again(config, tmp_path):
    folder = RunFolder(tmp_path / "run")
    train = command("train", config, "--run-folder", folder.path, "--set", "training.steps=400")
    runs.wait_until(
        lambda: (
            folder.events.exists() and any(isinstance(e, Progress) for e in runs.events_of(folder))
        )
    )
    train.send_signal(signal.SIGINT)
    output, _ = train.communicate(timeout=runs.DEADLINE)
    assert train.returncode == 3, output
    assert "To go on: onetrainer resume" in output
    made = max(e.step for e in runs.events_of(folder) if isinstance(e, Progress))

    changed = folder.config.read_text().replace('"steps": 400', f'"steps": {made + 2}')
    folder.config.write_text(changed)
    for expected in (f"continues after step {made}", f"all of its {made + 2} steps already"):
        resume = command("resume", folder.path)
        output, _ = resume.communicate(timeout=runs.DEADLINE)
        assert resume.returncode == 0, output
        assert expected in output
        assert "Stopped" not in output
        assert output.count("Done:") == 1
        assert output.splitlines()[-1].startswith("File: ")


@pytest.mark.slow
def test_being_asked_to_end_at_once_stops_the_run_too(config, tmp_path):
    folder = RunFolder(tmp_path / "run")
    train = command("train", config, "--run-folder", folder.path, *LONG)
    runs.wait_until(folder.commands.exists)  # written the moment before the worker starts
    train.send_signal(signal.SIGTERM)
    output, _ = train.communicate(timeout=runs.DEADLINE)
    assert train.returncode == 3, output
    assert "Stopped after step" in output


def scripted(folder, *events):
    writer = EventWriter(folder.events)
    for event in events:
        writer.write(event)
    writer.close()


def test_a_long_run_is_read_to_its_end_before_it_counts_as_dead(tmp_path, monkeypatch):
    folder = create_run(tmp_path, name="run", config={})
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from onetrainer.run.events import *\n"
        "from tests.onetrainer.cli.test_run_progress import scripted\n"
        "from onetrainer.run.run_folder import RunFolder\n"
        "scripted(RunFolder(Path(sys.argv[1])), Started(os.getpid(), 0, 1), "
        "*[Warned('x' * 500)] * 1500, Finished(1, []))\n"
    )
    (tmp_path / "quick.py").write_text(code)
    monkeypatch.setattr(client, "WORKER", "quick")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = client.start(folder)
    run.wait(runs.DEADLINE)
    out = io.StringIO()
    assert follow(run, out=out) == 0
    assert out.getvalue().startswith('"run-001" starts: 1 steps in all\n')
    assert "Done: 1 steps." in out.getvalue()


def test_each_validation_is_told_in_a_line(tmp_path, monkeypatch):
    folder = create_run(tmp_path, name="run", config={})
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom onetrainer.run.events import *\n"
        "from tests.onetrainer.cli.test_run_progress import scripted\n"
        "from onetrainer.run.run_folder import RunFolder\n"
        "known = dict(images=8, best_step=2, is_best=True, verdict='improving')\n"
        "scripted(RunFolder(Path(sys.argv[1])), Started(os.getpid(), 0, 2), "
        "Validated(2, 0.1391, 0.002, words='Held-out loss 0.139: still improving.', **known), "
        "Validated(2, 0.1423, 0.002, words='Not told', weights='last', **known), "
        "Finished(2, []))\n"
    )
    (tmp_path / "validating.py").write_text(code)
    monkeypatch.setattr(client, "WORKER", "validating")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = io.StringIO()
    assert follow(client.start(folder), out=out) == 0
    assert out.getvalue().splitlines()[1:3] == [
        "after step 2: Held-out loss 0.139: still improving.",
        "after step 2, without the average: held-out loss 0.142",
    ]


def test_rewards_are_told_in_place_of_the_loss_and_each_look_in_a_line(tmp_path, monkeypatch):
    folder = create_run(tmp_path, name="run", config={})
    (folder.rewards / "step-000002").mkdir(parents=True)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom onetrainer.run.events import *\n"
        "from tests.onetrainer.cli.test_run_progress import scripted\n"
        "from onetrainer.run.run_folder import RunFolder\n"
        "look = dict(reward=1.0, error=0.1, best_step=1, is_best=True)\n"
        "scripted(RunFolder(Path(sys.argv[1])), Started(os.getpid(), 0, 2), "
        "Evaluated(0, verdict='flat', words='It rose', **look), "
        "Rewarded(2, 0.5312, 0.25, 4), Progress(2, 2, 0, -0.5312, 1e-3), "
        "Evaluated(2, verdict='hacking', words='It fell.', **look), Finished(2, []))\n"
    )
    (tmp_path / "rewarding.py").write_text(code)
    monkeypatch.setattr(client, "WORKER", "rewarding")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = io.StringIO()
    assert follow(client.start(folder), out=out) == 0
    first, step, second, _, images = out.getvalue().splitlines()[1:]
    assert first == "after step 0: It rose."
    assert "100%  reward 0.531 ± 0.250  " in step
    assert "loss" not in step
    assert second == "warning: after step 2: It fell."
    assert images == f"Pictures of held-out prompts: {folder.rewards}"


def test_the_words_of_an_earlier_worker_are_not_those_of_this_one(tmp_path, monkeypatch):
    folder = create_run(tmp_path, name="run", config={})
    scripted(folder, Started(1, 0, 5), Warned("old"), Finished(5, []))
    (tmp_path / "dying.py").write_text("print('no such model', flush=True)\nraise SystemExit(2)\n")
    monkeypatch.setattr(client, "WORKER", "dying")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = io.StringIO()
    assert follow(client.start(folder), out=out) == 2
    assert out.getvalue() == "no such model\n"
