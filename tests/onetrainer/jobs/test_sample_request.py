"""What a command line becomes, and what is told at once; no engine is loaded."""

from shlex import split
from typing import get_args

import pytest

from onetrainer.__main__ import make_parser
from onetrainer.config.run.sampling import SamplerName
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.jobs.options import naming_options, validate_request
from onetrainer.jobs.sample_request import SampleRequest, request_of, size_of
from tests.each import each

HUB = "owner/model"  # nothing of it is looked at before the worker


def parse(*arguments, base=HUB):
    return request_of(make_parser("sample").parse_args(["sample", base, *arguments]))


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


@each(
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


@each(("suffix", "strength"), [("", 1.0), (":0.8", 0.8), (":-1", -1.0)])
def test_loras_have_a_strength(lora, suffix, strength):
    (found,) = parse("--prompt", "x", "--lora", lora + suffix).loras
    assert (found.path, found.strength) == (lora, strength)


@each(
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
        (("--prompt", "x", "--seeds", "few"), ["--seeds: ", "whole number"]),
        (("--prompt", "x", "--seed", "-1"), ["--seed: ", "a whole number from 0"]),
        (("--prompt", "x", "--seed", "9", "--seed", "1.5"), ["--seed: ", "a whole number from 0"]),
        (("--prompt", "x", "--seed", str(2**63 - 2), "--seeds", "3"), ["--seeds: ", "from 1 to 2"]),
        (("--prompt", "x", "--lora", "a.pt:200"), ["--lora: ", '"200"', "a.pt", "-100 to 100"]),
        (("--prompt", "x", "--lora", "a.pt:nan"), ["--lora: ", '"nan"', "-100 to 100"]),
        (("--prompt", "x" * 5000), ["--prompt: ", "5,000", "at most 4,000"]),
        (("--prompt", "x", "--negative", "x" * 4001), ["--negative: ", "4,001", "at most 4,000"]),
        (("--prompt", "x", "--lora", "none.safetensors:0.5"), ["none.safetensors: no such file"]),
        (("--prompts", "none.txt"), ["none.txt: file not found", "one prompt a line"]),
        (("--prompts", "."), [".: this is a folder", "--prompts"]),
        (("--prompt", "x", "--seed", "-1"), ["does not mean a random seed", "(default: 42)"]),
        (("--prompt", "a <lora:x:0.8> b"), ["--prompt: <lora:x:0.8>", "--lora x.safetensors:0.8"]),
        (("--prompt", "x", "--negative", "<lyco:y>"), ["--negative: ", "--lora y.safetensors"]),
    ],
)
def test_what_is_wrong_is_reported_by_the_name_of_its_option(arguments, words):
    message = refusal(*arguments)
    assert all(word in message for word in words), message


def test_one_mistake_is_one_message_by_its_option():
    for arguments in (("--seed", "-1"), ("--lora", "a.pt:200"), ("--width", "100")):
        message = refusal("--prompt", "x", *arguments)
        assert message.startswith(f"{arguments[0]}: ")
        assert "problems" not in message
    with pytest.raises(UserError) as raised:
        validate_request(SampleRequest, {"base": HUB, "prompts": ["x"], "seeds": [-1]})
    assert str(raised.value).startswith("--seed: -1 is not allowed here")


def test_a_base_model_of_another_family_is_refused_with_the_right_one(tmp_path):
    from tests import tiny

    base = str(tiny.write_sdxl(tmp_path / "xl.safetensors"))
    assert '"sdxl"' in refusal("--prompt", "x", "--family", "sd15", base=base)


@each("content", [b"\xff\xfe\x00\xd8", b"a\0b", b"\x80\x02c"])
def test_prompts_that_are_no_text_are_refused_with_a_message(tmp_path, content):
    (tmp_path / "p.txt").write_bytes(content)
    message = refusal("--prompts", str(tmp_path / "p.txt"))
    assert "this is not a text file" in message
    assert "codec" not in message


