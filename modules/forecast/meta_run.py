"""A run's model and what trains it, of full size, on a device that does not exist."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from modules.assembly.method import Attached, attach, compares_with_before
from modules.assembly.optimizer import steps_in_backward
from modules.assembly.placement import manage, needs_of, parts_of, quantize, storage_dtypes
from modules.families.empty import empty_family
from modules.families.registry import family_spec
from modules.families.stable_diffusion import StableDiffusion
from modules.forecast.rewards import empty_mixer
from modules.interfaces import Family, Method
from modules.memory.layers.layers import ManagedLayers
from modules.memory.residency import METHOD, REWARDS, Phase, Place, places
from modules.meta_device.autocast import DeviceKind
from modules.meta_device.device import DEVICE, HOST, Imagined
from modules.methods.embedding import Embeddings
from modules.methods.full import Full
from modules.methods.joint import Joint
from modules.methods.model_source import ModelSource
from modules.methods.vae import VaeDecoder
from modules.rewards.mixer import Mixer
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.methods.full import Vae
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.model import base_of
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.model_files.kinds import ModelFile

WEIGHTS = {"unet": "unet", "vae": "vae", METHOD: "adapters", REWARDS: "rewards"}
"""What the memory of parts is called; the text encoders' all the same."""
TEXT_ENCODERS = "text_encoders"


@dataclass(frozen=True)
class Stage:
    """A run that could begin.

    config: with everything decided. bucket: of the largest pictures. mixer: what scores; None
    where nothing does.
    """

    config: TrainConfig
    bucket: Bucket
    imagined: Imagined
    attached: Attached
    layers: ManagedLayers
    table: Mapping[str, Mapping[Phase, Place]]
    mixer: Mixer | None = None

    def residents(self, phase: Phase) -> dict[str, int]:
        """Bytes of weights that are on the device all through a phase, by what they are called.

        Those of layers that wait in main memory, and only visit it, do not count.
        """
        is_one_place = self.config.hardware.offload_device == "same"
        counted = ("train", "temp") if is_one_place else ("train",)
        found: dict[str, int] = {}
        for name, part in parts_of(self.attached, networks_of(self.mixer)).items():
            if self.table[name][phase] in counted:
                called = WEIGHTS.get(name, TEXT_ENCODERS)
                found[called] = found.get(called, 0) + self._size(part)
        return found

    def _size(self, part: nn.Module) -> int:
        meter = self.imagined.meter
        tensors = {id(one): one for one in (*part.parameters(), *part.buffers())}
        return sum(meter.size_of(one) for one in tensors.values() if meter.side_of(one) == "device")


@dataclass(frozen=True)
class Model:
    """What of a run is the same whichever way its steps are computed."""

    imagined: Imagined
    attached: Attached
    mixer: Mixer | None = None


@contextmanager
def modelled(config: TrainConfig, kind: DeviceKind) -> Iterator[Model]:
    """The model of a config with what trains it, on a device that does not exist.

    Within, torch computes nothing on a real one. Raises UserError for what no run could begin with.
    """
    config = _without_files(config)
    gc.collect()  # what only the collector frees would count until it comes
    family = _family(config)
    with Imagined(kind) as imagined:
        family = replace(family, schedule=family.schedule.to(DEVICE))
        quantize(config, family, device=DEVICE)
        attached = _attached(config, family, waits=HOST if kind == "cuda" else DEVICE)
        mixer = empty_mixer(config)
        for name, part in parts_of(attached, networks_of(mixer)).items():
            for tensor in (*part.parameters(), *part.buffers()):
                imagined.meter.assign(tensor, WEIGHTS.get(name, TEXT_ENCODERS))
        yield Model(imagined, attached, mixer)


