"""`onetrainer plan`: what it reports of the images, with any forecast of memory."""

import json

import pytest

from onetrainer.__main__ import main
from onetrainer.cli import jobs
from onetrainer.messages.memory import data_lines
from onetrainer.run.events import Finished, Forecast
from tests.images import folder

LONG = {"path": "/pictures/cat.png", "tokens": 99}
FOUND = {"caching_seconds": 90.0, "chunk": 75, "long_caption_count": 1, "long_captions": [LONG]}


class Forecasting:
    """A job that has counted already."""

    def __init__(self, _name, request):
        self._has_images = bool(request.config.data.folder)

    def events(self):
        data = FOUND if self._has_images else {}
        yield Forecast({"training": {"unet": 2**30}}, "training", 2**30, 2**31, data=data)
        yield Finished(0, [])


@pytest.fixture(autouse=True)
def counted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(jobs, "Job", Forecasting)


@pytest.fixture
def plan(tmp_path, capsys):
    """Plans a config of five images, with changes to its data; gives code, output and errors."""

    def run(*arguments, **data):
        data = {"folder": str(folder(tmp_path / "cats", [(64, 64)] * 5)), "resolution": 64} | data
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"data": data}))
        code = main(["plan", str(path), *arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments else out, err

    return run


def test_images_come_first_and_memory_after_them_and_json_is_one_document(plan):
    code, out, _ = plan()
    found = [
        "Images: 5 training.",
        "64 × 64",
        "It fits: ",
        "Caching takes about 90 s",
        "1 caption longer than 75 tokens, encoded in chunks without truncation: cat.png (99).",
    ]
    assert code == 0
    assert sorted(found, key=out.index) == found
    _, document, _ = plan("--json")
    assert document["peak_bytes"] == 2**30
    assert document["data"]["images"] == 5
    assert document["data"]["buckets"][0]["width"] == 64
    assert document["data"]["caching_seconds"] == 90.0


def test_headers_read_here_go_along(plan, tmp_path, monkeypatch):
    asked = []

    class Recording(Forecasting):
        def __init__(self, name, request):
            super().__init__(name, request)
            asked.append(request)

    monkeypatch.setattr(jobs, "Job", Recording)
    plan()
    headers = {str(tmp_path / "cats" / f"{n}.png"): (64, 64, False) for n in range(5)}
    assert [request.headers for request in asked] == [headers]


def test_memory_is_reported_without_images_and_with_any_error_in_them(plan, tmp_path):
    code, out, _ = plan(folder="")
    assert (code, out.startswith("Peak memory")) == (0, True)
    assert plan("--json", folder="")[1]["data"] == {}
    nowhere = str(tmp_path / "nowhere")
    code, out, err = plan(folder=nowhere)
    assert (code, nowhere in err, "It fits: " in out) == (0, True, True)
    assert nowhere in plan("--json", folder=nowhere)[1]["data"]["problem"]


def test_contact_sheets_are_written_into_a_new_folder(plan, tmp_path):
    sheets = tmp_path / "sheets"
    for missing in ("", str(tmp_path / "nowhere")):
        code, _, err = plan("--pictures", str(sheets), folder=missing)
        assert (code, bool(err), sheets.exists()) == (2, True, False)
    code, out, _ = plan("--pictures", str(sheets))
    assert (code, str(sheets) in out) == (0, True)
    assert [path.name for path in sheets.iterdir()] == ["64x64.jpg"]
    code, _, err = plan("--pictures", str(sheets))
    assert (code, "is not empty" in err) == (2, True)


def test_of_many_long_captions_the_longest_are_named():
    many = [{"path": f"{n}.png", "tokens": 200 - n} for n in range(20)]
    (reported,) = data_lines({"chunk": 75, "long_caption_count": 1234, "long_captions": many})
    assert reported.startswith("1,234 captions longer than 75 tokens")
    assert reported.endswith("0.png (200), 1.png (199), 2.png (198) ….")
    assert data_lines({}) == []
