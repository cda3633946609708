"""Choices are shown by names that people know; files and `--set` keep the values."""

import pytest

from onetrainer.config.base.variants import KIND, variant_paths, variants
from onetrainer.config.fields import setting_at, settings
from onetrainer.config.train import TrainConfig
from onetrainer.errors import ProblemsError
from onetrainer.presets.presets import resolve, with_overrides
from onetrainer.presets.settings_reference import render
from tests.each import each

CHOICES = [setting for setting in settings(TrainConfig) if setting.kind == "choice"]
KINDS = dict(variant_paths(TrainConfig))
# Values that are plain names already, or names that everybody writes in this way.
SAID_AS_THEY_ARE = {
    "epsilon", "on", "off", "constant", "linear", "cosine",
    "exponential", "sample", "mean", "center", "random", "always", "warn", "stop",
    "selective",
    "fp32", "fp16", "bf16", "int8", "fp8", "nf4", "kohya", "diffusers", "steps", "epochs",
}  # fmt: skip


@each("setting", CHOICES)
def test_every_choice_has_a_label_of_its_own(setting):
    words = [setting.choice_label(value) for value in setting.choices]
    assert len(set(words)) == len(words)
    assert set(setting.ui.choices) <= set(setting.choices)
    silent = {value for value in setting.choices if setting.choice_label(value) == value}
    assert silent <= SAID_AS_THEY_ARE or setting.path.endswith(f".{KIND}")


@each("field", KINDS.values())
def test_every_kind_of_a_section_has_a_title_of_its_own(field):
    titles = [vars(section)["title"] for section in variants(field).values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_what_has_an_effect_only_with_other_choices_names_some_that_there_are():
    for setting in settings(TrainConfig):
        section = setting.path.rpartition(".")[0]
        for name, values in setting.ui.only_with.items():
            other = setting_at(name if "." in name else f"{section}.{name}")
            is_any = values == ("*",) and other.kind != "choice"
            is_none = values == ("0",) and bool(other.ui.zero)
            assert is_any or is_none or set(values) < set(other.choices)


@each(
    ("path", "value", "word"),
    [
        ("model.family", "sd15-inpainting", "SD 1.5 inpainting"),
        ("model.family", "sdxl", "SDXL"),
        ("model.prediction", "v_prediction", "v-prediction"),
        ("model.zero_terminal_snr", "auto", "automatic"),
        ("sampling.sampler", "dpmpp_2m_sde_karras", "DPM++ 2M SDE Karras"),
        ("sampling.sampler", "euler_a", "Euler a"),
        ("hardware.device", "auto", "automatic"),
    ],
)
def test_values_are_called_what_people_call_them(path, value, word):
    assert setting_at(path).choice_label(value) == word


def test_a_refused_value_is_answered_with_values_and_labels():
    with pytest.raises(ProblemsError) as caught:
        resolve({"model": {"family": "sd3"}}, source="test")
    (problem,) = caught.value.problems
    assert '"sd15" (SD 1.5), "sd15-inpainting" (SD 1.5 inpainting)' in problem.expected
    # A name that only differs by capitals and dashes says nothing more.
    assert problem.expected.endswith('"sdxl", "sdxl-inpainting"')


def test_the_terminal_takes_the_value_and_not_the_label():
    document = with_overrides({}, ["model.family=sdxl"])
    assert resolve(document, source="test").model.family == "sdxl"
    with pytest.raises(ProblemsError):
        resolve(with_overrides({}, ["model.family=SDXL"]), source="test")


def test_the_help_says_labels_in_the_window_and_values_in_the_reference():
    setting = setting_at("model.prediction")
    assert "“automatic” reads it" in setting.help_text
    assert '"auto"' not in setting.help_text
    assert '"auto" reads it' in render()
