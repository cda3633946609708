import pytest

from onetrainer.errors import UserError
from tests.each import each
from ui.model.draft import Draft
from ui.model.trial import TrialLora, trial_folder, trial_request

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
    request = trial_request(draft, TYPED, loras, is_grid=False)
    assert request.prompts == ("a red cat in the rain",)
    assert request.seeds == (7, 8)
    assert (request.width, request.height, request.guidance) == (512, 768, 6.5)
    assert [(lora.path, lora.strength) for lora in request.loras] == [
        ("cat.safetensors", 0.8),
        ("style.safetensors", 1.0),
    ]
    assert request.clip_skip == 2
    assert request.out == str(trial_folder(draft)) == str(tmp_path / "tried")


def test_in_a_grid_each_line_is_a_prompt(draft):
    request = trial_request(draft, TYPED, [], is_grid=True)
    assert request.prompts == ("a red cat", "in the rain")
    assert request.grid


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
        trial_request(draft, TYPED | {name: text}, [], is_grid=False)
    assert str(raised.value).startswith(what)


def test_a_model_is_needed(draft):
    draft.set("model.path", "")
    with pytest.raises(UserError, match="no base model"):
        trial_request(draft, TYPED, [], is_grid=False)