@contextmanager
def stage_of(model: Model, config: TrainConfig, *, bucket: Bucket) -> Iterator[Stage]:
    """The run of a config, as it is before its first step.

    config: that of the model, or one that `is_same_model` of it. bucket: of the largest pictures.
    """
    config, meter = _without_files(config), model.imagined.meter
    if model.imagined.kind == "cpu":  # where everything is in the same memory anyway
        hardware = config.hardware.model_copy(update={"offload_device": "same"})
        config = config.model_copy(update={"hardware": hardware})
    family = _tiled(model.attached.family, is_on=config.hardware.vae_tiling)
    attached = replace(model.attached, family=family)
    layers = manage(config, family, device=model.imagined.device)
    try:
        for weight in layers.waiting:
            meter.move(weight, "host")
        table = places(needs_of(config))
        yield Stage(config, bucket, model.imagined, attached, layers, table, model.mixer)
    finally:
        layers.undo()
        for weight in layers.waiting:
            meter.move(weight, "device")


def is_same_model(config: TrainConfig, other: TrainConfig) -> bool:
    """Whether runs of two configs differ in nothing but how their steps are computed."""
    if steps_in_backward(config) or steps_in_backward(other):
        return False  # its hooks stay on the weights
    return _of_model(config) == _of_model(other)


def _of_model(config: TrainConfig) -> tuple[object, ...]:
    hardware = config.hardware
    return (
        config.model,
        config.method,
        config.embeddings,
        compares_with_before(config),
        config.objective.rewards if isinstance(config.objective, AlignProp) else (),
        hardware.precision,
        hardware.vae_precision,
        hardware.quantization,
        hardware.quantized_layers,
    )


def networks_of(mixer: Mixer | None) -> nn.Module | None:
    """The networks that score; None where nothing scores."""
    return None if mixer is None else mixer.own_modules()


def _family(config: TrainConfig) -> StableDiffusion:
    """The model, as it is loaded."""
    name = config.model.family
    return empty_family(
        family_spec(base_of(name)),
        name,
        dtypes=storage_dtypes(config),
        configs=_own_configs(config.model.path),
        clip_skip=config.model.clip_skip,
    )


def _tiled(family: Family, *, is_on: bool) -> Family:
    assert isinstance(family, StableDiffusion), "there are no others"
    # Every run encodes its own empty pictures.
    return replace(family, decodes_in_tiles=is_on, _blanks={})


def _own_configs(path: str) -> Path | None:
    """The folder with a model's own configs; None for files, which have the published sizes."""
    folder = cached_folder(path) if is_hub_name(path) else Path(path)
    is_there = path and folder is not None and (folder / "unet" / "config.json").is_file()
    return folder if is_there else None


def _attached(config: TrainConfig, family: Family, *, waits: torch.device) -> Attached:
    """What trains, words first. The model's files are not looked at: they need not be here yet.

    waits: where a copy of the weights before their training is kept.
    """
    words = None
    if config.embeddings.tokens:
        alone = config.model_copy(update={"method": EmbeddingOnly()})
        words = attach(alone, family, config.model)
        family = words.family
    if isinstance(config.method, EmbeddingOnly):
        assert words is not None, "the rules refuse a config in which nothing trains"
        return words
    # Adapters make their matrices wherever torch makes things, and draw numbers.
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        main = _main(config, family, waits)
    if words is None:
        return Attached(family, main)
    assert isinstance(words.method, Embeddings), "of words alone"
    return Attached(family, Joint(main, words.method))


def _main(config: TrainConfig, family: Family, waits: torch.device) -> Method:
    """What trains besides words."""
    source = ModelSource(ModelFile(Path(), "folder", config.model.family))
    original = waits if compares_with_before(config) else None
    match config.method:
        case FullSection() as section:
            return Full.attach(family, section, source=source, keep_original=original)
        case Vae() as section:
            return VaeDecoder.attach(family, section, source=source, keep_original=original)
        case _:
            plain = config.model_copy(update={"embeddings": EmbeddingsSection()})
            return attach(plain, family, config.model).method


def _without_files(config: TrainConfig) -> TrainConfig:
    """The config without files to go on from: they change no size that matters."""
    words = tuple(word.model_copy(update={"start_from": ""}) for word in config.embeddings.tokens)
    method = config.method
    if "start_from" in type(method).model_fields:
        method = method.model_copy(update={"start_from": ""})
    embeddings = config.embeddings.model_copy(update={"tokens": words})
    return config.model_copy(update={"method": method, "embeddings": embeddings})
