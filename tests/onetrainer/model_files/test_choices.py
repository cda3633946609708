"""Choices that contradict the model are refused, and the right one is named."""

from pathlib import Path

import pytest

from onetrainer.errors import UserError
from onetrainer.model_files.choices import (
    prediction_change,
    require_family,
    require_predictable,
    require_vae,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.kinds import ModelFile
from tests.each import each

V = "v_prediction"


def model(kind="sd15", **values):
    return ModelFile(Path("m.safetensors"), "single-file", kind, **values)


def test_right_family_is_accepted():
    require_family(model("sd2-inpainting"), "sd2-inpainting")


def test_wrong_family_is_named_with_the_right_one():
    with pytest.raises(UserError) as caught:
        require_family(model("sdxl"), "sd15")
    assert str(caught.value) == (
        'm.safetensors: this is an SDXL model. The chosen family is "sd15".'
        ' Set model.family to "sdxl", or choose another model.'
    )


@each(
    ("found", "words"),
    [
        (
            model("lora", made_for="sdxl"),
            "this is a LoRA, not a complete model. It was made for SDXL",
        ),
        (model("unet", made_for="sd15"), "this is a UNet alone"),
        (model("flux"), "this is a Flux model"),
        (model("unknown", unet_channels=8), "its UNet has 8 input channels"),
        (model("unknown", unet_channels=4), "not a Stable Diffusion model known to this version"),
    ],
)
def test_what_is_no_base_model_is_named(found, words):
    with pytest.raises(UserError, match=words) as caught:
        require_family(found, "sd15")
    assert caught.value.expected
    assert caught.value.remedy


def test_missing_vae_is_fine_with_another_one_and_named_with_its_setting_without():
    require_family(model(missing=("VAE",)), "sd15", has_custom_vae=True)
    with pytest.raises(UserError, match=r"has no VAE.*\"Custom VAE\" \(model\.vae\)"):
        require_family(model(missing=("VAE",)), "sd15")


def test_missing_text_encoder_asks_for_the_whole_model_even_with_a_vae():
    lacking = model("sdxl", missing=("VAE", "second text encoder"))
    for has_custom_vae in (True, False):
        with pytest.raises(UserError, match=r"no second text encoder\..*complete model") as caught:
            require_family(lacking, "sdxl", has_custom_vae=has_custom_vae)
        assert ("no VAE" in caught.value.what) == (not has_custom_vae)


@each("family", ["sd15", "sd15-inpainting", "sd2-inpainting", "sdxl"])
def test_without_a_sign_a_model_predicts_noise(family):
    assert resolve_prediction(model(family), "auto") == "epsilon"
    assert resolve_prediction(model(family), V) == V


def test_sd2_without_a_sign_has_to_be_chosen():
    with pytest.raises(UserError, match=r"768-pixel.*velocity.*512-pixel.*model\.prediction"):
        resolve_prediction(model("sd2"), "auto")
    assert resolve_prediction(model("sd2"), "epsilon") == "epsilon"


@pytest.mark.parametrize(("reported", "other"), [("epsilon", V), (V, "epsilon")])
def test_what_the_file_says_is_taken_unless_another_is_chosen(reported, other):
    found = model("sd2", prediction=reported, prediction_source="the marker")
    assert resolve_prediction(found, "auto") == resolve_prediction(found, reported) == reported
    assert resolve_prediction(found, other) == other
    assert prediction_change(found, "auto") is prediction_change(found, reported) is None
    what, meaning = prediction_change(found, other)
    assert "the marker says that it predicts" in what
    assert "noise until it has been trained" in meaning


@each(
    ("reported", "choice", "result"),
    [
        (None, "auto", False), (None, "on", True), (None, "off", False), (True, "auto", True),
        (True, "on", True), (False, "auto", False), (False, "on", True), (False, "off", False),
    ],
)  # fmt: skip
def test_zero_terminal_snr_follows_the_file_and_the_choice(reported, choice, result):
    assert resolve_zero_snr(model(zero_terminal_snr=reported), choice) is result


def test_zero_terminal_snr_may_not_be_taken_from_a_model_that_has_it():
    with pytest.raises(UserError, match=r'is "off".*to "on" or "auto"'):
        resolve_zero_snr(model(zero_terminal_snr=True), "off")


def test_choice_counts_where_only_metadata_says_otherwise():
    found = model("sd2", prediction="epsilon", zero_terminal_snr=True,
                  prediction_source="its metadata",
                  zero_snr_is_sure=False)  # fmt: skip
    assert resolve_prediction(found, "auto") == "epsilon"
    assert resolve_prediction(found, V) == V
    assert resolve_zero_snr(found, "auto") is True
    assert resolve_zero_snr(found, "off") is False


@each(
    ("found", "ways"),
    [
        (None, ('prediction to "v_prediction"', 'zero_terminal_snr to "off"')),
        (model(zero_terminal_snr=True), ('prediction to "v_prediction"',)),
        (model(prediction="epsilon"),
         ('prediction to "v_prediction"', 'zero_terminal_snr to "off"')),
        (model(prediction="epsilon", zero_terminal_snr=True),
         ('prediction to "v_prediction"',)),
    ],
    ids=["unknown", "file asks for it", "file predicts noise", "metadata errs"],
)  # fmt: skip
def test_way_out_that_is_named_is_open(found, ways):
    with pytest.raises(UserError) as caught:
        require_predictable("epsilon", zero_terminal_snr=True, model=found)
    named = [way for way in ('prediction to "v_prediction"', 'zero_terminal_snr to "off"')
             if way in caught.value.remedy]  # fmt: skip
    assert named == list(ways)
    assert "trained" not in str(caught.value)
    if found is not None:
        assert (V in str(ways)) == (_allows(resolve_prediction, found, V))
        assert ("off" in str(ways)) == (_allows(resolve_zero_snr, found, "off"))


def _allows(resolve, found, choice):
    try:
        resolve(found, choice)
    except UserError:
        return False
    return True


def test_averaged_weights_alone_are_named_with_the_command_that_takes_them():
    found = model(missing=("UNet",), has_ema=True)
    with pytest.raises(UserError, match=r"EMA weights only.*convert --ema"):
        require_family(found, "sd15")
    both = model(missing=("UNet", "VAE"), has_ema=True)
    with pytest.raises(UserError, match=r"there is no VAE.*convert --ema --vae FILE"):
        require_family(both, "sd15")
    with pytest.raises(UserError, match="has no UNet"):
        require_family(model(missing=("UNet",)), "sd15")


def test_zero_terminal_snr_needs_velocity():
    for prediction, zero_snr in ((V, True), (V, False), ("epsilon", False)):
        require_predictable(prediction, zero_terminal_snr=zero_snr)
    with pytest.raises(UserError, match="the input is pure noise"):
        require_predictable("epsilon", zero_terminal_snr=True)


def test_vae_may_be_alone_or_in_a_whole_model():
    for found in (model("vae"), model("sd2"), model("sd15", missing=("text encoder",))):
        require_vae(found, "sd15")
    for found in (model("lora"), model("unet"), model("sd15", missing=("VAE",)), model("unknown")):
        with pytest.raises(UserError, match="Expected a VAE, or a model with one"):
            require_vae(found, "sd15")


@each(
    ("found", "family"),
    [("sdxl", "sd15"), ("sdxl-inpainting", "sd2"), ("sd15", "sdxl"), ("sd2", "sdxl-inpainting")],
)
def test_vae_of_other_latents_is_refused(found, family):
    for owner in (model(found), model("vae", made_for=found)):
        with pytest.raises(UserError, match="whose latents differ"):
            require_vae(owner, family)
