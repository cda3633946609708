"""The samples of a config: which, and with which settings."""

import json

import pytest

from onetrainer.captions.sample_prompts import all_shots, shots_of
from onetrainer.checks.preflight import check_environment
from onetrainer.errors import ProblemsError
from onetrainer.presets.presets import resolve
from onetrainer.rules.rules import check_rules
from tests.onetrainer.rules.rule_cases import document_of

PROMPTS = [
    {"prompt": "a"},
    {"prompt": "b", "use": False},
    {"prompt": "c", "steps": 4, "guidance": 0, "sampler": "euler", "strengths": "0.6, 1"},
]


def shots(**changes):
    section = {"sampling.prompts": PROMPTS, "sampling.steps": 9, **changes}
    config = resolve(document_of(section), source="")
    return [
        (shot.title, shot.steps, shot.guidance, shot.sampler, shot.strength)
        for shot in shots_of(config, config.sampling.prompts)
    ]


def test_a_prompt_has_its_own_settings_or_those_of_all():
    own = (4, 0.0, "euler")
    assert shots() == [
        ("a", 9, 7.0, "ddim", 1.0),
        ("c (strength 0.6)", *own, 0.6),
        ("c (strength 1)", *own, 1.0),
    ]


def test_each_prompt_is_sampled_at_every_strength_of_an_adapter_alone():
    of_all = {"sampling.strengths": "0.8 1,0.8"}
    assert [shot[0] for shot in shots(**of_all)][:2] == ["a (strength 0.8)", "a (strength 1)"]
    assert [shot[4] for shot in shots(**of_all)] == [0.8, 1.0, 0.6, 1.0]
    assert [shot[0] for shot in shots(**of_all, **{"method.kind": "full"})] == ["a", "c"]


def test_strengths_are_a_list_of_numbers():
    for wrong in ("0.5 x", "nan", "101", " ".join(map(str, range(11)))):
        with pytest.raises(ProblemsError, match=r'Expected at most 10 numbers .* "0.6, 0.8, 1"'):
            shots(**{"sampling.strengths": wrong})


def test_prompts_of_a_file_follow_in_the_training_resolution(tmp_path):
    file = tmp_path / "p.txt"
    file.write_text("d --w 256 --s 3\n")
    changes = {"sampling.prompts": PROMPTS[:1], "data.resolution": 640}
    config = resolve(document_of(changes | {"sampling.file": str(file)}), source="")
    last = all_shots(config)[-1]
    assert [shot.title for shot in all_shots(config)] == ["a", "d"]
    assert (last.prompt.width, last.prompt.height, last.steps) == (256, 640, 3)
    assert config.sampling.has_prompts
    file.write_text("# none\n")
    (problem,) = [one for one in check_environment(config) if one.path == "sampling.file"]
    assert problem.severity == "error"
    file.unlink()
    (problem,) = [one for one in check_environment(config) if one.path == "sampling.file"]
    assert "file not found" in problem.what


def test_an_inpainting_sample_needs_its_image_and_its_mask(tmp_path):
    def paths(**prompt):
        changes = {
            "model.family": "sd15-inpainting",
            "sampling.prompts": [{"prompt": "a"} | prompt],
        }
        config = resolve(document_of(changes), source="")
        found = [*check_rules(config), *check_environment(config)]
        return [one.path for one in found if one.path.startswith("sampling.prompts.")]

    assert paths() == []
    assert paths(image=__file__) == ["sampling.prompts.0.mask"]
    assert paths(image=__file__, mask=str(tmp_path / "none.png")) == ["sampling.prompts.0.mask"]
    assert paths(image=__file__, mask=__file__) == []


def test_images_and_masks_of_a_prompt_file_are_checked_before_the_start(tmp_path):
    file = tmp_path / "p.json"

    def found(family, **prompt):
        file.write_text(json.dumps([{"prompt": "a"}, {"prompt": "b"} | prompt]))
        changes = {"model.family": family, "sampling.file": str(file)}
        problems = check_environment(resolve(document_of(changes), source=""))
        return [f"{one.severity}: {one.what}" for one in problems if one.path == "sampling.file"]

    both = {"image": __file__, "mask": __file__}
    assert found("sd15-inpainting", **both) == []
    assert found("sd15-inpainting", **both, use=False) == []
    assert found("sd15-inpainting", mask=__file__) == ["error: prompt 2: the image is missing"]
    none = f"error: prompt 2: {tmp_path / 'none.png'}: there is no such file"
    assert found("sd15-inpainting", **both | {"image": "none.png"}) == [none]
    assert found("sd15", **both) == ["warning: prompt 2: its image and mask are not used"]
