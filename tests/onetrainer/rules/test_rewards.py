"""Rules of reward training: errors and warnings."""

from onetrainer.errors import Fix
from onetrainer.presets.presets import resolve, with_value
from onetrainer.rules.rewards import problems
from onetrainer.rules.rules import check_rules
from tests.each import each

WARMER = {"reward": "color"}
MONITORED = {"reward": "contrast", "train": False}
SOUND = {
    "kind": "alignprop",
    "rewards": [WARMER, MONITORED],
    "prompts": {"text": "a cat\na dog\na fox\na hen"},
}


def document(base=None, **changes):
    made = {"model": {"path": "base"}, "objective": SOUND} | (base or {})
    for path, value in changes.items():
        made = with_value(made, f"objective.{path.replace('__', '.')}", value)
    return made


def reported(base=None, **changes):
    """Return the problems of a config by path."""
    config = resolve(document(base, **changes), source="test")
    found = list(problems(config))
    assert all(problem in check_rules(config) for problem in found)
    return {problem.path: problem for problem in found}


def test_a_sound_config_needs_no_images():
    assert reported() == {}
    assert check_rules(resolve(document(), source="test")) == []


@each(
    ("changes", "path"),
    [
        ({"rewards": []}, "objective.rewards"),
        ({"rewards": [MONITORED]}, "objective.rewards.0.train"),
        ({"rewards": [WARMER | {"weight": 0.0}, MONITORED]}, "objective.rewards.0.weight"),
        ({"rewards": [{"reward": "jpeg_size"}, MONITORED]}, "objective.rewards.0.reward"),
        ({"rewards": [{"reward": "pickscore"}, MONITORED]}, "objective.rewards.0.model"),
        ({"rewards": [{"reward": "aesthetic", "model": "x"}, MONITORED]},
         "objective.rewards.0.head"),
        ({"rewards": [WARMER, {"reward": "reference", "train": False}]},
         "objective.rewards.1.folder"),
        ({"rewards": [WARMER, {"reward": "function", "train": False, "function": "x"}]},
         "objective.rewards.1.function"),
        ({"algorithm": {"kind": "draft", "last_steps": 21}}, "objective.algorithm.last_steps"),
        ({"algorithm": {"kind": "alignprop", "through": "fixed", "last_steps": 21}},
         "objective.algorithm.last_steps"),
        ({"algorithm": {"kind": "drtune", "trained_steps": 21}},
         "objective.algorithm.trained_steps"),
        ({"algorithm": {"kind": "alignprop", "min_fraction": 0.6, "max_fraction": 0.5}},
         "objective.algorithm.min_fraction"),
        ({"algorithm": {"kind": "refl", "earliest": 0.9, "latest": 0.9}},
         "objective.algorithm.earliest"),
        ({"algorithm": {"kind": "best_of_n", "candidates_per_prompt": 4, "kept_per_prompt": 5}},
         "objective.algorithm.kept_per_prompt"),
        ({"prompts__text": " \n "}, "objective.prompts.text"),
        ({"prompts__source": "file"}, "objective.prompts.file"),
        ({"prompts__source": "captions"}, "data.folder"),
        ({"keep__denoising_share": 0.1}, "data.folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_setting(changes, path):
    found = reported(**changes)
    assert [(one, problem.severity) for one, problem in found.items()] == [(path, "error")]


@each(
    "base",
    [
        {"model": {"path": "base", "family": "sd15-inpainting"}},
        {"optimizer": {"kind": "adafactor", "fused_backward": True}},
        {"validation": {"use": True}},
    ],
)
def test_what_other_sections_forbid_is_refused(base):
    errors = [one for one in reported(base).values() if one.severity == "error"]
    assert len(errors) == 1


def test_a_vae_cannot_be_trained_by_rewards():
    config = resolve(document({"method": {"kind": "vae"}}), source="test")
    errors = [one for one in check_rules(config) if one.severity == "error"]
    assert [one.fix for one in errors] == [Fix("objective.kind", "reconstruction")]


@each(
    ("base", "changes", "path"),
    [
        (None, {"rewards": [WARMER]}, "objective.rewards"),
        (None, {"algorithm": {"kind": "alignprop", "through": "all"}},
         "objective.algorithm.through"),
        (None, {"algorithm": {"kind": "best_of_n"}, "keep__anchor": 1.0},
         "objective.keep.anchor"),
        (None, {"evaluation__prompts": "a boat", "evaluation__seeds": 2},
         "objective.evaluation.seeds"),
        ({"model": {"path": "base", "family": "sdxl"}}, {}, "objective.rollout.width"),
        ({"method": {"kind": "lora", "text_encoder": {"train": True}}}, {}, "data.cache_text"),
        (None, {"rollout__checkpoint": False}, "objective.rollout.checkpoint"),
        (None, {"rollout__checkpoint": False, "algorithm": {"kind": "draft", "last_steps": 2}},
         "objective.rollout.checkpoint"),
    ],
)  # fmt: skip
def test_what_is_unwise_is_warned_of(base, changes, path):
    found = reported(base, **changes)
    assert [(one, problem.severity) for one, problem in found.items()] == [(path, "warning")]


@each(
    "algorithm",
    [{"kind": "best_of_n"}, {"kind": "refl"}, {"kind": "draft"}],
)
def test_of_a_single_trained_step_there_is_nothing_to_checkpoint(algorithm):
    assert reported(rollout__checkpoint=False, algorithm=algorithm) == {}


def test_a_reward_without_gradient_is_fine_with_best_of_n_and_when_monitored():
    size = {"reward": "jpeg_size"}
    assert reported(algorithm={"kind": "best_of_n"}, rewards=[size, MONITORED]) == {}
    assert reported(rewards=[WARMER, size | {"train": False}]) == {}


def test_each_fix_of_a_function_without_a_gradient_fixes():
    own = {"reward": "function", "function": "own.py:mine"}
    made = document(rewards=[own, MONITORED, {"reward": "color"}])
    (problem,) = problems(resolve(made, source="test"))
    assert len(problem.choices) == 3
    for fix in problem.choices:
        fixed = resolve(with_kind_or_value(made, fix), source="test")
        assert list(problems(fixed)) == [], fix


def with_kind_or_value(made, fix):
    if fix.path == "objective.algorithm.kind":
        return with_value(made, "objective.algorithm", {"kind": fix.value})
    return with_value(made, fix.path, fix.value)


def test_fixes_fix():
    made = document(algorithm={"kind": "draft", "last_steps": 30})
    (problem,) = problems(resolve(made, source="test"))
    fixed = with_value(made, problem.fix.path, problem.fix.value)
    assert list(problems(resolve(fixed, source="test"))) == []


def test_the_size_of_images_counts_only_where_some_are_trained():
    base = {"model": {"path": "base", "family": "sdxl"}, "data": {"folder": "pictures"}}
    size = {"rollout": {"width": 1024, "height": 1024}}
    places = [
        [one.path for one in check_rules(resolve(document(base, **size, **more), source="test"))]
        for more in ({}, {"keep__denoising_share": 0.1})
    ]
    assert places == [[], ["data.resolution"]]
