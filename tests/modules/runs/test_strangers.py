"""Run folders that a stranger has sent: nothing outside of them is read, written or deleted."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from onetrainer.files.inside import stamp_of
from onetrainer.jobs.job import REQUESTS
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.run_folder import STATE_FILE
from tests.faults.stranger_faults import StrangersRuns
from tests.faults.stranger_plants import change_settings

pytestmark = pytest.mark.slow
EXPORTING = {("output", "export_every"): 1, ("output", "keep_exports"): 1}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    return StrangersRuns(tmp_path_factory.mktemp("strangers"))


def asking_for(job):
    def plant(folder, precious):
        source, key = (
            next(folder.output.rglob("*.safetensors")),
            str(precious / "model.safetensors"),
        )
        request = {"source": str(source), "target": key, "overwrite": True}
        folder.config.write_text(json.dumps({"job": job, "request": request}))

    return plant


def link(place, target):
    def plant(folder, precious):
        path = folder.path / place
        if path.is_dir():
            path.rename(path.with_name("other"))
        path.unlink(missing_ok=True)
        path.symlink_to(precious / target)

    return plant


def other_name(place):
    def plant(folder, precious):
        (folder.path / place).unlink(missing_ok=True)
        os.link(precious / "notes.txt", folder.path / place)

    return plant


def pipe(place):
    def plant(folder, _):
        (folder.path / place).unlink(missing_ok=True)
        os.mkfifo(folder.path / place)

    return plant


def exporting(name, output=""):
    """Record a precious file as one that the run has written, with what it truly is."""

    def plant(folder, precious):
        change_settings(folder, EXPORTING)
        target = precious / "photos" / name if output else folder.output / name
        recorded = {"1": {name: stamp_of(target)}}
        assert target.exists()
        folder.exports.write_text(json.dumps(recorded))
        if output:
            link("output", output)(folder, precious)

    return plant


def digest_of(name):
    def plant(folder, _):
        path = folder.complete_checkpoints()[-1][1] / STATE_FILE
        state = json.loads(path.read_bytes())
        plain = {key: value for key, value in state.items() if key not in ("files", "sha256")}
        path.write_bytes(state_content(plain, {name: "0" * 64}))

    return plant


def shard(name):
    def plant(folder, _):
        index = folder.path.parent / "cache" / "index.sqlite"
        with closing(sqlite3.connect(index)) as connection, connection:
            values = (10**6, "latents", name, "", 1, 1, 1, 1, 1)
            connection.execute("INSERT INTO shards VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    return plant


ATTACKS = {
    **{f"a request of the job {name}": (asking_for(name), "resume") for name in REQUESTS},
    "a request in the queue": (asking_for("convert"), "queue add, queue serve, worker"),
    "commands are a link": (link("commands.jsonl", "notes.txt"), "resume, stop"),
    "the lock is a link": (link("lock", "notes.txt"), "resume, worker"),
    "the log is a link": (link("worker.log", "notes.txt"), "resume, fork, show"),
    "the events are a link": (link("events.jsonl", "notes.txt"), "show, resume"),
    "a sample is a link": (link("samples/key.png", "key"), "fork, report"),
    "a sample has no end": (link("samples/zero.png", "/dev/zero"), "fork"),
    "samples are a link": (link("samples", "."), "fork"),
    "a checkpoint is a link": (link("checkpoints/step-000099.part", "photos"), "resume"),
    "measurements are a link": (link("validation", "."), "resume"),
    "a cache is a link": (link("../cache/latents", "photos"), "resume, cache --prune"),
    "exports above": (exporting("../../../../precious/photos"), "resume"),
    "exports in a linked folder": (exporting("one.png", "photos"), "resume"),
    "a digest of a device": (digest_of("/dev/zero"), "resume"),
    "a shard above": (shard("../../../../precious/key"), "cache --prune, resume"),
    **{
        f"{place} has another name": (other_name(place), "resume")
        for place in ("commands.jsonl", "lock", "worker.log", "events.jsonl")
    },
    **{
        f"{place} is a pipe": (pipe(place), "show, resume")
        for place in ("config.json", "commands.jsonl", "lock", "worker.log", "events.jsonl")
    },
}


def test_no_attack_leaves_the_folder_of_the_run(strangers):
    problems = {name: strangers.attempt(*attack) for name, attack in ATTACKS.items()}
    assert {name: found for name, found in problems.items() if found} == {}
