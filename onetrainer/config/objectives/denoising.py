"""Settings of the denoising objective."""

from typing import Annotated, ClassVar, Literal

from onetrainer.config.base.section import Section, Ui
from onetrainer.config.objectives.loss import Losses
from onetrainer.config.objectives.mask import Mask
from onetrainer.config.objectives.noise import Noise
from onetrainer.config.objectives.prior import ClassImages, Prior
from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.config.objectives.weighting import Plain, Weighting


class Denoising(Section):
    """The usual objective: predict the noise that was added to an image."""

    title: ClassVar[str] = "denoising"
    kind: Literal["denoising"] = "denoising"

    loss: Losses = Losses.default()
    weighting: Annotated[
        Weighting,
        Ui(
            "Loss weighting",
            search="loss_weight_fn min_snr_gamma debiased p2 scale_v_pred_loss snr",
        ),
    ] = Plain.default()
    """How the loss is weighted by timestep. "none" is a good default; min-SNR trains faster at low
    noise. All but "none" and "debiased, as in other trainers" weigh the error of the noise alike,
    so that the weight of velocity falls to 0 toward pure noise; the curve shows it."""

    timesteps: Annotated[
        Timesteps,
        Ui(
            "Timesteps",
            search="timestep_distribution noising strength sampling range",
        ),
    ] = Uniform.default()
    """How often each timestep is trained. More noise trains composition, less noise trains detail;
    uniform is a good default."""

    noise: Noise = Noise.default()
    mask: Mask = Mask.default()
    prior: Annotated[
        Prior,
        Ui(
            "Prior preservation",
            level="advanced",
            search="prior preservation regularization pictures teach",
            only_with={"data.class_folder": ("*",)},
            or_with={"data.concepts.*.role": ("prior",)},
        ),
    ] = ClassImages.default()
    """What class images train: the images themselves, or the base model's prediction for them,
    which needs a second forward pass."""
