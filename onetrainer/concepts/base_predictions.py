"""Whether training compares the model with what it was before."""

from onetrainer.concepts.concepts import concepts_of, has_masks
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.prior import OwnPrediction
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig


def needs_base_predictions(config: TrainConfig) -> bool:
    """Return whether the objective uses the base model's predictions."""
    match config.objective:
        case AlignProp(keep=keep, evaluation=evaluation):
            return keep.anchor > 0 or evaluation.distance
        case Denoising(prior=prior, mask=mask):
            roles = {concept.role for concept in concepts_of(config)}
            if "own_prediction" in roles or ("prior" in roles and isinstance(prior, OwnPrediction)):
                return True
            return mask.prior_weight > 0 and has_masks(config)
        case Reconstruction():
            return False
        case Slider():
            return True