def test_a_lora_called_up_in_a_file_is_refused_with_its_file(tmp_path):
    (tmp_path / "p.txt").write_text("a cat\na <lora:x:1> dog\n")
    assert "p.txt: a line: <lora:x:1>" in refusal("--prompts", str(tmp_path / "p.txt"))


@each("text", ["a (red:1.3) [blue]", "<cat> on a hill", "a < b: c > d"])
def test_other_signs_are_plain_text(text):
    assert parse("--prompt", text).prompts == (text,)


@each(
    ("name", "value"),
    [
        ("DPM++ 2M Karras", "dpmpp_2m_karras"),
        ("dpm++ 2m  sde karras", "dpmpp_2m_sde_karras"),
        ("Euler a", "euler_a"),
        ("EULER_A", "euler_a"),
        ("UniPC", "unipc"),
        ("lcm", "lcm"),
    ],
)
def test_samplers_are_known_by_the_names_that_people_use(name, value):
    assert parse("--prompt", "x", "--sampler", name).sampler == value


@pytest.fixture
def files(tmp_path):
    """Headers of an SD 1.5 model, and of things made for SD 1.5 and SDXL."""
    from tests import headers

    layer = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_{}_attn2_to_k"
    for base, depth, width in (("sd15", 0, 768), ("sdxl", 1, 2048)):
        name = layer.format(depth)
        lora = {f"{name}.lora_down.weight": (4, width), f"{name}.lora_up.weight": (64, 4)}
        headers.write(tmp_path / f"{base}.safetensors", lora)
    headers.write(tmp_path / "word.safetensors", {"clip_l": (1, 768), "clip_g": (1, 1280)})
    headers.write(tmp_path / "base.safetensors", headers.full_size("sd15"))
    return tmp_path


def test_a_lora_of_another_base_is_refused_at_once(files):
    lora = ("--lora", f"{files}/sdxl.safetensors:0.5")
    message = refusal("--prompt", "x", *lora, base=str(files / "base.safetensors"))
    said = "sdxl.safetensors: this LoRA was made for SDXL; the model is SD 1.5. "
    assert message.startswith(said)
    own = ("--lora", f"{files}/sd15.safetensors")
    assert parse("--prompt", "x", *own, base=str(files / "base.safetensors")).loras


def test_a_file_of_unusual_size_is_refused_at_once(tmp_path):
    from tests import tiny

    base = tiny.write_single_file(tmp_path / "small.safetensors")
    message = refusal("--prompt", "x", base=str(base))
    assert message.startswith("small.safetensors: this model has an unusual size")
    assert "diffusers" in message


def test_what_has_no_vae_is_no_other_vae(files):
    vae = ("--vae", f"{files}/sd15.safetensors")
    message = refusal("--prompt", "x", *vae, base=str(files / "base.safetensors"))
    assert message.startswith(
        "sd15.safetensors: this is a LoRA. Expected a VAE, or a model with one"
    )


@each(
    ("family", "prediction", "side"),
    [
        ("sd15", "epsilon", 512),
        ("sd15-inpainting", "v_prediction", 512),
        ("sd2", "epsilon", 512),
        ("sd2", "v_prediction", 768),
        ("sdxl", "epsilon", 1024),
    ],
)
def test_images_are_as_large_as_the_model_was_made_for(family, prediction, side):
    request = SampleRequest(base=HUB, prompts=("x",))
    assert size_of(request, family, prediction) == (side, side)
    wide = SampleRequest(base=HUB, prompts=("x",), width=640)
    assert size_of(wide, family, prediction) == (640, side)


def test_help_names_every_choice_and_the_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        make_parser("sample").parse_args(["sample", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for name in (*get_args(SamplerName), *FAMILY_LABELS, "Default: 20.", "Default: 7.0."):
        assert name in said


def test_messages_about_settings_name_the_option_too():
    said = "Choose model.zero_terminal_snr; model.safetensors stays"
    note = "Here, model.zero_terminal_snr is --zero-terminal-snr."
    assert naming_options(said, SampleRequest) == f"{said}. {note}"
    assert naming_options("model.safetensors", SampleRequest) == "model.safetensors"
