"""What a fork takes over from a run, and what it says of checkpoints that are not there."""

import json
from types import SimpleNamespace

import pytest

from onetrainer.errors import UserError
from onetrainer.run import fork as module
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.fork import copy_history, state_at
from onetrainer.run.run_folder import create_run


@pytest.fixture
def source(tmp_path):
    """A run with checkpoints after steps 20 and 40, and files of step 60."""
    run = create_run(tmp_path, name="run", config={})
    run.events.write_bytes(b"one\ntwo\nthree\n")
    for step, size in ((20, 4), (40, 8)):
        run.checkpoint(step).mkdir()
        (run.checkpoint(step) / "weights.safetensors").write_bytes(b"w" * step)
        state = state_content({"step": step, "events_size": size}, {})
        (run.checkpoint(step) / "state.json").write_bytes(state)
        (run.samples / f"step-{step:06d}-00.png").write_bytes(b"png")
    (run.rewards / "step-000020").mkdir(parents=True)
    for name in ("step-000020/a.jpg", "step-000060.json", "round-000001.safetensors"):
        (run.rewards / name).write_bytes(b"r")
    run.retries.write_text(json.dumps([{"broken": n + 5, "since": n} for n in (20, 40)]))
    return run


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_fork_has_what_the_run_was_at_its_checkpoint_and_shares_its_files(source, tmp_path):
    fork = create_run(tmp_path, name="fork", config={"a": 1})
    copy_history(source, state_at(source, 40), fork)
    assert names(fork.path) == [
        *("checkpoints/step-000020/state.json", "checkpoints/step-000020/weights.safetensors"),
        *("checkpoints/step-000040/state.json", "checkpoints/step-000040/weights.safetensors"),
        *("config.json", "events.jsonl", "retries.json", "rewards/round-000001.safetensors"),
        *("rewards/step-000020/a.jpg", "samples/step-000020-00.png", "samples/step-000040-00.png"),
    ]
    assert fork.events.read_bytes() == b"one\ntwo\n"
    assert json.loads(fork.retries.read_text()) == [{"broken": 25, "since": 20}]
    one, other = (run.checkpoint(20) / "weights.safetensors" for run in (source, fork))
    assert one.samefile(other)


def refuse(*_paths):
    raise OSError(38, "Function not implemented")


def test_files_are_copied_where_they_cannot_be_linked(source, tmp_path, monkeypatch):
    monkeypatch.setattr(module.os, "link", refuse)
    fork = create_run(tmp_path, name="fork", config={})
    copy_history(source, state_at(source, 20), fork)
    assert (fork.checkpoint(20) / "weights.safetensors").read_bytes() == b"w" * 20


def test_checkpoints_that_cannot_be_linked_need_room_before_they_are_copied(
    source, tmp_path, monkeypatch
):
    """As on another disk; those that are linked take no room."""
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: SimpleNamespace(free=20))
    linked = create_run(tmp_path, name="fork", config={})
    copy_history(source, state_at(source, 40), linked)
    assert len(linked.complete_checkpoints()) == 2
    monkeypatch.setattr(module.os, "link", refuse)
    fork = create_run(tmp_path, name="fork", config={})
    with pytest.raises(UserError, match="no space left"):
        copy_history(source, state_at(source, 40), fork)
    assert not fork.path.exists()


def test_nothing_is_left_of_a_fork_that_fails(source, tmp_path):
    fork = create_run(tmp_path, name="fork", config={})
    source.retries.write_text("[")
    with pytest.raises(UserError, match=r"retries.json: cannot be read.*Delete it"):
        copy_history(source, state_at(source, 20), fork)
    assert not fork.path.exists()
    source.events.unlink()
    fork = create_run(tmp_path, name="fork", config={})
    with pytest.raises(UserError, match=r"events.jsonl: no such file"):
        copy_history(source, {"step": 20, "events_size": 4}, fork)
    assert not fork.path.exists()


def test_nothing_is_left_of_a_fork_that_is_interrupted(source, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_require_room", interrupt)
    fork = create_run(tmp_path, name="fork", config={})
    with pytest.raises(KeyboardInterrupt):
        copy_history(source, state_at(source, 20), fork)
    assert not fork.path.exists()


def test_a_size_of_events_in_another_type_is_read_or_its_checkpoint_refused(source, tmp_path):
    state = source.checkpoint(40) / "state.json"
    for number, size in enumerate(("8", 8.0)):
        state.write_bytes(state_content({"step": 40, "events_size": size}, {}))
        fork = create_run(tmp_path, name=f"fork{number}", config={})
        copy_history(source, state_at(source, 40), fork)
        assert fork.events.read_bytes() == b"one\ntwo\n"
    for odd in ({"events_size": 8.5}, {"events_size": None}, {}, {"events_size": 8, "config": [1]}):
        state.write_bytes(state_content({"step": 40, **odd}, {}))
        with pytest.raises(UserError, match=r"step-000040: this checkpoint is damaged"):
            state_at(source, 40)


def test_the_newest_checkpoint_is_meant_and_others_must_be_kept_and_whole(source, tmp_path):
    assert (state_at(source, None)["step"], state_at(source, 20)["step"]) == (40, 20)
    with pytest.raises(UserError, match=r"no checkpoint of step 30. Expected .* steps 20, 40\."):
        state_at(source, 30)
    (source.checkpoint(40) / "state.json").write_text("{")
    with pytest.raises(UserError, match=r"step-000040: this checkpoint is damaged"):
        state_at(source, 40)
    with pytest.raises(UserError, match=r"run-002: this run has no checkpoint\. Train it first"):
        state_at(create_run(tmp_path, name="run", config={}), None)
