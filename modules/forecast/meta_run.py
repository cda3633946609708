"""A run's model and method in full size on the meta device."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from modules.assembly.method import Attached, attach, needs_base_predictions
from modules.assembly.optimizer import uses_fused_backward
from modules.assembly.placement import (
    components_of,
    manage,
    placement_inputs_of,
    quantize,
    storage_dtypes,
)
from modules.families.registry import engine_of
from modules.forecast.rewards import empty_mixer
from modules.interfaces import Family, Method
from modules.memory.layers.layers import ManagedLayers
from modules.memory.residency import METHOD, REWARDS, Phase, Placement, placement_table
from modules.meta_device.autocast import DeviceKind
from modules.meta_device.device import DEVICE, HOST, MetaDevice
from modules.methods.embedding import Embeddings
from modules.methods.full import Full
from modules.methods.joint import Joint
from modules.methods.model_source import ModelSource
from modules.methods.vae import VaeDecoder
from modules.rewards.mixer import Mixer
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.full import Vae
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.families.registry import family_spec
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.model_files.kinds import ModelFile

WEIGHTS = {"unet": "unet", "vae": "vae", METHOD: "adapters", REWARDS: "rewards"}
"""Memory part of each component; text encoders share `TEXT_ENCODERS`."""
TEXT_ENCODERS = "text_encoders"


@dataclass(frozen=True)
class Stage:
    """A run that is ready to begin, on the meta device.

    Attributes:
        config: With automatic choices resolved.
        bucket: Of the largest images.
        mixer: The rewards; None without.
    """

    config: TrainConfig
    bucket: Bucket
    meta_device: MetaDevice
    attached: Attached
    layers: ManagedLayers
    table: Mapping[str, Mapping[Phase, Placement]]
    mixer: Mixer | None = None

    def residents(self, phase: Phase) -> dict[str, int]:
        """Return the bytes of weights that are on the device during all of a phase, by memory part.

        Offloaded layers, which are there for short times only, do not count.
        """
        is_one_place = self.config.hardware.offload_device == "same"
        counted = ("train", "offload") if is_one_place else ("train",)
        sizes: dict[str, int] = {}
        for name, component in components_of(self.attached, networks_of(self.mixer)).items():
            if self.table[name][phase] in counted:
                part = WEIGHTS.get(name, TEXT_ENCODERS)
                sizes[part] = sizes.get(part, 0) + self._size(component)
        return sizes

    def _size(self, component: nn.Module) -> int:
        meter = self.meta_device.meter
        tensors = {id(tensor): tensor for tensor in (*component.parameters(), *component.buffers())}
        on_device = (each for each in tensors.values() if meter.side_of(each) == "device")
        return sum(map(meter.size_of, on_device))


@dataclass(frozen=True)
class Model:
    """What a run's model is made of, independent of how its steps are computed."""

    meta_device: MetaDevice
    attached: Attached
    mixer: Mixer | None = None


@contextmanager
def build_model(config: TrainConfig, kind: DeviceKind) -> Iterator[Model]:
    """Build the config's model and method on the meta device.

    Within the context torch computes nothing on a real device.

    Raises:
        UserError: If no run could begin with the config.
    """
    config = _without_start_files(config)
    gc.collect()  # garbage would count until it is collected
    family = _family(config)
    with MetaDevice(kind) as meta_device:
        family = family.with_process(family.process.to(DEVICE))
        quantize(config, family, device=DEVICE)
        attached = _attached(config, family, offload_device=HOST if kind == "cuda" else DEVICE)
        mixer = empty_mixer(config)
        for name, component in components_of(attached, networks_of(mixer)).items():
            for tensor in (*component.parameters(), *component.buffers()):
                meta_device.meter.assign(tensor, WEIGHTS.get(name, TEXT_ENCODERS))
        yield Model(meta_device, attached, mixer)


