"""Rules of reward training."""

from onetrainer.errors import Fix
from tests.each import each
from tests.onetrainer.rules.rule_cases import check, reported

TRAINED, WATCHED = {"reward": "color"}, {"reward": "contrast", "train": False}
SOUND = {
    "data.folder": "",
    "objective.kind": "alignprop",
    "objective.rewards": [TRAINED, WATCHED],
    "objective.prompts.text": "a cat\na dog\na fox\na hen",
}


def rewards(*listed):
    return {"objective.rewards": list(listed)}


def algorithm(kind, **settings):
    own = {f"objective.algorithm.{name}": value for name, value in settings.items()}
    return {"objective.algorithm.kind": kind} | own


STORED = {"objective.rollout.checkpoint": False}
SIZE, OWN = {"reward": "jpeg_size"}, {"reward": "function", "function": "own.py:mine"}


@each(
    "case",
    [
        ({},),
        (rewards(), "error objective.rewards"),
        (rewards(WATCHED), "error objective.rewards.0.train"),
        (rewards(TRAINED), "warning objective.rewards"),
        (rewards(TRAINED | {"weight": 0.0}, WATCHED), "error objective.rewards.0.weight"),
        (rewards(SIZE, WATCHED), "error objective.rewards.0.reward"),
        (rewards(SIZE, WATCHED) | algorithm("best_of_n"),),
        (rewards(TRAINED, SIZE | {"train": False}),),
        (rewards(OWN, WATCHED, TRAINED), "error objective.rewards.0.reward"),
        # Files that are not chosen.
        (rewards({"reward": "pickscore"}, WATCHED), "error objective.rewards.0.model"),
        (rewards({"reward": "aesthetic", "model": "x"}, WATCHED), "error objective.rewards.0.head"),
        (rewards(TRAINED, {"reward": "reference", "train": False}),
         "error objective.rewards.1.folder"),
        (rewards(TRAINED, OWN | {"train": False, "function": "x"}),
         "error objective.rewards.1.function"),
        # Steps with a gradient.
        (algorithm("draft", last_steps=21), "error objective.algorithm.last_steps"),
        (algorithm("alignprop", through="fixed", last_steps=21),
         "error objective.algorithm.last_steps"),
        (algorithm("alignprop", min_fraction=0.6, max_fraction=0.5),
         "error objective.algorithm.min_fraction"),
        (algorithm("alignprop", through="all"), "warning objective.algorithm.through"),
        (algorithm("drtune", trained_steps=21), "error objective.algorithm.trained_steps"),
        (algorithm("refl", earliest=0.9, latest=0.9), "error objective.algorithm.earliest"),
        (algorithm("best_of_n", candidates_per_prompt=4, kept_per_prompt=5),
         "error objective.algorithm.kept_per_prompt"),
        (algorithm("best_of_n") | {"objective.keep.anchor": 1.0}, "warning objective.keep.anchor"),
        (STORED, "warning objective.rollout.checkpoint"),
        (STORED | algorithm("draft", last_steps=2), "warning objective.rollout.checkpoint"),
        *[(STORED | algorithm(kind),) for kind in ("best_of_n", "refl", "draft")],
        # Prompts, and images that are needed as well.
        ({"objective.prompts.text": " \n "}, "error objective.prompts.text"),
        ({"objective.prompts.source": "file"}, "error objective.prompts.file"),
        ({"objective.prompts.source": "captions"}, "error data.folder"),
        ({"objective.keep.denoising_fraction": 0.1}, "error data.folder"),
        ({"validation.use": True}, "error data.folder"),
        ({"objective.evaluation.prompts": "a boat", "objective.evaluation.seeds": 2},
         "warning objective.evaluation.seeds"),
        # What other sections forbid.
        ({"model.family": "sd15-inpainting"}, "error model.family"),
        ({"optimizer.kind": "adafactor", "optimizer.fused_backward": True,
          "training.gradient_clipping": 0.0, "schedule.warmup_steps": 100},
         "error optimizer.fused_backward"),
        ({"method.kind": "vae", "optimizer.lr": 1e-5},
         "error objective.kind | value='reconstruction'"),
        ({"method.text_encoders.te1.train": True}, "warning data.cache_text"),
    ],
)  # fmt: skip
def test_reward_training_is_checked(case):
    check(SOUND | case[0], *case[1:])


def test_a_function_without_a_gradient_has_three_fixes():
    problem = reported(SOUND | rewards(OWN, WATCHED, TRAINED))["objective.rewards.0.reward"]
    assert Fix("objective.rewards.0.has_gradient", True) in problem.choices
    assert len(problem.choices) == 3


def test_the_size_of_images_counts_only_where_some_are_trained():
    base = SOUND | {"model.family": "sdxl", "data.folder": "/a", "sampling.prompts": []}
    size = {"objective.rollout.width": 1024, "objective.rollout.height": 1024}
    check(base, "warning objective.rollout.width")
    check(base | size)
    check(base | size | {"objective.keep.denoising_fraction": 0.1}, "warning data.resolution")
