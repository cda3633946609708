"""A run's model and method in full size on the meta device."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from modules.assembly.method import Attached, attach, trained_component_dtypes
from modules.assembly.placement import (
    components_of,
    manage,
    placement_inputs_of,
    quantize,
    storage_dtypes,
)
from modules.families.circular_padding import pad_circularly
from modules.families.registry import engine_of
from modules.forecast.rewards import empty_mixer
from modules.forecast.sharded import share_of, weight_bytes
from modules.formats.models.stored_configs import config_folder
from modules.memory.residency import METHOD, REWARDS, Phase, Placement, placement_table
from modules.meta_device.autocast import DeviceKind
from modules.meta_device.device import DEVICE, HOST, meta_device
from modules.meta_device.meter import Meter, size_of
from modules.methods.model_source import ModelSource
from modules.rewards.mixer import Mixer
from onetrainer.concepts.base_predictions import needs_base_predictions
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.families.registry import family_spec
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import ModelFile

WEIGHTS = {"unet": "unet", "vae": "vae", METHOD: "adapters", REWARDS: "rewards"}
"""Memory part of each component; text encoders share `TEXT_ENCODERS`."""
TEXT_ENCODERS = "text_encoders"


@dataclass(frozen=True)
class Model:
    """What a run's model is made of, independent of how its steps are computed.

    Attributes:
        mixer: The rewards; None without.
    """

    kind: DeviceKind
    meter: Meter
    attached: Attached
    mixer: Mixer | None = None

    def components(self) -> Mapping[str, nn.Module]:
        """Return every component by its name in the placement table."""
        networks = None if self.mixer is None else self.mixer.extra_modules()
        return components_of(self.attached, networks)


@dataclass(frozen=True)
class Stage:
    """A run that is ready to begin, on the meta device.

    Attributes:
        config: With automatic choices resolved.
        bucket: Of the largest images.
        mixes_shapes: Whether a step may have images of several buckets, and so more microbatches.
    """

    config: TrainConfig
    bucket: Bucket
    model: Model
    table: Mapping[str, Mapping[Phase, Placement]]
    mixes_shapes: bool = False

    def residents(self, phase: Phase) -> dict[str, int]:
        """Return the bytes of weights that are on the device during all of a phase, by memory part.

        Offloaded layers, which are there for short times only, do not count.
        """
        is_one_place = self.config.hardware.offload_device == "same"
        counted = ("train", "offload") if is_one_place else ("train",)
        meter = self.model.meter
        sizes: dict[str, int] = {}
        share, family = share_of(self.config), self.model.attached.family
        for name, component in self.model.components().items():
            part = WEIGHTS.get(name, TEXT_ENCODERS)
            if share > 1 and name in trained_component_dtypes(self.config):
                size = weight_bytes(component, family.layers()[name], phase, share=share)
                sizes[part] = sizes.get(part, 0) + size
            elif self.table[name][phase] in counted:
                tensors = {
                    id(each): each for each in (*component.parameters(), *component.buffers())
                }
                size = sum(
                    size_of(each) for each in tensors.values() if meter.side_of(each) == "device"
                )
                sizes[part] = sizes.get(part, 0) + size
        return sizes


@contextmanager
def build_model(config: TrainConfig, kind: DeviceKind) -> Iterator[Model]:
    """Build the config's model and method on the meta device; its files need not exist.

    Within the context torch computes nothing on a real device.

    Raises:
        UserError: If no run could begin with the config.
    """
    gc.collect()  # garbage would count until it is collected
    spec = family_spec(config.model.family)
    family = engine_of(spec).empty(
        spec,
        dtypes=storage_dtypes(config),
        configs=_config_folder(config.model.path),
        clip_skip=config.model.clip_skip,
    )
    if config.model.circular_padding:
        pad_circularly(family.unet, family.vae)
    with meta_device(kind) as meter:
        family = family.with_process(family.process.to(DEVICE))
        quantize(config, family, device=DEVICE)
        source = ModelSource(ModelFile(Path(), "folder", config.model.family))
        with torch.random.fork_rng(devices=[]):
            attached = attach(
                config,
                family,
                source,
                host=HOST if kind == "cuda" else DEVICE,
                # Adapters create matrices on the default device, with random numbers.
                creating=torch.device("meta"),
            )
        model = Model(kind, meter, attached, empty_mixer(config))
        for component, module in model.components().items():
            for tensor in (*module.parameters(), *module.buffers()):
                meter.assign(tensor, WEIGHTS.get(component, TEXT_ENCODERS))
        yield model


@contextmanager
def staged(
    model: Model, config: TrainConfig, *, bucket: Bucket, has_several: bool = False
) -> Iterator[Stage]:
    """Prepare the model for the first step of the config's run.

    model: Built for the config, or for one that `is_same_model`. config: With automatic choices
    resolved. bucket: Of the largest images. has_several: Whether there are images of other buckets.
    """
    if model.kind == "cpu":  # where everything is in the same memory anyway
        hardware = config.hardware.model_copy(update={"offload_device": "same"})
        config = config.model_copy(update={"hardware": hardware})
    meter = model.meter
    family = model.attached.family.with_tiling(is_on=config.hardware.vae_tiling)
    layers = manage(config, family, device=DEVICE)
    try:
        for weight in layers.offloaded:
            meter.move(weight, "host")
        model = replace(model, attached=replace(model.attached, family=family))
        training = config.training
        mixes = has_several and training.mixes_shapes and training.batch_size > 1
        table = placement_table(placement_inputs_of(config))
        yield Stage(config, bucket, model, table, mixes and not config.optimizer.is_fused)
    finally:
        layers.undo()
        for weight in layers.offloaded:
            meter.move(weight, "device")


def is_same_model(config: TrainConfig, other: TrainConfig) -> bool:
    """Return whether two configs differ only in how steps are computed."""
    if config.optimizer.is_fused or other.optimizer.is_fused:
        return False  # its hooks cannot be removed from the weights
    return _model_settings(config) == _model_settings(other)


def _model_settings(config: TrainConfig) -> tuple[object, ...]:
    hardware = config.hardware
    return (
        config.model,
        config.method,
        config.embeddings,
        needs_base_predictions(config),
        config.objective.rewards if isinstance(config.objective, AlignProp) else (),
        hardware.precision,
        hardware.vae_precision,
        hardware.quantization,
        hardware.quantized_layers,
    )


def _config_folder(path: str) -> Path | None:
    """Return the folder with a model's own configs; None for files of published sizes."""
    folder = cached_folder(path) if is_hub_name(path) else Path(path)
    if path and folder is not None and folder.is_file():
        folder = config_folder(inspect_model(folder), folder)
    is_available = path and folder is not None and (folder / "unet" / "config.json").is_file()
    return folder if is_available else None