@contextmanager
def staged(model: Model, config: TrainConfig, *, bucket: Bucket) -> Iterator[Stage]:
    """Prepare the model for the first step of the config's run.

    Args:
        model: Built for the config, or for one that `is_same_model`.
        config: With automatic choices resolved.
        bucket: Of the largest images.
    """
    config, meter = _without_start_files(config), model.meta_device.meter
    if model.meta_device.kind == "cpu":  # where everything is in the same memory anyway
        hardware = config.hardware.model_copy(update={"offload_device": "same"})
        config = config.model_copy(update={"hardware": hardware})
    family = model.attached.family.with_tiling(is_on=config.hardware.vae_tiling)
    attached = replace(model.attached, family=family)
    layers = manage(config, family, device=model.meta_device.device)
    try:
        for weight in layers.offloaded:
            meter.move(weight, "host")
        table = placement_table(placement_inputs_of(config))
        yield Stage(config, bucket, model.meta_device, attached, layers, table, model.mixer)
    finally:
        layers.undo()
        for weight in layers.offloaded:
            meter.move(weight, "device")


def is_same_model(config: TrainConfig, other: TrainConfig) -> bool:
    """Return whether two configs differ only in how steps are computed."""
    if uses_fused_backward(config) or uses_fused_backward(other):
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


def networks_of(mixer: Mixer | None) -> nn.Module | None:
    """Return the reward networks; None without."""
    return None if mixer is None else mixer.extra_modules()


def _family(config: TrainConfig) -> Family:
    """The model, as it is loaded."""
    spec = family_spec(config.model.family)
    return engine_of(spec).empty(
        spec,
        dtypes=storage_dtypes(config),
        configs=_config_folder(config.model.path),
        clip_skip=config.model.clip_skip,
    )


def _config_folder(path: str) -> Path | None:
    """Return the folder with a model's own configs; None for files, whose sizes are published."""
    folder = cached_folder(path) if is_hub_name(path) else Path(path)
    is_available = path and folder is not None and (folder / "unet" / "config.json").is_file()
    return folder if is_available else None


def _attached(config: TrainConfig, family: Family, *, offload_device: torch.device) -> Attached:
    """Attach what is trained, embeddings first; the model's files need not exist.

    Args:
        config: The run's config.
        family: The model.
        offload_device: Device of a copy of the original weights.
    """
    embeddings = None
    if config.embeddings.tokens:
        alone = config.model_copy(update={"method": EmbeddingOnly()})
        embeddings = attach(alone, family, config.model)
        family = embeddings.family
    if isinstance(config.method, EmbeddingOnly):
        assert embeddings is not None, "the rules refuse a config in which nothing trains"
        return embeddings
    # Adapters create matrices on the default device, with random numbers.
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        main = _attach_method(config, family, offload_device)
    if embeddings is None:
        return Attached(family, main)
    assert isinstance(embeddings.method, Embeddings), "of embeddings alone"
    return Attached(family, Joint(main, embeddings.method))


def _attach_method(config: TrainConfig, family: Family, offload_device: torch.device) -> Method:
    """Attach everything except embeddings."""
    source = ModelSource(ModelFile(Path(), "folder", config.model.family))
    original = offload_device if needs_base_predictions(config) else None
    match config.method:
        case FullSection() as section:
            return Full.attach(family, section, source=source, keep_original=original)
        case Vae() as section:
            return VaeDecoder.attach(family, section, source=source, keep_original=original)
        case AdapterSection() | EmbeddingOnly():
            plain = config.model_copy(update={"embeddings": EmbeddingsSection()})
            return attach(plain, family, config.model).method


def _without_start_files(config: TrainConfig) -> TrainConfig:
    """Return the config without files to start from, which change no size that matters."""
    tokens = tuple(
        token.model_copy(update={"start_from": ""}) for token in config.embeddings.tokens
    )
    method = config.method
    if "start_from" in type(method).model_fields:
        method = method.model_copy(update={"start_from": ""})
    embeddings = config.embeddings.model_copy(update={"tokens": tokens})
    return config.model_copy(update={"method": method, "embeddings": embeddings})
