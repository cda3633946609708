"""What a command line becomes, and what is told at once; no engine is loaded."""

from shlex import split
from typing import get_args

import pytest

from onetrainer import file_arguments
from onetrainer.__main__ import _parser
from onetrainer.config.model import FamilyName
from onetrainer.config.sampling import SamplerName
from onetrainer.errors import UserError
from onetrainer.options import in_options
from onetrainer.sample_request import SampleRequest, request_of, size_of

HUB = "owner/model"  # nothing of it is looked at before the worker


def parse(*arguments, base=HUB):
    return request_of(_parser().parse_args(["sample", base, *arguments]))


def refusal(*arguments, base=HUB):
    with pytest.raises(UserError) as raised:
        parse(*arguments, base=base)
    return str(raised.value)


def test_defaults_are_those_of_the_settings():
    request = parse("--prompt", "a cat")
    assert request == SampleRequest(base=HUB, prompts=("a cat",))
    assert (request.steps, request.guidance, request.sampler) == (20, 7.0, "ddim")


def test_every_option_reaches_the_request():
    request = parse(
        *split("--prompt x --negative y --seed 3 --width 128 --height 64 --steps 9"),
        *split("--guidance 2.5 --guidance-rescale 0.7 --sampler euler_a --batch 4"),
        *split("--precision fp16 --device cpu --family sdxl --prediction v_prediction"),
        *split("--zero-terminal-snr on --clip-skip 2 --grid --offline --out pictures"),
    )
    assert request == SampleRequest(
        base=HUB, prompts=("x",), negative="y", seeds=(3,), width=128, height=64, steps=9,
        guidance=2.5, guidance_rescale=0.7, sampler="euler_a", batch=4, precision="fp16",
        device="cpu", family="sdxl", prediction="v_prediction", zero_terminal_snr="on",
        clip_skip=2, grid=True, offline=True, out="pictures",
    )  # fmt: skip


def test_prompts_come_from_options_and_from_a_file(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("# mine\n\na dog \nein Bär\n", encoding="utf-8-sig")
    request = parse("--prompt", "a cat", "--prompts", str(file))
    assert request.prompts == ("a cat", "a dog", "ein Bär")


@pytest.mark.parametrize(
    ("arguments", "seeds"),
    [
        ((), (42,)),
        (("--seed", "5", "--seed", "9"), (5, 9)),
        (("--seeds", "3"), (42, 43, 44)),
        (("--seed", "7", "--seeds", "2"), (7, 8)),
    ],
)
def test_seeds(arguments, seeds):
    assert parse("--prompt", "x", *arguments).seeds == seeds


@pytest.fixture
def lora(tmp_path, monkeypatch):
    from tests import tiny

    monkeypatch.chdir(tmp_path)
    shapes = {"lora_unet_x.lora_down.weight": (4, 8), "lora_unet_x.lora_up.weight": (8, 4)}
    return tiny.write_header(tmp_path / "style.safetensors", shapes).name


@pytest.mark.parametrize(("suffix", "strength"), [("", 1.0), (":0.8", 0.8), (":-1", -1.0)])
def test_loras_have_a_strength(lora, suffix, strength):
    (found,) = parse("--prompt", "x", "--lora", lora + suffix).loras
    assert (found.path, found.strength) == (lora, strength)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["no prompt", "--prompt"]),
        (("--prompt", "x", "--width", "100"), ["--width", "multiple of 8", "64"]),
        (("--prompt", "x", "--steps", "many"), ["--steps", "whole number"]),
        (("--prompt", "x", "--family", "sd9"), ["--family", "sdxl-inpainting"]),
        (("--prompt", "x", "--sampler", "magic"), ["--sampler", "dpmpp_2m_karras"]),
        (("--prompt", "x", "--device", "gpu"), ["--device"]),
        (("--prompt", "x", "--guidance-rescale", "2"), ["--guidance-rescale", "to 1"]),
        (("--prompt", "x", "--steps", "0", "--batch", "0"), ["--steps", "--batch"]),
        (("--prompt", "x", "--seed", "1", "--seed", "2", "--seeds", "3"), ["--seeds"]),
        (("--prompt", "x", "--seeds", "few"), ["whole numbers"]),
        (("--prompt", "x", "--seed", "-1"), ["--seed"]),
        (("--prompt", "x", "--lora", "none.safetensors:0.5"), ["none.safetensors: there is no"]),
        (("--prompts", "none.txt"), ["none.txt", "cannot be read"]),
    ],
)
def test_what_is_wrong_is_told_by_the_name_of_its_option(arguments, words):
    message = refusal(*arguments)
    assert all(word in message for word in words), message


def test_a_base_model_of_another_family_is_told_with_the_right_one(tmp_path):
    from tests import tiny

    base = str(tiny.write_sdxl(tmp_path / "xl.safetensors"))
    assert '"sdxl"' in refusal("--prompt", "x", "--family", "sd15", base=base)


def test_a_whole_model_is_no_lora(tmp_path):
    from tests import tiny

    xl = str(tiny.write_sdxl(tmp_path / "xl.safetensors"))
    assert "an SDXL model" in refusal("--prompt", "x", "--lora", xl)


@pytest.mark.parametrize(
    ("family", "prediction", "side"),
    [
        ("sd15", "epsilon", 512),
        ("sd15-inpainting", "v_prediction", 512),
        ("sd2", "epsilon", 512),
        ("sd2", "v_prediction", 768),
        ("sdxl", "epsilon", 1024),
    ],
)
def test_pictures_are_as_large_as_the_model_was_made_for(family, prediction, side):
    request = SampleRequest(base=HUB, prompts=("x",))
    assert size_of(request, family, prediction) == (side, side)
    wide = SampleRequest(base=HUB, prompts=("x",), width=640)
    assert size_of(wide, family, prediction) == (640, side)


def test_help_names_every_sampler_and_family():
    assert file_arguments.SAMPLERS.split(", ") == list(get_args(SamplerName))
    assert file_arguments.FAMILIES.split(", ") == list(get_args(FamilyName))


def test_messages_about_settings_become_messages_about_options():
    text = "Choose model.zero_terminal_snr; model.safetensors and hardware.device stay"
    assert in_options(text) == "Choose --zero-terminal-snr; model.safetensors and --device stay"
