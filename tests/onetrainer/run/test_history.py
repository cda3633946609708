import json

from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Evaluated, Finished, Progress, Rewarded, Started, Stopped
from onetrainer.run.history import run_folders, summary
from onetrainer.run.run_folder import create_run


def make_run(parent, name, *events):
    folder = create_run(parent, name=name, config={"a": 1})
    if events:
        writer = EventWriter(folder.events)
        for event in events:
            writer.write(event)
        writer.close()
    return folder


def find_runs(*parents):
    return [summary(folder) for folder in run_folders(*parents)]


def progress(step):
    return Progress(step, 100, 1, 0.25, 1e-4)


def test_runs_are_listed_with_how_they_stand(tmp_path):
    make_run(tmp_path, "a", Started(1, 0, 100), progress(100), Finished(100, []))
    make_run(tmp_path, "b", Started(1, 0, 100), progress(40), Stopped(40, "pause"))
    make_run(tmp_path, "c", Started(1, 0, 100), progress(7))
    make_run(tmp_path, "d")
    make_run(tmp_path, "f", Started(1, 0, 100), Rewarded(9, 0.5, 0.1, 4), progress(9))
    busy = make_run(tmp_path, "e", Started(1, 0, 100), progress(9))
    with busy.locked():
        runs = {run.name: run for run in find_runs(tmp_path)}
    standings = {name: run.standing for name, run in runs.items()}
    assert standings == {
        "a-001": "finished",
        "b-001": "paused",
        "c-001": "broken off",
        "d-001": "not begun",
        "e-001": "running",
        "f-001": "broken off",
    }
    assert (runs["b-001"].step, runs["b-001"].total_steps, runs["b-001"].loss) == (40, 100, 0.25)
    assert (runs["d-001"].loss, runs["c-001"].reward, runs["f-001"].reward) == (None, None, 0.5)


def test_a_run_that_ended_before_its_last_step_is_not_called_finished(tmp_path):
    begun = (Started(1, 0, 100), progress(40))
    make_run(tmp_path, "patience", *begun, Finished(40, []))
    stop = Evaluated(40, 1.0, 0.1, 20, False, "hacking", "", stops=True)
    make_run(tmp_path, "guard", *begun, stop, Finished(40, []))
    make_run(tmp_path, "resumed", *begun, stop, Finished(40, []), progress(99), Finished(100, []))
    standings = {run.name: run.standing for run in find_runs(tmp_path)}
    assert standings == {
        "patience-001": "ended early",
        "guard-001": "stopped by the guard",
        "resumed-001": "finished",
    }


def test_runs_of_several_folders_are_listed_together(tmp_path):
    make_run(tmp_path / "one", "a")
    make_run(tmp_path / "two", "b")
    found = find_runs(tmp_path / "one", tmp_path / "two", tmp_path / "one", tmp_path / "none")
    assert {run.name for run in found} == {"a-001", "b-001"}
    assert len(found) == 2


def test_a_long_run_is_read_from_its_end(tmp_path):
    make_run(tmp_path, "a", Started(1, 0, 100), *(progress(step) for step in range(2000)))
    assert find_runs(tmp_path)[0].step == 1999


def test_folders_that_are_no_runs_and_no_folder_at_all_are_no_runs(tmp_path):
    (tmp_path / "else").mkdir()
    (tmp_path / "file.json").write_text(json.dumps({}))
    assert find_runs(tmp_path) == []
    assert find_runs(tmp_path / "nothing") == []


def test_an_event_with_any_sign_in_it_is_one_line(tmp_path):
    done = Finished(100, ["a\u2028b\x85c.safetensors"])
    make_run(tmp_path, "a", Started(1, 0, 100), progress(100), done)
    assert [run.standing for run in find_runs(tmp_path)] == ["finished"]
