import json

import pytest

from onetrainer.errors import UserError
from tests.each import each
from ui.model.draft import Draft
from ui.model.trial import (
    TrialAxis,
    TrialLora,
    axis_choices,
    trial_folder,
    trial_request,
    usual_prompt,
    usual_values,
)

TYPED = {
    "prompt": "a red cat\nin the rain", "negative": "", "width": "512", "height": "768",
    "seed": "7", "count": "2", "steps": "20", "guidance": "6.5", "sampler": "ddim",
}  # fmt: skip


@pytest.fixture
def draft(tmp_path):
    made = Draft()
    made.set("model.path", str(tmp_path / "model.safetensors"))
    made.set("output.folder", str(tmp_path / "runs"))
    return made


def test_a_request_has_what_was_typed_and_the_models_own_settings(draft, tmp_path):
    draft.set("model.clip_skip", 2)
    loras = [TrialLora("cat.safetensors", "0,8"), TrialLora("style.safetensors")]
    request = trial_request(draft, TYPED, loras)
    assert request.prompts == ("a red cat in the rain",)
    assert request.seeds == (7, 8)
    assert (request.width, request.height, request.guidance) == (512, 768, 6.5)
    assert [(lora.path, lora.strength) for lora in request.loras] == [
        ("cat.safetensors", 0.8),
        ("style.safetensors", 1.0),
    ]
    assert request.clip_skip == 2
    assert request.out == str(trial_folder(draft)) == str(tmp_path / "tried")


def test_a_grid_varies_two_settings_with_values_as_people_type_them(draft, tmp_path):
    x, y = TrialAxis("prompt", "each line of the prompt"), TrialAxis("negative", "blur, noise | ")
    request = trial_request(draft, TYPED | {"count": "1"}, [], x=x, y=y)
    assert request.x.values == ("a red cat", "in the rain")
    assert request.y.values == ("blur, noise",)
    lora = TrialLora(str(tmp_path / "style.safetensors"))
    x = TrialAxis("lora", "style.safetensors, other.safetensors")
    request = trial_request(draft, TYPED | {"count": "1"}, [lora], x=x)
    assert request.x.values == (lora.path, str(tmp_path / "other.safetensors"))
    with pytest.raises(UserError, match="Guidance: the grid has no values"):
        trial_request(draft, TYPED | {"count": "1"}, [], x=TrialAxis("guidance", " , "))
    with pytest.raises(UserError, match="one prompt and one seed"):
        trial_request(draft, TYPED, [], x=TrialAxis("guidance", "3"))


def test_what_a_grid_can_vary_follows_from_the_loras(tmp_path):
    plain = ["Prompt", "Negative prompt", "Seed", "Size", "Steps", "Guidance", "Sampler"]
    assert [*axis_choices([])] == plain
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "events.jsonl").write_text("")
    run, file = TrialLora(str(tmp_path), step=20), TrialLora("style.safetensors")
    assert [*axis_choices([run])][7:] == ["LoRA strength", "LoRA", "Step of the run"]
    choices = axis_choices([file, run])
    assert choices["LoRA strength of style"] == ("strength", 1)
    assert choices[f"Step of the run {tmp_path.name}-20"] == ("step", 2)
    assert usual_values("seed", None, TYPED) == "7-10"
    assert usual_values("size", None, TYPED) == "512x768, 768x512"


@each(
    ("name", "text", "what"),
    [
        ("prompt", " \n", "There is no prompt"),
        ("count", "none", "Images: “none” is no whole number"),
        ("count", "65", "Images: 65"),
        ("seed", "-1", "Seed: “-1” is no whole number"),
        ("width", "500", "Width: "),
        ("steps", "", "Sampling steps: "),
        ("guidance", "inf", "Guidance: "),
    ],
)
def test_a_wrong_value_is_named_by_its_label(draft, name, text, what):
    with pytest.raises(UserError) as raised:
        trial_request(draft, TYPED | {name: text}, [])
    assert str(raised.value).startswith(what)


def test_a_model_is_needed(draft):
    draft.set("model.path", "")
    with pytest.raises(UserError, match="no base model"):
        trial_request(draft, TYPED, [])


@each(
    ("config", "prompt"),
    [
        ([{"prompt": "old", "use": False}, {"prompt": ""}, {"prompt": "ohwx cat"}], "ohwx cat"),
        ([], "ohwx"),
    ],
)
def test_a_runs_lora_has_its_first_sample_prompt_or_its_trigger_words(tmp_path, config, prompt):
    document = {"sampling": {"prompts": config}, "data": {"trigger": "ohwx"}}
    (tmp_path / "config.json").write_text(json.dumps(document))
    assert usual_prompt(tmp_path / "output" / "cat.safetensors") == prompt
    assert usual_prompt(tmp_path / "loras" / "cat.safetensors") == ""
    (tmp_path / "config.json").write_text("{}")
    assert usual_prompt(tmp_path / "output" / "cat.safetensors") == ""
