"""What a command line becomes, and what is refused at once; no engine is loaded."""

from shlex import split
from typing import get_args

import pytest

from onetrainer.__main__ import make_parser
from onetrainer.config.run.sampling import SamplerName
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS
from onetrainer.jobs.options import naming_options, validate_request
from onetrainer.jobs.sample_options import request_of
from onetrainer.jobs.sample_request import SampleRequest, rows_of
from tests import headers, tiny
from tests.each import each

HUB = "owner/model"  # nothing of it is checked before the worker


def parse(*arguments, base=HUB):
    return request_of(make_parser("sample").parse_args(["sample", base, *arguments]))


def refusal(*arguments, base=HUB):
    with pytest.raises(UserError) as raised:
        parse(*arguments, base=str(base))
    return str(raised.value)


def test_every_option_reaches_the_request_and_defaults_are_those_of_the_settings():
    request = parse("--prompt", "a cat")
    assert request == SampleRequest(base=HUB, prompts=("a cat",))
    assert (request.steps, request.guidance, request.sampler) == (20, 7.0, "ddim")
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


@each(
    ("arguments", "name", "value"),
    [
        ("", "seeds", (42,)),
        ("--seed 5 --seed 9", "seeds", (5, 9)),
        ("--seeds 3", "seeds", (42, 43, 44)),
        ("--seed 7 --seeds 2", "seeds", (7, 8)),
        ("--sampler 'DPM++ 2M Karras'", "sampler", "dpmpp_2m_karras"),
        ("--sampler 'dpm++ 2m  sde karras'", "sampler", "dpmpp_2m_sde_karras"),
        ("--sampler 'Euler a'", "sampler", "euler_a"),
        ("--sampler EULER_A", "sampler", "euler_a"),
        ("--sampler UniPC", "sampler", "unipc"),
        ("--sampler lcm", "sampler", "lcm"),
        ("--prompt 'a (red:1.3) [blue]'", "prompts", ("x", "a (red:1.3) [blue]")),
        ("--prompt '<cat> on a hill'", "prompts", ("x", "<cat> on a hill")),
        ("--prompt 'a < b: c > d'", "prompts", ("x", "a < b: c > d")),
    ],
)
def test_options_are_read_as_people_write_them(arguments, name, value):
    assert getattr(parse("--prompt", "x", *split(arguments)), name) == value


def test_prompts_come_from_options_and_from_a_file(tmp_path):
    file = tmp_path / "p.txt"
    file.write_text("# mine\n\na dog \nein Bär\n", encoding="utf-8-sig")
    request = parse("--prompt", "a cat", "--prompts", str(file))
    assert request.prompts == ("a cat",)
    assert [prompt.prompt for prompt in request.listed] == ["a dog", "ein Bär"]
    file.write_text("a cat\na <lora:x:1> dog\n")
    assert "p.txt: line 2: <lora:x:1>" in refusal("--prompts", str(file))
    for content in (b"\xff\xfe\x00\xd8", b"a\0b", b"\x80\x02c"):
        file.write_bytes(content)
        message = refusal("--prompts", str(file))
        assert "this is not a text file" in message
        assert "codec" not in message
    file.unlink()
    file.symlink_to("/dev/zero")  # has no end
    assert "this file is larger than" in refusal("--prompts", str(file))


