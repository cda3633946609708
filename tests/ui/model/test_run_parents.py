"""Where runs of this computer are looked for."""

from onetrainer.captioning.results import JobFolder
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.queue.queue import Queue
from onetrainer.run.run_folder import create_run
from ui.model.run_parents import run_parents


def test_runs_of_the_queue_are_found_and_jobs_are_no_runs(home, tmp_path):
    run = create_run(tmp_path / "elsewhere", name="run", config={})
    job = JobFolder(CaptionRequest(images=str(tmp_path), model="model")).write_request()
    Queue().add([run, job])
    assert run_parents(tmp_path / "runs") == [tmp_path / "runs", tmp_path / "elsewhere"]
