"""A run under which what it has encoded is damaged encodes that again by itself, and goes on."""

import errno

import pytest

from modules.assembly import trainer
from modules.jobs import train as job
from modules.jobs.train import train
from modules.training.reporter import Reporter
from onetrainer.cache.database import Database, cannot_write
from onetrainer.errors import UserError
from onetrainer.run.events import Checkpoint, Finished, Progress, Sample, Warned
from tests import runs

pytestmark = pytest.mark.slow

# Within the steps, so that what the second reads is not read before the first has been made.
DATA = {"loader_threads": 0}


@pytest.fixture(scope="module")
def straight(config):
    folder = new_run(config)
    assert train(folder) == 0
    return folder


def new_run(config):
    return runs.new_run(config, data=DATA)


def damage(folder, kind):
    """Changes each entry's last byte in place, as a disk does."""
    for path in (folder.path.parent / "cache" / kind).glob("*.safetensors"):
        whole = bytearray(path.read_bytes())
        length = int.from_bytes(whole[:8], "little") + 8
        for place in range(length, len(whole)):
            whole[place] ^= 1
        with path.open("r+b") as file:
            file.write(whole)


def after(step, happen, monkeypatch):
    """Lets something happen once, when a step has been made; 0 as soon as all is encoded."""
    left = [happen]

    def progress(self, **arguments):
        note(self, **arguments)
        if arguments["step"] == step and left:
            left.pop()()

    def assemble(*arguments):
        if not step and left:
            left.pop()()
        return make(*arguments)

    note, make = Reporter.progress, job.assemble
    monkeypatch.setattr(Reporter, "progress", progress)
    monkeypatch.setattr(job, "assemble", assemble)


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def lora(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


def essence(folder, *kinds):
    return [
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in reported(folder, kinds)
    ]


@pytest.fixture(autouse=True)
def read_step_by_step(monkeypatch):
    """Nothing is read before its step: what is in memory already cannot be lost."""
    monkeypatch.setattr(trainer, "AT_ONCE", 1)


@pytest.mark.parametrize(("step", "kinds"), [(0, ["text", "latents"]), (1, ["latents"])])
def test_the_run_goes_on_to_the_same_bytes(config, straight, step, kinds, monkeypatch):
    folder, starts, begin = new_run(config), [], job._start
    monkeypatch.setattr(job, "_start", lambda *given: starts.append(1) or begin(*given))
    after(step, lambda: [damage(folder, kind) for kind in kinds], monkeypatch)
    assert train(folder) == 0
    assert len(starts) == 2  # all that is damaged is encoded again at once
    assert lora(folder) == lora(straight)
    assert essence(folder, Progress, Sample) == essence(straight, Progress, Sample)
    assert "was removed or damaged; it was encoded again" in reported(folder, Warned)[0].text
    assert reported(folder, Checkpoint)[0].step == (step or 3)
    assert len(reported(folder, Finished)) == 1


def test_what_was_trained_is_kept_where_nothing_can_be_made_again(config, monkeypatch):
    folder = new_run(config)

    def refuse(*_, **__):
        raise cannot_write(folder.path, OSError(errno.EROFS, "read-only"))

    def happen():
        damage(folder, "latents")
        monkeypatch.setattr(Database, "transact", refuse)

    after(1, happen, monkeypatch)
    with pytest.raises(UserError, match="cannot be written"):
        train(folder)
    assert [step for step, _ in folder.complete_checkpoints()] == [1]


def test_what_is_lost_again_at_once_ends_the_run_with_a_message(config, monkeypatch):
    folder, made = new_run(config), job.assemble

    def assemble(*arguments):
        damage(folder, "latents")
        return made(*arguments)

    monkeypatch.setattr(job, "assemble", assemble)
    with pytest.raises(UserError, match="removed or damaged"):
        train(folder)
    assert reported(folder, Progress) == []
