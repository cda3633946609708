"""Which prompts are for training and which for validation, and what the preview says of them."""

import pytest
from PIL import Image

from onetrainer.checks.dataset import check_images
from onetrainer.checks.rewards import check_rewards
from onetrainer.checks.user_code import check_user_code
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve
from onetrainer.rewards.prompts import prompts_of
from tests.each import each

ANIMALS = [f"a photo of animal {number}" for number in range(20)]


def config(seed=0, rewards=(), evaluation=None, **prompts):
    objective = {
        "kind": "alignprop",
        "rewards": list(rewards) or [{"reward": "color"}],
        "prompts": prompts or {"text": "\n".join(ANIMALS)},
        "evaluation": evaluation or {},
    }
    return resolve({"objective": objective, "training": {"seed": seed}}, source="test")


def test_a_fraction_is_validation_and_not_trained():
    split = prompts_of(config())
    assert len(split.validation) == 4
    assert sorted(split.trained + split.validation) == sorted(ANIMALS)
    assert split.both == ()


def test_validation_split_depends_on_prompts_and_seed_alone():
    turned = config(text="\n".join(reversed(ANIMALS)))
    assert set(prompts_of(turned).validation) == set(prompts_of(config()).validation)
    assert set(prompts_of(config(seed=1)).validation) != set(prompts_of(config()).validation)
    more = config(text="\n".join([*ANIMALS, "a photo of a boat"]))
    assert len(set(prompts_of(more).validation) - set(prompts_of(config()).validation)) <= 1


def test_written_ones_are_validation_and_all_others_trained():
    split = prompts_of(config(evaluation={"prompts": "a boat\n\n a car "}))
    assert split.validation == ("a boat", "a car")
    assert split.trained == tuple(ANIMALS)


def test_a_single_prompt_is_both():
    split = prompts_of(config(text="a cat\na cat\n"))
    assert (split.trained, split.validation, split.both) == (("a cat",),) * 3


@each(
    "prompts",
    [{"source": "file", "file": "nowhere.txt"}, {"text": " "}, {"text": "a " * 4001}],
)
def test_what_is_wrong_with_prompts_is_said(prompts):
    with pytest.raises(UserError):
        prompts_of(config(**prompts))


def test_what_is_wrong_before_the_start_is_said_at_its_setting(tmp_path):
    (tmp_path / "code.py").write_text("def mine(pictures, prompts):\n    return [0.0]\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    rewards = [
        {"reward": "aesthetic", "model": str(tmp_path), "head": str(tmp_path / "none.pth")},
        {"reward": "clip", "model": str(tmp_path / "none"), "train": False},
        {"reward": "reference", "folder": str(empty), "train": False},
        {"reward": "function", "function": f"{tmp_path / 'code.py'}:mine", "train": False},
    ]
    wrong = config(rewards=rewards, source="file", file="nowhere.txt")
    found = [*check_rewards(wrong), *check_user_code(wrong)]
    assert [problem.path for problem in found] == [
        "objective.rewards.0.head",
        "objective.rewards.1.model",
        "objective.rewards.2.folder",
        "objective.prompts.file",
        "objective.rewards.3.function",
    ]
    assert all(problem.severity == "error" for problem in found)


def test_watching_what_is_trained_is_warned_of():
    (problem,) = check_rewards(config(evaluation={"prompts": f"{ANIMALS[3]}\na boat"}))
    assert problem.severity == "warning"
    assert ANIMALS[3] in problem.what


def test_too_few_validation_prompts_are_warned_of():
    rewards = [{"reward": "color"}, {"reward": "contrast", "train": False}]
    fifteen = "\n".join(ANIMALS[:15])  # of which a fifth is three
    (problem,) = check_rewards(config(rewards=rewards, text=fifteen))
    assert (problem.path, problem.severity) == ("objective.evaluation.prompts", "warning")
    assert "only 3 prompts" in problem.what
    assert check_rewards(config(rewards=rewards)) == []
    off = config(rewards=rewards, text=fifteen, evaluation={"guard": "off"})
    assert check_rewards(off) == []


def token_config(**changes):
    document = {
        "objective": {"kind": "alignprop", "prompts": {"text": "a photo of a cat\na drawing"}},
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [{"token": "sksthing"}]},
    }
    return resolve(document | changes, source="test")


@pytest.mark.parametrize(
    ("method", "severity"), [({"kind": "embedding"}, "error"), ({"kind": "lora"}, "warning")]
)
def test_a_token_that_no_prompt_contains_is_reported(method, severity):
    (problem,) = [one for one in check_rewards(token_config(method=method)) if "token" in one.path]
    assert (problem.path, problem.severity) == ("embeddings.tokens.0.token", severity)
    assert "objective.prompts" in problem.remedy
    holding = {"kind": "alignprop", "prompts": {"text": "a sksthing\na photo of sksthing"}}
    assert not [
        one for one in check_rewards(token_config(objective=holding)) if "token" in one.path
    ]


def test_a_folder_whose_prompts_are_not_used_is_not_read(tmp_path):
    left = {"data": {"folder": str(tmp_path / "gone")}}
    assert check_images(token_config(**left)) == []
    read = {"kind": "alignprop", "prompts": {"source": "captions"}}
    (found,) = check_images(token_config(**left, objective=read))
    assert (found.path, found.severity) == ("data.folder", "error")


def test_prompts_are_the_captions_of_every_folder_to_train_on(tmp_path):
    for name in ("one", "two", "kept"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (64, 64)).save(tmp_path / name / "a.png")
        (tmp_path / name / "a.txt").write_text(f"a {name}")
    concepts = [
        {"folder": str(tmp_path / "two"), "trigger": "sks"},
        {"folder": str(tmp_path / "kept"), "role": "prior"},
    ]
    split = prompts_of(
        resolve(
            {
                "data": {"folder": str(tmp_path / "one"), "concepts": concepts},
                "objective": {"kind": "alignprop", "prompts": {"source": "captions"}},
            },
            source="test",
        )
    )
    assert sorted((*split.trained, *split.validation)) == ["a one", "sks, a two"]
