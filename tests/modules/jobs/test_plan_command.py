"""`onetrainer plan` with the real job, in this process."""

import json

import pytest

from modules.forecast import operator_costs
from onetrainer.__main__ import main
from tests.images import folder
from tests.least_model import write_least_configs

PEAK, FREE = "peak_bytes", "available_bytes"


pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(operator_costs, "SECONDS_PER_RATE", 0.0)  # how fast is of no interest


@pytest.fixture
def config(tmp_path):
    """Neither weights nor pictures are there."""
    write_least_configs(tmp_path / "base")
    path = tmp_path / "config.json"
    model = {"family": "sd15", "path": "base"}
    document = {"model": model, "data": {"resolution": 64}, "hardware": {"device": "cpu"}}
    path.write_text(json.dumps(document))
    return str(path)


def test_a_table_and_a_verdict_are_printed(config, capfd):
    assert main(["plan", config]) == 0
    out = capfd.readouterr().out
    assert "UNet" in out and "total" in out
    assert any(line.startswith("It fits: ") for line in out.splitlines())


def test_what_does_not_fit_is_an_answer_with_fixes_as_json(config, capfd):
    code = main(["plan", config, "--json", "--memory", "0.001", "--set", "data.resolution=128"])
    told = json.loads(capfd.readouterr().out)
    assert code == 0
    assert told[PEAK] > told[FREE] == round(0.001 * 2**30)
    assert told["fixes"][0]["changes"]


def test_settings_that_do_not_go_together_are_refused_before_anything_is_counted(config, capfd):
    assert main(["plan", config, "--set", "model.zero_terminal_snr=on",
                 "--set", "model.prediction=epsilon"]) == 2  # fmt: skip
    assert "model.zero_terminal_snr" in capfd.readouterr().err
    assert main(["plan", config, "--memory", "-1"]) == 2
    assert "--memory" in capfd.readouterr().err


def test_images_are_described_with_what_the_model_knows_of_them(config, tmp_path, capfd):
    cats = folder(tmp_path / "cats", [(64, 64)] * 3)
    (cats / "1.txt").write_text("cat " * 90)
    assert main(["plan", config, "--json", "--set", f"data.folder={cats}"]) == 0
    data = json.loads(capfd.readouterr().out)["data"]
    assert data["pictures"] == 3
    assert data["caching_seconds"] > 0
    assert [one["path"] for one in data["long_captions"]] == [str(cats / "1.png")]
