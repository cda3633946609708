"""What a job's events look like in the terminal."""

import io

import pytest

from onetrainer.cli import job_progress
from onetrainer.config.base.section import Section
from onetrainer.run.events import Finished, Phase


class Script:
    """A job that has told already what it tells."""

    def __init__(self, _name, _request):
        pass

    def events(self):
        return iter([*EVENTS, Finished(0, ["out/00001-42.png"])])


EVENTS = [
    Phase("loading", detail="loading the model base"),
    Phase("sampling", 1, 4, "step 3 of 20"),
    Phase("saving", detail="m.safetensors"),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    "line", ["loading the model base", "sampling 1/4 (step 3 of 20)", "saving (m.safetensors)"]
)
def test_moving_line_tells_what_is_done(monkeypatch, line):
    monkeypatch.setattr(job_progress, "Job", Script)
    out = Terminal()
    assert job_progress.run_job("sample", Section(), out=out) == 0
    assert line in [part.strip() for part in out.getvalue().split("\r")]
    assert out.getvalue().endswith("out/00001-42.png\n")
