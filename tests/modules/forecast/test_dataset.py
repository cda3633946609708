"""What the model tells of a run's pictures beforehand."""

import pytest
import torch

from modules.forecast.dataset import long_captions
from modules.forecast.forecast import Target, planner
from modules.forecast.operator_costs import Machine
from onetrainer.dataset import items
from onetrainer.dataset.dataset import read_dataset
from onetrainer.images.header import read_header
from onetrainer.jobs.plan_request import RecordedHeaders
from onetrainer.presets.presets import resolve
from tests import tiny
from tests.images import folder

# A machine on which an operator takes a second, whatever it does.
CALLS = Machine({}, bytes_per_second=float("inf"), call_seconds=1.0)
# One that only counts arithmetic.
FLOPS = Machine(
    {(kind, torch.float32): 1.0 for kind in ("product", "convolution", "attention")},
    bytes_per_second=float("inf"),
    call_seconds=0.0,
)


def config(base, root, **data):
    folder(root / "cats", [(64, 64)] * 4)
    data = {"folder": str(root / "cats"), "resolution": 64} | data
    document = {"model": {"path": base}, "data": data, "hardware": {"precision": "fp32"}}
    return resolve(document | {"output": {"folder": str(root / "runs")}}, source="")


def seconds(base, root, machine=FLOPS, **data):
    with planner(Target("cpu")) as plans:
        return plans.data(config(base, root, **data), machine).get("caching_seconds", 0.0)


def test_captions_longer_than_a_piece_are_named_with_their_files(tmp_path):
    data = {"folder": str(folder(tmp_path, [(64, 64)] * 4)), "resolution": 64}
    (tmp_path / "1.txt").write_text("cat " * 80)
    (tmp_path / "3.txt").write_text("a cat\n" + "cat " * 160)
    (tmp_path / "2.txt").write_text("cat " * 75)
    dataset = read_dataset(resolve({"data": data}, source=""))
    facts = long_captions(tiny.family(), dataset)
    assert facts["long_caption_count"] == 2
    assert facts["long_captions"] == [
        {"path": str(tmp_path / "3.png"), "tokens": 160},
        {"path": str(tmp_path / "1.png"), "tokens": 80},
    ]


def test_what_is_dropped_now_and_then_counts_for_the_length(tmp_path):
    folder(tmp_path, [(64, 64)])
    (tmp_path / "0.txt").write_text("cat, " * 50)
    captions = {"dropout": 1, "drop_tags": "all", "drop_chance": 1}
    data = {"folder": str(tmp_path), "resolution": 64, "captions": captions}
    facts = long_captions(tiny.family(), read_dataset(resolve({"data": data}, source="")))
    assert facts["long_caption_count"] == 1


def test_time_for_the_cache_grows_with_views_and_captions(base, tmp_path):
    one = seconds(base, tmp_path, cache_text=False)
    assert one > 0
    mirrored = {"flip": "random"}
    assert seconds(base, tmp_path, cache_text=False, augmentation=mirrored) == pytest.approx(
        2 * one
    )
    text = seconds(base, tmp_path, cache_latents=False)
    assert seconds(base, tmp_path) == pytest.approx(one + text)
    assert seconds(base, tmp_path, cache_latents=False, cache_text=False) == 0


def test_time_is_not_told_of_another_machine(base, tmp_path):
    with planner(Target("cuda", available=2**34)) as plans:
        facts = plans.data(config(base, tmp_path), None)
    assert "caching_seconds" not in facts
    assert facts["long_caption_count"] == 0


def test_no_header_is_read_that_was_read_already(base, tmp_path, monkeypatch):
    made, headers, read = config(base, tmp_path), RecordedHeaders({}), []
    monkeypatch.setattr(items, "read_header", lambda path: read.append(path) or read_header(path))
    with planner(Target("cpu"), headers) as plans:
        plans.forecast(made)
        assert len(read) == len(headers.recorded) == 4
        assert plans.data(made, CALLS)["caching_seconds"] > 0
    with planner(Target("cpu"), RecordedHeaders(headers.recorded)) as plans:
        plans.forecast(made)
    assert len(read) == 4


def test_nothing_is_told_of_images_that_are_not_there(base, tmp_path):
    for missing in ("", str(tmp_path / "nowhere")):
        with planner(Target("cpu")) as plans:
            assert plans.data(config(base, tmp_path, folder=missing), CALLS) == {}
