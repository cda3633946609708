"""What the forecast says about a run's images before the start."""

from modules.forecast.dataset import forecast_dataset, long_captions
from modules.forecast.forecast import Planner, Target
from onetrainer.dataset import item
from onetrainer.dataset.dataset import read_dataset
from onetrainer.images.header import read_header
from onetrainer.jobs.plan_request import RecordedHeaders
from onetrainer.presets.presets import resolve
from onetrainer.presets.step_work import DeviceSpeed
from tests import tiny
from tests.close import near
from tests.images import folder

# A machine that only takes time for arithmetic.
FLOPS = DeviceSpeed(
    {f"{kind} float32": 1.0 for kind in ("product", "convolution", "attention")},
    bytes_per_second=float("inf"),
    call_seconds=0.0,
)


def config(base, root, **data):
    folder(root / "cats", [(64, 64)] * 4)
    data = {"folder": str(root / "cats"), "resolution": 64} | data
    document = {"model": {"path": base}, "data": data, "hardware": {"precision": "fp32"}}
    return resolve(document | {"output": {"folder": str(root / "runs")}}, source="")


def facts(plans, asked, speed=FLOPS, headers=None):
    with plans.stage(asked) as stage:
        return forecast_dataset(stage, speed, headers or RecordedHeaders({}))


def test_captions_longer_than_a_piece_are_named_with_their_files(tmp_path):
    captions = {"dropout": 1, "drop_tags": "all", "drop_chance": 1}  # all count in full
    data = {"folder": str(folder(tmp_path, [(64, 64)] * 4)), "resolution": 64}
    (tmp_path / "1.txt").write_text("cat " * 80)
    (tmp_path / "3.txt").write_text("a cat\n" + "cat " * 160)
    (tmp_path / "2.txt").write_text("cat " * 75)
    dataset = read_dataset(resolve({"data": data | {"captions": captions}}, source=""))
    found = long_captions(tiny.family(), dataset)
    assert found["long_caption_count"] == 2
    assert found["long_captions"] == [
        {"path": str(tmp_path / "3.png"), "tokens": 160},
        {"path": str(tmp_path / "1.png"), "tokens": 80},
    ]


def test_time_for_the_cache_grows_with_views_and_captions(base, tmp_path):
    with Planner(Target("cpu")) as plans:

        def seconds(**data):
            return facts(plans, config(base, tmp_path, **data)).get("caching_seconds", 0.0)

        one = seconds(cache_text=False)
        assert one > 0
        assert seconds(cache_text=False, augmentation={"flip": "random"}) == near(2 * one)
        assert seconds() == near(one + seconds(cache_latents=False))
        assert seconds(cache_latents=False, cache_text=False) == 0
        elsewhere = facts(plans, config(base, tmp_path), None)
        assert "caching_seconds" not in elsewhere
        assert elsewhere["long_caption_count"] == 0
        for missing in ("", str(tmp_path / "nowhere")):
            assert facts(plans, config(base, tmp_path, folder=missing)) == {}


def test_no_header_is_read_that_was_read_already(base, tmp_path, monkeypatch):
    made, headers, read = config(base, tmp_path), RecordedHeaders({}), []
    monkeypatch.setattr(item, "read_header", lambda path: read.append(path) or read_header(path))
    with Planner(Target("cpu"), headers) as plans:
        plans.bucket_of(made)
        assert len(read) == len(headers.recorded) == 4
        assert facts(plans, made, headers=headers)
    Planner(Target("cpu"), RecordedHeaders(headers.recorded)).bucket_of(made)
    assert len(read) == 4
