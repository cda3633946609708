"""The guard: bands against numpy; how often it is wrong, and right, by simulation."""

import math

import numpy as np
import pytest

from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics import reward_guard
from onetrainer.metrics.reward_guard import (
    EvaluationResult,
    ScoredImage,
    judge,
    relative_drift,
    reward_stats,
)
from onetrainer.metrics.validation import student_quantile
from onetrainer.run.wire import decode_event, encode_event

TRAINED = {"sharpness": 1.0}
WATCHED = {"aesthetic": 1.0}


def evaluation(step, sharpness, aesthetic, **drift):
    """Two pictures of each prompt, whose scores are those of the prompt ± 0.1."""
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


def judged(evaluations, *, trained=TRAINED, watched=WATCHED, **settings):
    return judge(evaluations, trained=trained, watched=watched, settings=Evaluation(**settings))


def around(mean):
    """Four prompts' scores that differ by thousandths, so that bands are narrow but there."""
    return [mean - 0.001, mean, mean + 0.001, mean + 0.002]


BASE = evaluation(0, around(0.5), around(5.0))
GOOD = evaluation(5, around(0.6), [5.1, 5.11, 5.13, 5.12])
BETTER = evaluation(10, around(0.7), [5.2, 5.21, 5.23, 5.22])
BAD = evaluation(15, around(0.8), [4.5, 4.51, 4.53, 4.52])
WORSE = evaluation(20, around(0.9), [4.2, 4.21, 4.23, 4.22])


def test_bands_are_those_of_the_prompts_means():
    scores = [0.3, 0.5, 0.1, 0.9]
    found = judged([evaluation(0, scores, [5, 5, 5, 5])])
    expected = student_quantile(3) * np.std(scores, ddof=1) / 2
    assert found.rewards["sharpness"]["mean"] == pytest.approx(np.mean(scores))
    assert found.rewards["sharpness"]["error"] == pytest.approx(expected)
    assert (found.reward.mean, found.reward.error) == pytest.approx((0.9, 2 * expected))


def test_differences_to_the_base_are_paired():
    before, after = [0.3, 0.5, 0.1, 0.9], [0.41, 0.6, 0.21, 0.99]
    told = judged([evaluation(0, before, [5] * 4), evaluation(5, after, [5] * 4)]).rewards[
        "sharpness"
    ]
    changes = np.subtract(after, before)
    assert told["since_base"] == pytest.approx(np.mean(changes))
    expected = student_quantile(3) * np.std(changes, ddof=1) / 2
    assert told["since_base_error"] == pytest.approx(expected)
    assert told["error"] > 5 * expected


def test_of_two_prompts_the_images_are_compared():
    found = judged([evaluation(0, [0.3, 0.5], [5, 5])])
    images = [0.2, 0.4, 0.4, 0.6]
    expected = student_quantile(3) * np.std(images, ddof=1) / 2
    assert found.rewards["sharpness"]["error"] == pytest.approx(expected)


def test_the_first_evaluation_has_nothing_to_be_compared_with():
    found = judged([BASE])
    assert (found.verdict, found.best_step, found.is_best, found.stops) == ("first", 0, True, False)
    assert found.rewards["aesthetic"]["since_base"] is None
    assert found.words == ("Later evaluations are compared with these scores before training.")


def test_both_rising_is_improving():
    found = judged([BASE, GOOD])
    assert (found.verdict, found.best_step, found.is_best) == ("improving", 5, True)
    assert found.words == (
        "Sharpness rose by 0.1 since the base: still improving; the aesthetic score, which is not"
        " trained, is better too."
    )
    assert [found.rewards[name]["trained"] for name in ("sharpness", "aesthetic")] == [1.0, 0.0]


def test_the_first_suspicious_evaluation_is_told_and_is_not_the_best():
    found = judged([BASE, GOOD, BETTER, BAD])
    assert (found.verdict, found.best_step, found.is_suspicious) == ("improving", 10, True)
    assert not found.is_best
    assert not found.stops
    assert found.words == (
        "Sharpness rose by 0.3 since the base, but the aesthetic score, which is not trained, fell"
        " by 0.49; the next evaluations will show more."
    )


