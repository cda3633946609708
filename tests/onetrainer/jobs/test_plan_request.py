"""What a forecast is asked for: a GPU's memory as people type it."""

import pytest

from onetrainer.config.train import TrainConfig
from onetrainer.dataset.dataset import read_dataset
from onetrainer.errors import UserError
from onetrainer.jobs.plan_request import PlanRequest, RecordedHeaders, gigabytes
from tests.each import each
from tests.images import folder


def test_headers_that_went_with_a_request_are_not_read_again(tmp_path):
    data = {"folder": str(folder(tmp_path / "cats", [(64, 64), (88, 48)]))}
    config = TrainConfig.model_validate({"data": data})
    first = RecordedHeaders({})
    before = read_dataset(config, headers=first).items
    text = PlanRequest(config=config, headers=first.recorded).model_dump_json()
    for path in (tmp_path / "cats").glob("*.png"):
        path.write_bytes(b"no picture any more")
    recorded = RecordedHeaders(PlanRequest.model_validate_json(text).headers)
    assert read_dataset(config, headers=recorded).items == before


def test_a_gpus_memory_may_be_typed_with_its_unit():
    for text in ("8", "8.0", "8GB", "8 GB", " 8 gb ", "8G", "8GiB"):
        assert gigabytes(text) == 8


@each("text", ["0", "-1", "nan", "inf", "-inf", "8 MB", "much", "", "GB", "1e9"])
def test_memory_that_no_gpu_has_is_refused_with_a_message(text):
    with pytest.raises(UserError, match="not an amount of memory") as caught:
        gigabytes(text)
    assert f'"{text}"' in caught.value.what
    assert caught.value.expected
    assert caught.value.remedy
