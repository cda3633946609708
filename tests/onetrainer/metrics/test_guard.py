"""The guard: bands against numpy; how often it is wrong, and right, by simulation."""

import math

import numpy as np
import pytest

from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics import guard
from onetrainer.metrics.bands import student_quantile
from onetrainer.metrics.guard import EvaluationResult, ScoredImage, judge, reward_stats
from onetrainer.run.wire import decode_event, encode_event
from tests.each import each

TRAINED = {"sharpness": 1.0}
MONITORED = {"aesthetic": 1.0}


def evaluation(step, sharpness, aesthetic, **drift):
    """Two images of each prompt, whose scores are those of the prompt ± 0.1."""
    images = [
        ScoredImage(
            prompt=f"prompt {number}",
            seed=seed,
            path=f"rewards/step-{step:06d}/{number}-{seed}.jpg",
            rewards={"sharpness": sharp + around, "aesthetic": pretty - around},
            total=2 * (sharp + around),
        )
        for number, (sharp, pretty) in enumerate(zip(sharpness, aesthetic, strict=True))
        for seed, around in enumerate((-0.1, 0.1))
    ]
    return EvaluationResult(step, tuple(images), drift)


def judged(evaluations, *, trained=TRAINED, monitored=MONITORED, **settings):
    return judge(evaluations, trained=trained, monitored=monitored, settings=Evaluation(**settings))


def around(mean):
    """Four prompts' scores that differ by thousandths, so that bands are narrow but there."""
    return [mean - 0.001, mean, mean + 0.001, mean + 0.002]


def rising(step, sharpness, least):
    """An evaluation with the lowest aesthetic score given; the others are close to it."""
    return evaluation(step, around(sharpness), [least + more for more in (0, 0.01, 0.03, 0.02)])


BASE = evaluation(0, around(0.5), around(5.0))
GOOD, BETTER = rising(5, 0.6, 5.1), rising(10, 0.7, 5.2)
BAD, WORSE = rising(15, 0.8, 4.5), rising(20, 0.9, 4.2)
HACKED = [BASE, GOOD, BETTER, BAD, WORSE]


def test_bands_are_of_prompts_means_and_of_images_where_there_are_two_prompts():
    scores = [0.3, 0.5, 0.1, 0.9]
    found = judged([evaluation(0, scores, [5, 5, 5, 5])])
    expected = student_quantile(3) * np.std(scores, ddof=1) / 2
    assert found.rewards["sharpness"]["mean"] == pytest.approx(np.mean(scores))
    assert found.rewards["sharpness"]["error"] == pytest.approx(expected)
    assert (found.reward, found.error) == pytest.approx((0.9, 2 * expected))
    of_two = judged([evaluation(0, [0.3, 0.5], [5, 5])])
    expected = student_quantile(3) * np.std([0.2, 0.4, 0.4, 0.6], ddof=1) / 2
    assert of_two.rewards["sharpness"]["error"] == pytest.approx(expected)


def test_differences_to_the_base_are_paired():
    before, after = [0.3, 0.5, 0.1, 0.9], [0.41, 0.6, 0.21, 0.99]
    found = judged([evaluation(0, before, [5] * 4), evaluation(5, after, [5] * 4)])
    reported, changes = found.rewards["sharpness"], np.subtract(after, before)
    assert reported["since_base"] == pytest.approx(np.mean(changes))
    expected = student_quantile(3) * np.std(changes, ddof=1) / 2
    assert reported["since_base_error"] == pytest.approx(expected)
    assert reported["error"] > 5 * expected


