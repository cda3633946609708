"""How often a run still does what it does besides steps, against the steps that it is due at."""

from dataclasses import dataclass, field

from modules.assembly.task_times import RunTaskTimes
from onetrainer.captions.sample_prompts import all_shots
from onetrainer.config.train import TrainConfig
from onetrainer.schedules.amounts import is_due


@dataclass
class Plan:
    """Four steps make an epoch, of three images each.

    asked: The steps whose images were counted, for which a real plan plans their whole epoch.
    """

    asked: list[int] = field(default_factory=list)

    def epoch_of(self, step):
        return step // 4

    def images_before_step(self, step):
        self.asked.append(step)
        return 3 * step


def test_tasks_are_left_as_often_as_they_will_be_due():
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
        times = RunTaskTimes(config, plan).of_samples(all_shots(config))
        due = [
            step
            for step in range(1, 11)
            if is_due(config.sampling.every, step, Plan()) or (at_end and step == 10)
        ]
        in_images = every == "7 images"
        assert len(plan.asked) == in_images
        for step in range(1, 11):
            plan.asked.clear()
            assert times.left(step) == sum(each >= step for each in due), (every, at_end, step)
            assert plan.asked == [step - 1] * in_images  # its epoch is planned in any case
        # Two prompts of twenty steps with guidance; a step is forward and backward of two images.
        assert times.guess == 2 * 20 * 2 / (2 * 3)
