"""What the window needs before its first page is on the screen, which is most of its start."""

import json
import os
import subprocess
import sys

from onetrainer import ROOT
from tests.ui.project import write_project

CODE = """
import gc, json, sys
from tests.benchmarks.opened_window import open_painted
app = open_painted(sys.argv[1:])
from onetrainer.config.base.section import Section
def below(section):
    for each in section.__subclasses__():
        yield from (each, *below(each))
print(json.dumps({
    "page": app.page,
    "modules": sorted(sys.modules),
    "built": [each.__name__ for each in below(Section) if each.__pydantic_complete__],
    "frozen": gc.get_freeze_count(),
    "collects": gc.isenabled(),
}))
app.root.destroy()
"""
ROOMS = {
    "onetrainer": {
        *("captions", "checks", "concepts", "config", "dataset", "demo", "errors", "families"),
        *("files", "gpu_driver", "json_file", "messages", "metrics", "model_files", "presets"),
        *("queue", "redaction", "rewards", "rules", "run", "schedules", "seeds", "support"),
        "trust",
    },
    "onetrainer.checks": {"user_code"},
    "onetrainer.dataset": {"buckets"},
    "onetrainer.model_files": {"hub", "kinds"},
    "onetrainer.support": {"findings"},
    "ui.pages": {"preparations", "registry", "settings"},
}
"""What a folder may have imported by then: all of it is read and run before anything is seen."""


def test_only_what_the_first_page_shows_is_made_before_it_is_painted(display, tmp_path):
    config = write_project(tmp_path)
    places = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME")}
    answer = subprocess.run(
        [sys.executable, "-c", CODE, str(config)],
        env={**os.environ, **places, "DISPLAY": display, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(answer.stdout)
    assert found["page"] == "model"
    for folder, allowed in ROOMS.items():
        inside = {
            name.removeprefix(f"{folder}.").partition(".")[0]
            for name in found["modules"]
            if name.startswith(f"{folder}.")
        }
        assert inside <= allowed, folder
    assert found["built"] == ["TrainConfig"]
    assert found["frozen"] > 10_000
    assert not found["collects"]  # the window does, in its own thread