@each(
    ("evaluations", "verdict", "best_step", "message"),
    [
        (
            [BASE],
            *("first", 0),
            "Later evaluations are compared with these scores before training.",
        ),
        (
            [BASE, GOOD],
            *("improving", 5),
            "Sharpness rose by 0.1 since the base: still improving; the aesthetic score, which is"
            " not trained, is better too.",
        ),
        (
            HACKED[:4],
            *("improving", 10),
            "Sharpness rose by 0.3 since the base, but the aesthetic score, which is not trained,"
            " fell by 0.49; the next evaluations will show more.",
        ),
        (
            HACKED,
            *("hacking", 10),
            "Sharpness rose by 0.4 since the base, but the aesthetic score, which is not trained,"
            " fell by 0.79: the model seems to have found a way to exploit the reward. The best"
            " weights are those of step 10. The run stops here.",
        ),
        (  # below its own best, though above the base
            [BASE, BETTER, rising(15, 0.8, 5.1), rising(20, 0.8, 5.1)],
            *("hacking", 10),
            "Sharpness rose by 0.3 since the base, but the aesthetic score, which is not trained,"
            " fell by 0.1 since step 10: the model seems to have found a way to exploit the reward."
            " The best weights are those of step 10. The run stops here.",
        ),
        (
            [BASE, BAD, WORSE],
            *("hacking", 0),
            "Sharpness rose by 0.4 since the base, but the aesthetic score, which is not trained,"
            " fell by 0.79: the model seems to have found a way to exploit the reward. None are"
            " better than those before training. The run stops here.",
        ),
        (  # no gain, so no hacking
            [BASE, *(rising(step, 0.5, 4.2) for step in (5, 10, 15))],
            *("flat", 0),
            "No significant change of the trained rewards since the base, and the aesthetic score,"
            " which is not trained, fell by 0.79; the learning rate may be too high.",
        ),
    ],
)
def test_the_verdict_and_its_message(evaluations, verdict, best_step, message):
    found = judged(evaluations)
    assert (found.verdict, found.best_step) == (verdict, best_step)
    assert found.is_best == (best_step == found.step)
    assert found.stops == (verdict == "hacking")
    assert found.message == message
    assert (found.rewards["aesthetic"]["since_base"] is None) == (verdict == "first")
    assert [found.rewards[name]["trained"] for name in ("sharpness", "aesthetic")] == [1.0, 0.0]


@each(
    ("settings", "verdict", "stops", "best"),
    [
        ({"guard": "warn"}, "hacking", False, 10),
        ({"guard": "off"}, "improving", False, 20),
        ({"patience": 3}, "improving", False, 10),
        ({"patience": 1}, "hacking", True, 10),
    ],
)
def test_the_settings_decide_what_hacking_does(settings, verdict, stops, best):
    found = judged(HACKED, **settings)
    assert (found.verdict, found.stops, found.best_step) == (verdict, stops, best)
    assert found.message.endswith(" The run stops here.") == stops


def test_a_clean_evaluation_between_ends_the_row_and_what_was_suspicious_is_never_the_best():
    found = judged([BASE, GOOD, BAD, rising(20, 0.75, 5.2), rising(25, 0.8, 4.5)])
    assert (found.verdict, found.best_step) == ("flat", 20)
    assert judged([BASE, GOOD, BAD, rising(20, 0.75, 5.2)]).is_best


def test_of_a_weight_below_zero_a_rise_is_the_harm():
    monitored = {"aesthetic": -1.0}
    found = judged([BASE, rising(5, 0.65, 5.5), rising(10, 0.7, 5.5)], monitored=monitored)
    assert found.verdict == "hacking"
    assert "which is not trained and should be low, rose by 0.51:" in found.message
    assert judged(HACKED, monitored=monitored).verdict == "improving"


def test_of_two_prompts_a_fall_is_reported_and_does_not_end_the_run():
    base, bad, worse = (
        evaluation(step, [sharp, sharp + 0.001], [pretty, pretty + 0.01])
        for step, sharp, pretty in ((0, 0.5, 5.0), (5, 0.8, 4.0), (10, 0.9, 3.0))
    )
    found = judged([base, bad, worse])
    assert (found.verdict, found.stops) != ("hacking", True)
    assert "fell by 2" in found.message
    alike = [
        EvaluationResult(one.step, one.images, {"variety": 1 - one.step / 10})
        for one in (base, bad, worse)
    ]
    assert judged(alike).verdict == "hacking"


def test_a_fall_that_is_small_against_the_spread_is_no_harm_however_sure():
    wide = np.array([3.0, 5.0, 7.0, 9.0])
    spread = reward_stats(evaluation(0, around(0.5), wide))["aesthetic"][1]

    def fallen(by):
        fall = by * spread
        steps = ((0, 0.5, 0), (5, 0.7, fall), (10, 0.8, fall))
        return judged([evaluation(step, around(sharp), wide - less) for step, sharp, less in steps])

    assert fallen(0.19).verdict != "hacking"
    assert fallen(0.21).verdict == "hacking"


def test_too_little_diversity_is_hacking():
    base = evaluation(0, around(0.5), around(5.0), diversity=0.2, contrast=0.0, distance=0.0)
    alike = [
        evaluation(step, around(0.6), around(5.0), diversity=0.11, contrast=0.3, distance=0.25)
        for step in (5, 10)
    ]
    found = judged([base, *alike])
    assert found.verdict == "hacking"
    assert "images of one prompt have become similar (diversity is 55 % of that of" in found.message
    assert found.drift == pytest.approx({"diversity": 0.55, "distance": 0.25})  # contrast has none
    assert judged([base, *alike], min_diversity=0.5).verdict == "flat"


