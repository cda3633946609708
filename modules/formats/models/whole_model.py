"""A whole base model as named tensors and configs, wherever they come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from modules.formats.files.component_configs import Config, read_config
from modules.formats.files.tensor_source import LazyTensor
from modules.formats.original.layout import COMPONENTS, Component
from onetrainer.config.run.model import FamilyName, Prediction, base_of

Tensors = Mapping[str, Tensor | LazyTensor]

INDEX = "model_index.json"

INPAINTING_CHANNELS, CHANNELS = 9, 4
# The latent side of SD 2's models that predict noise; the published config is of the others, 96.
SD2_SIDE = 64
# Schedulers of diffusers that can rescale the noise schedule; others ignore the flag.
USUAL_SCHEDULER = "DDIMScheduler"  # where a config does not say which one it is
ZERO_SNR_SCHEDULERS = (
    "DDIMScheduler", "DDPMScheduler", "DPMSolverMultistepScheduler", "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler", "LCMScheduler", "UniPCMultistepScheduler",
)  # fmt: skip


@dataclass(frozen=True)
class Description:
    """What describes a model besides its tensors.

    configs: of each component. scheduler: diffusers' scheduler config. index: the list of parts
    and of settings for drawing in a diffusers folder. home: the folder whose tokenizers are the
    model's; those of the published models if it has none.
    """

    family: FamilyName
    prediction: Prediction
    zero_terminal_snr: bool
    configs: Mapping[Component, Config]
    scheduler: Config
    index: Config
    home: Path


@dataclass(frozen=True)
class WholeModel:
    """A model ready to be written.

    components: each component's tensors by our names, text encoders' with `text_model.`.
    extras: what the original layout holds besides, by its names there; None if nothing is known
    of them, as of a folder from elsewhere. metadata: what a single file says about itself.
    """

    description: Description
    components: Mapping[Component, Tensors]
    extras: Tensors | None
    metadata: Mapping[str, str]


def describe(
    home: Path,
    family: FamilyName,
    *,
    prediction: Prediction,
    zero_terminal_snr: bool,
    is_own: bool = False,
) -> Description:
    """A description from the configs of a diffusers folder, made to say what the model is.

    is_own: whether the folder is this model's, and not that of the published ones.
    """
    base = base_of(family)
    configs: dict[Component, Config] = {
        name: drop_source_path(read_config(home / name / "config.json"))
        for name in COMPONENTS[base]
    }
    configs["unet"] = _with_channels(configs["unet"], family)
    if base == "sd2" and prediction == "epsilon" and not is_own:
        configs["unet"] = {**configs["unet"], "sample_size": SD2_SIDE}
    scheduler = drop_source_path(read_config(home / "scheduler" / "scheduler_config.json"))
    return Description(
        family=family,
        prediction=prediction,
        zero_terminal_snr=zero_terminal_snr,
        configs=configs,
        scheduler=_scheduler_config(scheduler, prediction, zero_terminal_snr),
        index=drop_source_path(read_config(home / INDEX)),
        home=home,
    )


def drop_source_path(config: Config) -> Config:
    """Both libraries note where a model was loaded from, which is nobody else's business."""
    return {key: value for key, value in config.items() if key != "_name_or_path"}


def _with_channels(config: Config, family: FamilyName) -> Config:
    is_inpainting = family.endswith("-inpainting")
    return {**config, "in_channels": INPAINTING_CHANNELS if is_inpainting else CHANNELS}


def _scheduler_config(config: Config, prediction: Prediction, zero_terminal_snr: bool) -> Config:
    changed = {"_class_name": USUAL_SCHEDULER, **config, "prediction_type": prediction}
    if not zero_terminal_snr:
        return changed | ({"rescale_betas_zero_snr": False} if _rescales(config) else {})
    # "trailing" because the last timestep, which is noise alone, has to be sampled.
    # Source: Lin et al. 2023, arXiv:2305.08891, section 3.3.
    changed |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    if changed["_class_name"] not in ZERO_SNR_SCHEDULERS:
        changed["_class_name"] = ZERO_SNR_SCHEDULERS[0]
        changed.pop("skip_prk_steps", None)
    return changed


def _rescales(config: Config) -> bool:
    return bool(config.get("rescale_betas_zero_snr"))
