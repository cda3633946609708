"""What files and folders say of prediction type and noise schedule."""

import json

import pytest

from onetrainer.errors import UserError
from onetrainer.model_files.inspection import inspect_model
from tests import headers, tiny
from tests.each import each

V = "v_prediction"


def inspect(tmp_path, *, metadata=None, markers=()):
    shapes = headers.full_size("sdxl") | dict.fromkeys(markers, (0,))
    return inspect_model(headers.write(tmp_path / "m.safetensors", shapes, metadata=metadata))


@each(
    ("metadata", "prediction"),
    [
        ({}, None),
        ({"modelspec.prediction_type": "epsilon"}, "epsilon"),
        ({"modelspec.prediction_type": "v"}, V),
        ({"modelspec.prediction_type": "v_prediction"}, V),
        ({"modelspec.predict_key": "v"}, V),
        ({"modelspec.architecture": "stable-diffusion-v2-768-v"}, V),
        ({"modelspec.architecture": "stable-diffusion-v2-768-v/lora"}, V),
        ({"modelspec.architecture": "stable-diffusion-v2-512"}, "epsilon"),
        ({"modelspec.architecture": "stable-diffusion-xl-v1-base"}, None),
        ({"ss_base_model_version": "sd_v2_v"}, V),
        ({"ss_base_model_version": "sd_v1_v"}, V),
        ({"ss_base_model_version": "sd_v1"}, None),
        ({"ss_base_model_version": "sd_v2"}, "epsilon"),
        ({"ss_base_model_version": "sdxl_base_v1-0"}, None),
        ({"modelspec.prediction_type": "nonsense"}, None),
    ],
)
def test_prediction_is_read_from_metadata(tmp_path, metadata, prediction):
    model = inspect(tmp_path, metadata=metadata)
    assert model.prediction == prediction
    assert (model.prediction_source == "") == (prediction is None)
    assert all(key in model.prediction_source for key in metadata) or prediction is None


def test_markers_are_read_and_win_over_metadata(tmp_path):
    said = {"modelspec.prediction_type": "epsilon", "ss_zero_terminal_snr": "False"}
    model = inspect(tmp_path, metadata=said, markers=("v_pred", "ztsnr"))
    assert (model.prediction, model.zero_terminal_snr) == (V, True)
    assert model.zero_snr_is_sure
    assert model.prediction_source == 'the marker "v_pred"'


def test_metadata_alone_is_not_sure(tmp_path):
    said = {"modelspec.prediction_type": "epsilon", "ss_zero_terminal_snr": "True"}
    model = inspect(tmp_path, metadata=said)
    assert (model.prediction, model.zero_terminal_snr) == ("epsilon", True)
    assert not model.zero_snr_is_sure


@each(("said", "zero_snr"), [("True", True), ("False", False), ("None", None), ("", None)])
def test_zero_terminal_snr_is_read_from_metadata(tmp_path, said, zero_snr):
    model = inspect(tmp_path, metadata={"ss_zero_terminal_snr": said})
    assert model.zero_terminal_snr is zero_snr


def folder(tmp_path, config):
    path = tiny.write_folder(tmp_path / "model")
    (path / "scheduler" / "scheduler_config.json").write_text(json.dumps(config))
    return path


@each(
    ("config", "prediction", "zero_snr"),
    [
        ({"prediction_type": "epsilon", "rescale_betas_zero_snr": True}, "epsilon", True),
        ({}, None, None),
        ({"prediction_type": "epsilon"}, "epsilon", None),
        ({"prediction_type": V, "rescale_betas_zero_snr": True}, V, True),
        ({"prediction_type": V, "rescale_betas_zero_snr": False}, V, False),
    ],
)
def test_prediction_is_read_from_the_scheduler_config(tmp_path, config, prediction, zero_snr):
    model = inspect_model(folder(tmp_path, config))
    assert (model.prediction, model.zero_terminal_snr) == (prediction, zero_snr)
    assert model.prediction_source == ("its scheduler config" if prediction else "")
    contradicts_itself = (prediction, zero_snr) == ("epsilon", True)
    assert model.zero_snr_is_sure == (not contradicts_itself)


def test_folder_that_predicts_something_else_is_refused(tmp_path):
    with pytest.raises(UserError, match='this model predicts "sample"'):
        inspect_model(folder(tmp_path, {"prediction_type": "sample"}))
