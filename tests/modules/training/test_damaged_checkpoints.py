"""Damaged checkpoints: found, left out, and never the reason that a sound one is deleted."""

import json
import shutil

import pytest

from modules.training import checkpoints as checkpoints_module
from modules.training.checkpoint_record import CheckpointRecord, find_restore_point
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.errors import UserError
from onetrainer.run.checkpoint_files import DamagedCheckpoint, verify
from onetrainer.run.leftovers import clean
from onetrainer.run.run_folder import STATE_FILE, create_run
from tests.corrupted import corruptions, require_type
from tests.stepping import Training, equal


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, name="run", config={})


@pytest.fixture
def made():
    return Training(AdamW(), ema=True).run(0, 2)


def flip(path, place, bit=0):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def names(folder):
    return sorted(path.name for path in folder.checkpoints.iterdir())


def test_a_flipped_bit_in_any_file_is_found_and_the_older_checkpoint_used(made, folder):
    made.save(folder, 1)
    newest = made.save(folder, 2)
    files = sorted(path.name for path in newest.iterdir())
    assert len(files) == 5
    for number, name in enumerate(files):
        copy = shutil.copytree(newest, folder.path / "copy")
        flip(newest / name, -7)
        found = find_restore_point(folder)
        assert found.record.step == 1, name
        (warning,) = found.warnings
        aside = "step-000002.damaged" + (f"-{number + 1}" if number else "")
        for part in ("step-000002", name, "from step 1", aside):
            assert part in warning
        assert (folder.checkpoints / aside / name).is_file()
        copy.rename(newest)
    assert find_restore_point(folder).record.step == 2
    clean(folder)
    assert len(names(folder)) == 2 + len(files)


def test_a_bit_of_the_state_file_counts_wherever_it_is(made, folder):
    path = made.save(folder, 1) / STATE_FILE
    whole = path.read_bytes()
    verify(path.parent, 1)
    for place in range(0, len(whole), 13):  # every byte would take seconds
        flip(path, place, place % 8)
        with pytest.raises(DamagedCheckpoint):
            verify(path.parent, 1)
        path.write_bytes(whole)


def test_a_missing_file_and_the_state_of_another_step_are_damage(made, folder):
    made.save(folder, 1)
    made.checkpoints(folder)
    (made.save(folder, 2) / "ema.safetensors").unlink()
    shutil.copytree(folder.checkpoint(1), folder.checkpoint(9))
    found = find_restore_point(folder)
    assert found.record.step == 1
    assert "state.json is that of step 1" in found.warnings[0]
    assert "ema.safetensors cannot be read" in found.warnings[1]


def test_where_all_are_damaged_nothing_is_renamed_and_no_run_begins_again(made, folder):
    for step in (1, 2):
        flip(made.save(folder, step) / "weights.safetensors", -1)
    for _ in range(2):
        with pytest.raises(UserError, match=r"step-000002: weights.*step-000001: weights") as error:
            find_restore_point(folder)
        assert "step 0" in error.value.remedy
        assert names(folder) == ["step-000001", "step-000002"]
    made.save(folder, 1)
    find_restore_point(folder)
    shutil.rmtree(folder.checkpoint(1))
    with pytest.raises(UserError, match=r"step-000002\.damaged"):
        find_restore_point(folder)


def test_the_only_checkpoint_without_its_state_file_is_not_taken_for_litter(made, folder):
    (made.save(folder, 1) / STATE_FILE).unlink()
    (folder.checkpoints / "step-000002.part").mkdir()
    clean(folder)
    assert names(folder) == ["step-000001"]
    with pytest.raises(UserError, match=r"step-000001: state\.json is missing"):
        find_restore_point(folder)
    made.save(folder, 2)
    clean(folder)
    assert find_restore_point(folder).record.step == 2
    assert names(folder) == ["step-000002"]


def test_a_file_with_the_name_of_a_checkpoint_is_none(made, folder):
    folder.checkpoint(99).write_text("x")
    (folder.checkpoints / "step-000098.damaged").write_text("x")
    assert find_restore_point(folder).record is None
    made.save(folder, 1)
    found = find_restore_point(folder)
    assert (found.record.step, found.warnings) == (1, ())
    assert folder.checkpoint(99).read_text() == "x"


def test_a_newest_one_whose_state_is_broken_in_any_way_is_left_out_and_named(made, folder):
    state = made.save(folder, 1).with_name("step-000002") / STATE_FILE
    made.save(folder, 2)
    document = json.loads(state.read_bytes())
    # As older versions wrote it, without digests.
    small = {key: document[key] for key in ("step", "config_digest", "events_size", "engine")}
    for case, content in (("gone", None), *corruptions(json.dumps(small).encode())):
        sound = shutil.copytree(state.parent, folder.path / "copy")
        state.write_bytes(content or b"")
        if content is None:
            state.unlink()
        clean(folder)
        found = find_restore_point(folder)
        require_type(found.record, CheckpointRecord, case)
        assert found.record.step == 1 + (not found.warnings), case
        assert all("step-000002" in text and "step 1" in text for text in found.warnings), case
        shutil.rmtree(folder.checkpoints)
        folder.checkpoints.mkdir()
        made.save(folder, 1)
        sound.rename(state.parent)


def test_damaged_ones_neither_count_as_kept_nor_are_deleted(made, folder):
    made.save(folder, 1)
    flip(made.save(folder, 2) / "optimizer.json", 0)
    find_restore_point(folder)
    for step in (2, 3, 4):
        made.save(folder, step)
    assert names(folder) == ["step-000002.damaged", "step-000003", "step-000004"]


def test_where_the_stars_are_damaged_nothing_that_may_have_one_is_deleted(made, folder):
    folder.starred.write_text('{"steps": [1, ')
    for step in (1, 2, 3, 4):
        made.save(folder, step)
    assert len(names(folder)) == 4
    folder.starred.write_text('{"steps": [1]}')
    made.save(folder, 5)
    assert "step-000001" in names(folder) and len(names(folder)) < 5


def test_what_a_disk_reads_back_is_checked_before_an_older_one_is_deleted(
    made, folder, monkeypatch
):
    def write(path, pieces):
        digest = original(path, pieces)
        flip(path, -1)
        return digest

    original = checkpoints_module._write
    made.save(folder, 1)
    made.save(folder, 2)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "_write", write)
        with pytest.raises(UserError, match="something else than was written"):
            made.save(folder, 3)
    assert names(folder) == ["step-000001", "step-000002", "step-000003.damaged"]
    made.save(folder, 3)
    assert names(folder) == ["step-000002", "step-000003", "step-000003.damaged"]


def test_a_checkpoint_of_an_earlier_version_has_no_digests_and_is_restored(made, folder):
    state = made.save(folder, 2) / STATE_FILE
    document = json.loads(state.read_text())
    del document["files"], document["sha256"]
    state.write_text(json.dumps(document))
    found = find_restore_point(folder)
    other = Training(AdamW(), ema=True)
    other.checkpoints(folder).restore(found.record)
    assert not found.warnings
    assert equal(other.snapshot(), made.snapshot())