def test_the_second_in_a_row_is_hacking_and_the_best_is_from_before():
    found = judged([BASE, GOOD, BETTER, BAD, WORSE])
    assert (found.verdict, found.best_step, found.stops) == ("hacking", 10, True)
    assert found.words == (
        "Sharpness rose by 0.4 since the base, but the aesthetic score, which is not trained, fell"
        " by 0.79: the model seems to have found a way to exploit the reward. The best weights"
        " are those of step 10. The run stops here."
    )


def test_a_fall_from_its_best_counts_though_it_is_above_the_base():
    fallen = [evaluation(step, around(0.8), [5.1, 5.11, 5.13, 5.12]) for step in (15, 20)]
    found = judged([BASE, BETTER, *fallen])
    assert (found.verdict, found.best_step) == ("hacking", 10)
    assert "fell by 0.1 since step 10:" in found.words


@pytest.mark.parametrize(
    ("settings", "verdict", "stops", "best"),
    [
        ({"guard": "warn"}, "hacking", False, 10),
        ({"guard": "off"}, "improving", False, 20),
        ({"patience": 3}, "improving", False, 10),
        ({"patience": 1}, "hacking", True, 10),
    ],
)
def test_the_settings_decide_what_hacking_does(settings, verdict, stops, best):
    found = judged([BASE, GOOD, BETTER, BAD, WORSE], **settings)
    assert (found.verdict, found.stops, found.best_step) == (verdict, stops, best)
    assert found.words.endswith(" The run stops here.") == stops


def test_a_clean_evaluation_between_ends_the_row_and_what_was_suspicious_is_never_the_best():
    calm = evaluation(20, around(0.75), [5.2, 5.21, 5.23, 5.22])
    later = evaluation(25, around(0.8), [4.5, 4.51, 4.53, 4.52])
    found = judged([BASE, GOOD, BAD, calm, later])
    assert (found.verdict, found.best_step) == ("flat", 20)
    assert judged([BASE, GOOD, BAD, calm]).is_best


def test_no_harm_is_called_hacking_unless_the_trained_reward_rose():
    damaged = [evaluation(step, around(0.5), [4.2, 4.21, 4.23, 4.22]) for step in (5, 10, 15)]
    found = judged([BASE, *damaged])
    assert (found.verdict, found.is_suspicious) == ("flat", False)
    assert found.words == (
        "No significant change of the trained rewards since the base, and the aesthetic score,"
        " which is not trained, fell by 0.79; the learning rate may be too high."
    )


def test_of_a_weight_below_zero_a_rise_is_the_harm():
    watched = {"aesthetic": -1.0}
    risen = [
        evaluation(step, around(0.6 + step / 100), [5.5, 5.51, 5.53, 5.52]) for step in (5, 10)
    ]
    found = judged([BASE, *risen], watched=watched)
    assert found.verdict == "hacking"
    assert "which is not trained and should be low, rose by 0.51:" in found.words
    assert judged([BASE, GOOD, BETTER, BAD, WORSE], watched=watched).verdict == "improving"


def test_of_two_prompts_a_fall_is_told_and_not_held_against_the_run():
    base, bad, worse = (
        evaluation(step, [sharp, sharp + 0.001], [pretty, pretty + 0.01])
        for step, sharp, pretty in ((0, 0.5, 5.0), (5, 0.8, 4.0), (10, 0.9, 3.0))
    )
    found = judged([base, bad, worse])
    assert (found.verdict == "hacking", found.is_suspicious, found.stops) == (False, False, False)
    assert "fell by 2" in found.words
    alike = [
        EvaluationResult(one.step, one.images, {"variety": 1 - one.step / 10})
        for one in (base, worse)
    ]
    assert judged(alike).is_suspicious


def test_a_fall_that_is_small_beside_the_spread_is_no_harm_however_sure():
    wide = np.array([3.0, 5.0, 7.0, 9.0])
    spread = reward_stats(evaluation(0, around(0.5), wide))["aesthetic"][1]

    def fallen(by):
        fall = by * spread
        steps = ((0, 0.5, 0), (5, 0.7, fall), (10, 0.8, fall))
        return judged([evaluation(step, around(sharp), wide - less) for step, sharp, less in steps])

    assert fallen(0.19).verdict != "hacking"
    assert fallen(0.21).verdict == "hacking"


