"""Configs of a model's components: read if they are ordinary files of JSON."""

import os
import sys

import pytest

from modules.captioning.background import Normalization, normalization_of
from modules.formats.files.component_configs import read_config
from onetrainer.errors import UserError


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_no_pipe_is_waited_for_and_no_endless_file_read(tmp_path):
    path = tmp_path / "preprocessor_config.json"
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        make(path)
        with pytest.raises(UserError, match=r"cannot be read \(it is a (pipe|device)\)"):
            read_config(path)
        assert normalization_of(tmp_path / "model.onnx") == Normalization()
        path.unlink()
