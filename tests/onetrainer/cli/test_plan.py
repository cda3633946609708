"""`onetrainer plan`: what is told of the pictures, whatever the forecast of memory says."""

import json
from pathlib import Path

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
def config(tmp_path):
    def write(**data):
        data = {"folder": str(folder(tmp_path / "cats", [(64, 64)] * 5)), "resolution": 64} | data
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"data": data}))
        return str(path)

    return write


def test_images_come_first_and_memory_after_them(config, capsys):
    assert main(["plan", config()]) == 0
    out = capsys.readouterr().out
    assert out.index("Images: 5 training.") < out.index("64 × 64") < out.index("It fits: ")
    assert out.index("It fits: ") < out.index("Caching takes about 90 s")
    assert (
        "1 caption longer than 75 tokens, encoded in chunks without truncation: cat.png (99)."
        in out
    )


def test_headers_read_here_go_along(config, monkeypatch):
    asked = []

    class Recording(Forecasting):
        def __init__(self, name, request):
            super().__init__(name, request)
            asked.append(request)

    monkeypatch.setattr(jobs, "Job", Recording)
    assert main(["plan", config()]) == 0
    (request,) = asked
    folder_ = Path(request.config.data.folder)
    assert request.headers == {str(folder_ / f"{n}.png"): (64, 64, False) for n in range(5)}


def test_as_json_both_are_one_document(config, capsys):
    assert main(["plan", config(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["peak_bytes"] == 2**30
    assert told["data"]["pictures"] == 5
    assert told["data"]["buckets"][0]["width"] == 64
    assert told["data"]["caching_seconds"] == 90.0


def test_memory_is_reported_without_images(config, capsys):
    assert main(["plan", config(folder="")]) == 0
    assert "Images" not in (out := capsys.readouterr().out)
    assert out.startswith("Peak memory")
    assert main(["plan", config(folder=""), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == {}


def test_what_is_wrong_with_the_images_is_reported_and_memory_all_the_same(
    config, tmp_path, capsys
):
    nowhere = str(tmp_path / "nowhere")
    assert main(["plan", config(folder=nowhere)]) == 0
    out, err = capsys.readouterr()
    assert nowhere in err
    assert "It fits: " in out
    assert main(["plan", config(folder=nowhere), "--json"]) == 0
    assert nowhere in json.loads(capsys.readouterr().out)["data"]["problem"]


def test_contact_sheets_are_written_into_a_new_folder(config, tmp_path, capsys):
    sheets = tmp_path / "sheets"
    assert main(["plan", config(), "--pictures", str(sheets)]) == 0
    assert [path.name for path in sheets.iterdir()] == ["64x64.jpg"]
    assert str(sheets) in capsys.readouterr().out
    assert main(["plan", config(), "--pictures", str(sheets)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_contact_sheets_of_missing_images_are_refused(config, tmp_path, capsys):
    for folder_ in ("", str(tmp_path / "nowhere")):
        made = config(folder=folder_)
        assert main(["plan", made, "--pictures", str(tmp_path / "sheets")]) == 2
        assert capsys.readouterr().err
    assert not (tmp_path / "sheets").exists()


def test_of_many_long_captions_the_longest_are_named():
    many = [{"path": f"{n}.png", "tokens": 200 - n} for n in range(20)]
    (told,) = data_lines({"chunk": 75, "long_caption_count": 1234, "long_captions": many})
    assert told.startswith("1,234 captions longer than 75 tokens")
    assert told.endswith("0.png (200), 1.png (199), 2.png (198) ….")
    assert data_lines({}) == []
