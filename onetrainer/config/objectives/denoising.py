"""The usual objective: what the UNet is asked to predict, when, and how mistakes are counted."""

from typing import Annotated, ClassVar, Literal

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.objectives.loss import Losses
from onetrainer.config.objectives.mask import Mask
from onetrainer.config.objectives.noise import Noise
from onetrainer.config.objectives.prior import ClassImages, Prior
from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.config.objectives.weighting import Plain, Weighting


class Denoising(Section):
    """The usual objective: predict the noise that was added to a picture."""

    title: ClassVar[str] = "denoising"
    kind: Literal["denoising"] = "denoising"

    loss: Losses = Losses()
    weighting: Annotated[
        Weighting,
        Ui(
            "Loss weighting",
            search="loss_weight_fn min_snr_gamma debiased p2 scale_v_pred_loss snr",
        ),
    ] = Plain()
    """How much each timestep counts. All but the first mean the same for models that predict noise
    and for those that predict velocity."""

    timesteps: Annotated[
        Timesteps,
        Ui(
            "Timesteps",
            search="timestep_distribution noising strength sampling range",
        ),
    ] = Uniform()
    """How often each amount of noise is trained. Noisy timesteps teach composition, clean ones
    detail."""

    noise: Noise = Noise()
    mask: Mask = Mask()
    prior: Annotated[
        Prior,
        Ui(
            "Prior pictures teach",
            level="advanced",
            search="prior preservation regularization",
            only_with={"data.class_folder": ("*",)},
            or_with={"data.concepts.*.role": ("prior",)},
        ),
    ] = ClassImages()
    """What pictures teach that are there to keep what the model knows: what they show, or what the
    model made of them before training, which computes it twice."""
