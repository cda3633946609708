"""Files of sample prompts as people have them from other programs."""

import json

import pytest

from onetrainer.captions.sample_prompt_file import read_sample_prompts
from onetrainer.errors import UserError


def read(path, content):
    path.write_text(content, encoding="utf-8")
    found = read_sample_prompts(path, place="sampling.file")
    return [prompt.model_dump(exclude_unset=True) for prompt in found]


def test_lines_have_the_options_of_kohyas_scripts(tmp_path):
    text = """# mine
a cat, -- very --old, 16:9 --ar 2 --n  blurry, (bad) --w 640 --h 960 --d 7 --s 28 --l 4.5 --ss k

(a dog:1.2)"""
    found = read(tmp_path / "p.txt", text.replace("--ss k", "--ss euler_a"))
    assert found == [
        {
            **{"prompt": "a cat, -- very --old, 16:9 --ar 2", "negative": "blurry, (bad)"},
            **{"width": 640, "height": 960, "seed": 7, "steps": 28, "guidance": 4.5},
            "sampler": "euler_a",
        },
        {"prompt": "(a dog:1.2)"},
    ]


def test_json_has_our_settings_or_those_of_other_trainers(tmp_path):
    ours = {"prompt": "a", "use": False, "strengths": "0.5, 1", "sampler": "Euler a"}
    old = {"enabled": True, "prompt": "b", "negative_prompt": "c", "cfg_scale": 3, "frames": 1}
    old |= {"sample_inpainting": True, "base_image_path": "in/a.png", "mask_image_path": ""}
    old |= {"diffusion_steps": 9, "noise_scheduler": "DDIM", "text_encoder_1_layer_skip": 0}
    found = read(tmp_path / "p.json", json.dumps([ours, old, "d"]))
    assert found[0] == ours | {"sampler": "euler_a"}
    assert found[1] == {
        **{"use": True, "prompt": "b", "negative": "c", "guidance": 3, "steps": 9},
        **{"sampler": "ddim", "image": str(tmp_path / "in" / "a.png"), "mask": ""},
    }
    assert found[2] == {"prompt": "d"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.txt", "a\nb --w 100", ["p.txt: line 2: width:", '"100"', "multiple of 8"]),
        ("p.txt", "a --ss lms", ["line 1: sampler:", "dpmpp_2m"]),
        ("p.txt", "a --cn x.png", ["line 1: --cn has no meaning here", "--ss"]),
        ("p.txt", "a <lora:x:1>", ["line 1: <lora:x:1>"]),
        ("p.json", '{"prompt": "a"}', ["no list", "sampling.file"]),
        ("p.json", '["a", {"prompts": "b"}]', ["prompt 2: prompts: there is no such setting"]),
        ("p.json", '["a",]', ["line 1, column"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, name, content, words):
    with pytest.raises(UserError) as raised:
        read(tmp_path / name, content)
    assert all(word in str(raised.value) for word in words), str(raised.value)