def test_where_the_best_is_before_training_words_say_so():
    found = judged([BASE, BAD, WORSE])
    assert (found.verdict, found.best_step) == ("hacking", 0)
    assert "None are better than those before training." in found.words


def test_too_little_diversity_is_hacking():
    base = evaluation(0, around(0.5), around(5.0), diversity=0.2, contrast=0.0, distance=0.0)
    alike = [
        evaluation(step, around(0.6), around(5.0), diversity=0.11, contrast=0.3, distance=0.25)
        for step in (5, 10)
    ]
    found = judged([base, *alike])
    assert found.verdict == "hacking"
    assert "images of one prompt have become similar (diversity is 55 % of that of" in found.words
    assert found.drift == pytest.approx({"diversity": 0.55, "distance": 0.25})  # contrast has none
    assert judged([base, *alike], least_diversity=0.5).verdict == "flat"


@pytest.mark.parametrize(
    ("contrast", "words"),
    [
        (0.29, " Contrast is 45 % above that of the base."),
        (0.11, " Contrast is 45 % below that of the base."),
        (0.27, ""),
        (0.13, ""),
    ],
)
def test_images_that_drift_are_told_of(contrast, words):
    base = evaluation(0, around(0.5), around(5.0), contrast=0.2, saturation=0.4)
    found = judged(
        [base, evaluation(5, around(0.6), around(5.0), contrast=contrast, saturation=0.4)]
    )
    assert found.words == (
        "Sharpness rose by 0.1 since the base: still improving; the monitored rewards have not"
        " changed significantly." + words
    )


def test_several_trained_rewards_are_told_together():
    found = judged([BASE, GOOD], trained={"sharpness": 1.0, "aesthetic": 1.0}, watched={})
    assert found.words == (
        "The trained rewards together rose by 0.2 since the base: still improving."
    )


def test_scores_that_are_no_numbers_are_told_and_passed_over():
    broken = evaluation(10, [math.nan, 0.5, 0.5, 0.5], around(5.0))
    found = judged([BASE, GOOD, broken])
    assert (found.verdict, found.best_step, found.is_best) == ("flat", 5, False)
    assert found.words == (
        "Some scores are not numbers (sharpness), so there is no verdict on this evaluation."
    )
    later = judged([BASE, GOOD, broken, BAD, WORSE])
    assert (later.verdict, later.best_step) == ("hacking", 5)
    assert judged([broken]).verdict == "first"


def test_the_event_tells_all_of_it_through_a_line_of_json():
    newest = evaluation(20, around(0.9), around(4.2), contrast=0.2)
    event = judged([BASE, newest]).event(newest)
    assert decode_event(encode_event(event, time=1.0)) == event
    assert (event.step, event.best_step, event.verdict) == (20, 0, "improving")
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
    assert reward_stats(evaluation(0, [math.nan, 0.5], [5, 5]))["sharpness"][0] == pytest.approx(
        0.5
    )


def test_drift_is_relative_to_the_base():
    base = evaluation(0, [1], [1], diversity=0.2, saturation=0.5)
    found = relative_drift(
        evaluation(5, [1], [1], diversity=0.1, saturation=0.6, distance=0.3), base
    )
    assert found == pytest.approx({"diversity": 0.5, "saturation": 1.2, "distance": 0.3})


def first_hacking(seed, fall):
    """Which of 20 evaluations of 6 prompts is called hacking first, or None; the reward rises.

    The watched reward varies with the image (deviation 1) and from evaluation to evaluation with
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
    found = reward_guard._findings(evaluations, watched=WATCHED, settings=Evaluation())
    flags = [one.is_suspicious for one in found]
    return next((step for step in range(1, 21) if flags[step] and flags[step - 1]), None)


@pytest.mark.parametrize("seeds", [30, pytest.param(150, marks=pytest.mark.long)])
def test_chance_alone_is_seldom_called_hacking(seeds):
    false = sum(first_hacking(seed, 0.0) is not None for seed in range(seeds))
    assert false <= 0.12 * seeds  # 6 % are; of 150, three standard deviations of the count more


def test_a_true_fall_is_found():
    """Of 0.15 of a picture's deviation from one evaluation to the next: at the ninth, as a rule."""
    found = [first_hacking(seed, 0.15) for seed in range(12)]
    assert None not in found
    assert 5 <= np.median(found) <= 12
