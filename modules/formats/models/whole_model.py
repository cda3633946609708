"""A whole base model as named tensors and configs, from any source."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from modules.formats.files.component_configs import Config, read_config
from modules.formats.files.tensor_source import LazyTensor
from onetrainer.families.spec import FamilySpec, Prediction

Tensors = Mapping[str, Tensor | LazyTensor]

INDEX = "model_index.json"

DEFAULT_SCHEDULER = "DDIMScheduler"  # if the config names none
# Schedulers of diffusers that can rescale the noise schedule; others ignore the flag.
ZERO_SNR_SCHEDULERS = (
    "DDIMScheduler", "DDPMScheduler", "DPMSolverMultistepScheduler", "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler", "LCMScheduler", "UniPCMultistepScheduler",
)  # fmt: skip


@dataclass(frozen=True)
class Description:
    """Everything that describes a model but its tensors.

    Attributes:
        configs: Of each component.
        scheduler: diffusers' scheduler config.
        index: Components and sampling settings of a diffusers folder.
        home: Folder with the model's tokenizers; the published models' if it has none.
    """

    family: FamilySpec
    prediction: Prediction
    zero_terminal_snr: bool
    configs: Mapping[str, Config]
    scheduler: Config
    index: Config
    home: Path


@dataclass(frozen=True)
class WholeModel:
    """A model ready to be written.

    Attributes:
        components: Each component's tensors by our names, text encoders' with `text_model.`.
        extras: Other tensors of the original layout, by their names there; None if unknown, as for
            folders of other programs.
        metadata: Of a single file.
    """

    description: Description
    components: Mapping[str, Tensors]
    extras: Tensors | None
    metadata: Mapping[str, str]


def describe(
    home: Path,
    family: FamilySpec,
    *,
    prediction: Prediction,
    zero_terminal_snr: bool,
    is_model_folder: bool = False,
) -> Description:
    """Describe a model by the configs of a diffusers folder, adapted to its family and prediction.

    is_model_folder: Whether the configs are this model's, not the published one's.
    """
    configs: dict[str, Config] = {
        name: drop_source_path(read_config(home / name / "config.json"))
        for name in family.components
    }
    configs["unet"] = {**configs["unet"], "in_channels": family.unet_channels}
    if family.sides and not is_model_folder:  # the published config has one of several sides
        side = family.side_of(prediction) // family.latent_side
        configs["unet"] = {**configs["unet"], "sample_size": side}
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
    """Drop the path that both libraries note, which is private."""
    return {key: value for key, value in config.items() if key != "_name_or_path"}


def _scheduler_config(config: Config, prediction: Prediction, zero_terminal_snr: bool) -> Config:
    if prediction == "flow":
        return config
    changed = {"_class_name": DEFAULT_SCHEDULER, **config, "prediction_type": prediction}
    if not zero_terminal_snr:
        rescales = bool(config.get("rescale_betas_zero_snr"))
        return changed | ({"rescale_betas_zero_snr": False} if rescales else {})
    # "trailing" because the last timestep, which is pure noise, must be sampled.
    # Source: Lin et al. 2023, arXiv:2305.08891, section 3.3.
    changed |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    if changed["_class_name"] not in ZERO_SNR_SCHEDULERS:
        changed["_class_name"] = ZERO_SNR_SCHEDULERS[0]
        changed.pop("skip_prk_steps", None)
    return changed