@each(
    ("contrast", "words"),
    [
        (0.29, " Contrast is 45 % above that of the base."),
        (0.11, " Contrast is 45 % below that of the base."),
        (0.27, ""),
        (0.13, ""),
    ],
)
def test_images_that_drift_are_reported(contrast, words):
    base = evaluation(0, around(0.5), around(5.0), contrast=0.2, saturation=0.4)
    found = judged(
        [base, evaluation(5, around(0.6), around(5.0), contrast=contrast, saturation=0.4)]
    )
    assert found.message == (
        "Sharpness rose by 0.1 since the base: still improving; the monitored rewards have not"
        " changed significantly." + words
    )


def test_several_trained_rewards_are_reported_together():
    found = judged([BASE, GOOD], trained={"sharpness": 1.0, "aesthetic": 1.0}, monitored={})
    assert found.message == (
        "The trained rewards together rose by 0.2 since the base: still improving."
    )


def test_scores_that_are_no_numbers_are_reported_and_passed_over():
    broken = evaluation(10, [math.nan, 0.5, 0.5, 0.5], around(5.0))
    found = judged([BASE, GOOD, broken])
    assert (found.verdict, found.best_step, found.is_best) == ("flat", 5, False)
    assert found.message == (
        "Some scores are not numbers (sharpness), so there is no verdict on this evaluation."
    )
    later = judged([BASE, GOOD, broken, BAD, WORSE])
    assert (later.verdict, later.best_step) == ("hacking", 5)
    assert judged([broken]).verdict == "first"


def test_scores_that_are_infinite_in_both_directions_are_passed_over_too():
    broken = evaluation(10, [math.inf, -math.inf, 0.5, 0.5], around(5.0))
    found = judged([BASE, GOOD, broken])
    assert (found.verdict, found.best_step, found.is_best) == ("flat", 5, False)
    assert math.isnan(found.reward)
    assert "Some scores are not numbers (sharpness)" in found.message


def test_the_event_survives_a_line_of_json():
    event = judged([BASE, evaluation(20, around(0.9), around(4.2), contrast=0.2)])
    assert decode_event(encode_event(event, time=1.0)) == event
    assert event.images[3] == {
        "path": "rewards/step-000020/1-1.jpg",
        "prompt": "prompt 1",
        "seed": 1,
        "rewards": pytest.approx({"sharpness": 1.0, "aesthetic": 4.1, "": 2.0}),
    }


def test_stats_are_the_mean_and_the_spread_over_images():
    stats = reward_stats(evaluation(0, [0.3, 0.5], [5.0, 5.0]))
    images = [0.2, 0.4, 0.4, 0.6]
    assert stats["sharpness"] == pytest.approx((0.4, np.std(images, ddof=1)))
    broken = evaluation(0, [math.nan, 0.5], [5, 5])
    assert reward_stats(broken)["sharpness"][0] == pytest.approx(0.5)


def first_hacking(seed, fall):
    """Which of 20 evaluations of 6 prompts is called hacking first, or None; the reward rises.

    The monitored reward varies with the image (deviation 1) and from evaluation to evaluation with
    the prompt (0.5), about a mean that falls by `fall` from one evaluation to the next.
    """
    random = np.random.default_rng(seed)
    own = random.normal(20, 3, (6, 3))
    evaluations = []
    for step in range(21):
        scores = own - fall * step + random.normal(0, 1, (6, 3)) + random.normal(0, 0.5, (6, 1))
        images = [
            ScoredImage(str(prompt), number, "", {"aesthetic": score}, step + prompt / 10)
            for prompt, row in enumerate(scores.tolist())
            for number, score in enumerate(row)
        ]
        evaluations.append(EvaluationResult(step, tuple(images)))
    found = guard._findings(evaluations, monitored=MONITORED, settings=Evaluation())
    flags = [one.is_suspicious for one in found]
    return next((step for step in range(1, 21) if flags[step] and flags[step - 1]), None)


@pytest.mark.parametrize("seeds", [15, pytest.param(150, marks=pytest.mark.long)])
def test_chance_alone_is_seldom_called_hacking(seeds):
    false = sum(first_hacking(seed, 0.0) is not None for seed in range(seeds))
    assert false <= 0.12 * seeds  # 6 % are; of 150, three standard deviations of the count more


def test_a_true_fall_is_found():
    """Of 0.15 of an image's deviation from one evaluation to the next: at the ninth, as a rule."""
    found = [first_hacking(seed, 0.15) for seed in range(8)]
    assert None not in found
    assert 5 <= np.median(found) <= 12
