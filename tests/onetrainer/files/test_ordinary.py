"""Files of models and caches: no pipe is waited for, and no link without an end is read."""

import os
import sys

import pytest

from onetrainer.cache.format import intact_rows, merged, read_shard
from onetrainer.captioning.kinds import find_kind
from onetrainer.errors import UserError
from onetrainer.files.inside import NotInside
from onetrainer.files.ordinary import read_ordinary
from onetrainer.model_files.folders import folder_at
from onetrainer.tensor_files.safetensors_header import read_safetensors
from tests.cache_files import put

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")


@pytest.fixture
def odd(tmp_path):
    """A pipe, and a link to what has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    return tmp_path / "pipe", tmp_path / "endless"


def test_a_file_is_read_up_to_a_size_if_it_is_an_ordinary_one(odd, tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_ordinary(tmp_path / "link", most=5) == b"12345"
    for path, most in ((tmp_path / "file", 4), *((each, 9) for each in odd)):
        with pytest.raises(NotInside):
            read_ordinary(path, most=most)


def test_a_model_with_an_odd_config_is_refused(odd, tmp_path):
    model = tmp_path / "model"
    (model / "unet").mkdir(parents=True)
    (model / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    for path in odd:
        for config in (model / "unet" / "config.json", model / "config.json"):
            path.rename(config)
            read = folder_at if config.parent.name == "unet" else find_kind
            with pytest.raises(UserError, match=r"cannot be read|without config.json"):
                read(model)
            config.rename(path)


def test_an_odd_shard_is_not_read(odd, tmp_path):
    put(tmp_path / "cache", [1], kind="latents")
    shard = read_shard(next((tmp_path / "cache" / "latents").glob("*.safetensors")))
    for path in odd:
        for read in (
            lambda p: read_shard(p),
            lambda p: intact_rows(p, shard, [0]),
            lambda p: [*merged([(p, shard, [0])])],
            read_safetensors,
        ):
            with pytest.raises(NotInside):
                read(path)
