"""How often a run still does what it does besides steps, against the steps that it is due at."""

from dataclasses import dataclass

from modules.assembly.rounds import RunRounds
from onetrainer.captions.sample_prompts import all_shots
from onetrainer.config.train import TrainConfig
from onetrainer.schedules.amounts import is_due


@dataclass
class Plan:
    """Four steps make an epoch, of three images each.

    last: The largest step that it may be asked for.
    """

    last: int = 10

    def epoch_of(self, step):
        return step // 4

    def images_before_step(self, step):
        assert step <= self.last
        return 3 * step


def test_the_rounds_that_are_left_are_those_that_will_be_due():
    for every, at_end in (
        (3, True),
        (3, False),
        (5, True),
        (0, True),
        ("1 epoch", True),
        ("7 images", False),
    ):
        config = TrainConfig.model_validate(
            {
                "training": {"steps": 10, "batch_size": 2},
                "sampling": {
                    "every": every,
                    "at_end": at_end,
                    "steps": 20,
                    "guidance": 7,
                    "prompts": [{"prompt": "a cat"}, {"prompt": "a dog"}],
                },
            }
        )
        plan = Plan()
        rounds = RunRounds(config, plan).of_samples(all_shots(config))
        due = [
            step
            for step in range(1, 11)
            if is_due(config.sampling.every, step, Plan()) or (at_end and step == 10)
        ]
        for step in range(1, 11):
            plan.last = step  # the epoch of a later one would be planned in every step
            assert rounds.left(step) == sum(each >= step for each in due), (every, at_end, step)
        # Two prompts of twenty steps with guidance; a step is forward and backward of two images.
        assert rounds.guess == 2 * 20 * 2 / (2 * 3)
