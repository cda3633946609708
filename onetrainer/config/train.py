"""The whole config of one training run."""

import math
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.amount import InSteps, Steps, known
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.data.data import Data
from onetrainer.config.methods.components import trained_components
from onetrainer.config.methods.embedding import EmbeddingOnly, Embeddings
from onetrainer.config.methods.full import Vae
from onetrainer.config.methods.low_rank import Lora
from onetrainer.config.methods.method import Method
from onetrainer.config.objectives.denoising import Denoising
from onetrainer.config.objectives.objective import Objective
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.optimizers.optimizer import Optimizer
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.broken_steps import BrokenSteps
from onetrainer.config.run.ema import Ema
from onetrainer.config.run.hardware import Hardware
from onetrainer.config.run.metadata import Metadata
from onetrainer.config.run.model import Model
from onetrainer.config.run.output import Output
from onetrainer.config.run.sampling import Sampling
from onetrainer.config.run.schedule import Constant, Schedule
from onetrainer.config.run.validation import Validation

VERSION = 9


class Training(Section):
    """How long training runs, and how much of the data each step uses."""

    steps: Annotated[
        Steps,
        InSteps(1),
        Ui("Length", unit="steps", search="length steps epochs duration"),
    ] = 1000
    """How long training lasts, in steps, each of which updates the weights once, or as "10 epochs",
    "5000 images" or "30 minutes". 1,000 to 3,000 steps are usual for a LoRA; too many overfit.
    Fewer train less, more hold on to single images."""

    batch_size: Annotated[int, Field(ge=1, le=1024), Ui("Batch size", unit="images")] = 1
    """How many images are computed at once. More is steadier and needs more memory. 1 to 4 is
    usual."""

    accumulation: Annotated[
        int, Field(ge=1, le=1024), Ui("Gradient accumulation", unit="batches", level="advanced")
    ] = 1
    """How many batches make one step: the effect of a larger batch with the memory of a small one.
    More is steadier and slower. 1 to 4 is usual."""

    mixes_shapes: Annotated[bool, Ui("Images of several shapes in a step", level="hidden")] = True
    """A step takes images of any shape, each batch of one. Off in runs from before version 9 of
    this file, which go on as they began: a step's images are of one shape, and may be fewer."""

    seed: Annotated[int, Field(ge=0, lt=2**63), Ui("Seed", level="advanced", search="random")] = 0
    """All random numbers of the run come from this number: same seed, same result."""

    lr_scaling: Annotated[
        Literal["off", "sqrt", "linear"],
        Ui(
            "Scale learning rate",
            level="advanced",
            search="lr scaler batch size square root linear rule",
            choices={"sqrt": "by the square root of the batch", "linear": "by the batch"},
        ),
    ] = "off"
    """Multiplies all learning rates by a step's images (batch size times gradient accumulation), or
    by their square root, so that a rate for single images suits any batch. "sqrt" is usual with
    AdamW and the like, "linear" with SGD; off takes the rates as they are."""

    gradient_clipping: Annotated[
        float, Field(ge=0, le=1000), Ui("Gradient clipping", level="advanced", search="norm")
    ] = 1.0
    """The largest norm a step's gradient may have; longer ones are scaled down. 1 is usual, 0 is
    off."""

    broken_steps: BrokenSteps = BrokenSteps.default()

    @property
    def total_steps(self) -> int:
        """The length of a run whose amounts were converted to steps."""
        return known(self.steps)

    @property
    def lr_factor(self) -> float:
        """What `lr_scaling` multiplies all learning rates by.

        Source: Goyal et al. 2017, arXiv:1706.02677 (linear); Malladi et al. 2022, arXiv:2205.10287
        (square root, for Adam).
        """
        images = self.batch_size * self.accumulation
        return {"off": 1.0, "sqrt": math.sqrt(images), "linear": float(images)}[self.lr_scaling]


class TrainConfig(Section):
    """The complete config of a run."""

    version: Annotated[int, Field(ge=1), Ui("Config version", level="hidden")] = VERSION
    """The version of this file's layout; older files are migrated when they are read."""

    model: Model = Model.default()
    data: Data = Data.default()
    method: Annotated[Method, Ui("Method", search="lora dora lycoris fine-tune embedding type")] = (
        Lora.default()
    )
    """What is trained: a small adapter, the model itself, embeddings, or the VAE's decoder. LoRA is
    a good default."""

    embeddings: Embeddings = Embeddings.default()
    objective: Annotated[
        Objective, Ui("Objective", level="advanced", search="loss goal reward denoising slider")
    ] = Denoising.default()
    """What training minimizes: the denoising loss, a reconstruction loss, a negative reward, or the
    distance to a direction between prompts."""

    training: Training = Training.default()
    optimizer: Annotated[Optimizer, Ui("Optimizer", search="adam lion prodigy 8bit")] = (
        AdamW.default()
    )
    """Updates the weights from the gradients. AdamW is a good default for LoRA; Prodigy finds the
    learning rate itself."""

    schedule: Annotated[Schedule, Ui("Learning rate schedule", search="scheduler decay")] = (
        Constant.default()
    )
    """How the learning rate changes over the run, after the warm-up. "constant" is a good default;
    "cosine" falls toward the end."""

    ema: Ema = Ema.default()
    validation: Validation = Validation.default()
    sampling: Sampling = Sampling.default()
    output: Output = Output.default()
    metadata: Metadata = Metadata.default()
    hardware: Hardware = Hardware.default()


def uses_images(config: TrainConfig) -> bool:
    """Return whether the run trains on images of its folders.

    Reward training may not, and sliders do not.
    """
    match config.objective:
        case AlignProp(keep=keep):
            return keep.denoising_fraction > 0 or config.validation.use
        case Denoising() | Reconstruction():
            return True
        case Slider():
            return False


def trains_text_encoder(config: TrainConfig) -> bool:
    """Return whether the weights of a text encoder, or adapters on them, are trained."""
    match config.method:
        case EmbeddingOnly() | Vae():
            return False
        case method:
            return bool(trained_components(method, config.model.family).keys() - {"unet"})