def test_loras_have_a_strength(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shapes = {"lora_unet_x.lora_down.weight": (4, 8), "lora_unet_x.lora_up.weight": (8, 4)}
    lora = tiny.write_header(tmp_path / "style.safetensors", shapes).name
    for suffix, strength in (("", 1.0), (":0.8", 0.8), (":-1", -1.0)):
        (found,) = parse("--prompt", "x", "--lora", lora + suffix).loras
        assert (found.path, found.strength) == (lora, strength)


LONG = "x" * 4001


@each(
    ("arguments", "words"),
    [
        ("", ["no prompt", "--prompt"]),
        ("--prompt x --width 100", ["--width: ", "multiple of 8", "64"]),
        ("--prompt x --steps many", ["--steps: ", "whole number"]),
        ("--prompt x --family sd9", ["--family: ", "sdxl-inpainting"]),
        ("--prompt x --sampler magic", ["--sampler: ", "dpmpp_2m_karras"]),
        ("--prompt x --device gpu", ["--device: "]),
        ("--prompt x --guidance-rescale 2", ["--guidance-rescale: ", "to 1"]),
        ("--prompt x --steps 0 --batch 0", ["2 problems", "--steps: ", "--batch: "]),
        ("--prompt x --seed 1 --seed 2 --seeds 3", ["--seeds counts up"]),
        ("--prompt x --seeds few", ["--seeds: ", "whole number"]),
        ("--prompt x --seed -1", ["--seed: ", "does not mean a random seed", "(default: 42)"]),
        ("--prompt x --seed 9 --seed 1.5", ["--seed: ", "a whole number from 0"]),
        (f"--prompt x --seed {2**63 - 2} --seeds 3", ["--seeds: ", "from 1 to 2"]),
        ("--prompt x --lora a.pt:200", ["--lora: ", '"200"', "a.pt", "-100 to 100"]),
        ("--prompt x --lora a.pt:nan", ["--lora: ", '"nan"', "-100 to 100"]),
        (f"--prompt {LONG}", ["--prompt: ", "4,001", "at most 4,000"]),
        (f"--prompt x --negative {LONG}", ["--negative: ", "4,001", "at most 4,000"]),
        ("--prompt x --lora none.safetensors:0.5", ["none.safetensors: no such file"]),
        ("--prompts none.txt", ["none.txt: file not found", "one prompt a line"]),
        ("--prompts .", [".: this is a folder", "--prompts"]),
        ("--prompt 'a <lora:x:0.8> b'", ["--prompt: <lora:x:0.8>", "--lora x.safetensors:0.8"]),
        ("--prompt x --negative <lyco:y>", ["--negative: ", "--lora y.safetensors"]),
    ],
)
def test_what_is_wrong_is_reported_by_the_name_of_its_option(arguments, words):
    message = refusal(*split(arguments))
    assert message.startswith(words[0]) or words[0] not in ("--width: ", "--seed: ", "--lora: ")
    assert all(word in message for word in words), message


def test_an_entry_of_a_list_is_reported_by_its_option():
    with pytest.raises(UserError) as raised:
        validate_request(SampleRequest, {"base": HUB, "prompts": ["x"], "seeds": [-1]})
    assert str(raised.value).startswith("--seed: -1 is not allowed here")


def test_files_that_do_not_fit_the_base_are_refused_at_once(tmp_path):
    layer = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_{}_attn2_to_k"
    for family, depth, width in (("sd15", 0, 768), ("sdxl", 1, 2048)):
        name = layer.format(depth)
        lora = {f"{name}.lora_down.weight": (4, width), f"{name}.lora_up.weight": (64, 4)}
        headers.write(tmp_path / f"{family}.safetensors", lora)
    base = headers.write(tmp_path / "base.safetensors", headers.full_size("sd15"))
    unusual = tiny.write_single_file(tmp_path / "small.safetensors")
    xl = tiny.write_sdxl(tmp_path / "xl.safetensors")
    for model, option, words in (
        (base, f"--lora {tmp_path}/sdxl.safetensors:0.5",
         "sdxl.safetensors: this LoRA was made for SDXL; the model is SD 1.5. "),
        (base, f"--vae {tmp_path}/sd15.safetensors",
         "sd15.safetensors: this is a LoRA. Expected a VAE, or a model with one"),
        (unusual, "", "small.safetensors: this model has an unusual size"),
        (xl, "--family sd15", '"sdxl"'),
    ):  # fmt: skip
        message = refusal("--prompt", "x", *split(option), base=model)
        assert words in message
    assert parse("--prompt", "x", "--lora", f"{tmp_path}/sd15.safetensors", base=str(base)).loras


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
    for width in (None, 640):
        request = SampleRequest(base=HUB, prompts=("x",), width=width)
        ((shot,),) = rows_of(request, family, prediction)
        assert (shot.prompt.width, shot.prompt.height) == (width or side, side)


def test_what_a_file_says_of_a_prompt_goes_before_the_options(tmp_path):
    file = tmp_path / "p.txt"
    file.write_text("a dog --w 128 --d 9 --s 5 --ss EULER_A\na cat --n blurry --l 1.5\n")
    request = parse("--prompts", str(file), *split("--seeds 2 --steps 8 --negative bad"))
    rows = rows_of(request, "sd15", "epsilon")
    ((dog,), cats) = rows
    assert (dog.prompt.width, dog.prompt.height, dog.prompt.seed) == (128, 512, 9)
    assert (dog.prompt.negative, dog.steps, dog.guidance, dog.sampler) == ("bad", 5, 7, "euler_a")
    assert [cat.prompt.seed for cat in cats] == [42, 43]
    assert (cats[0].prompt.negative, cats[0].steps, cats[0].guidance) == ("blurry", 8, 1.5)
    assert "one size" in refusal("--prompts", str(file), "--grid")
    wire = request.model_dump_json(exclude_unset=True)
    assert rows_of(SampleRequest.model_validate_json(wire), "sd15", "epsilon") == rows
    pairs = tmp_path / "p.json"
    pairs.write_text('[{"prompt": "a dog"}, {"prompt": "a cat", "image": "cat.png"}]')
    assert "prompt 2: the mask is missing" in refusal("--prompts", str(pairs))


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
