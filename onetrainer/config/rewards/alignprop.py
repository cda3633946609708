"""Settings of the objective of reward training."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.rewards.algorithms import Algorithm, AlignPropSteps
from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.config.rewards.generation import Keep, Prompts, Rollout
from onetrainer.config.rewards.reward import Reward


class AlignProp(Section):
    """Generates images, scores them, and trains the model to score higher.

    The score's gradient flows back through sampling. Source: Prabhudesai et al. 2023,
    arXiv:2310.03739.
    """

    title: ClassVar[str] = "reward (AlignProp)"
    kind: Literal["alignprop"] = "alignprop"

    algorithm: Annotated[
        Algorithm, Ui("Algorithm", search="alignprop draft refl drtune best of n raft")
    ] = AlignPropSteps.default()
    """How the reward is turned into weight updates. AlignProp is a good default; best of n also
    works with scores without a gradient."""

    rewards: Annotated[
        tuple[Reward, ...],
        Field(max_length=16),
        Ui("Rewards", search="score aesthetic pickscore"),
    ] = ()
    """What images are scored by; add one that is not trained, to see whether the others still mean
    anything."""

    prompts: Prompts = Prompts.default()
    rollout: Rollout = Rollout.default()
    keep: Keep = Keep.default()
    evaluation: Evaluation = Evaluation.default()
