"""Placement of a run's components, and memory settings of their layers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import nn

from modules.assembly.method import Attached, trained_component_dtypes
from modules.families.layers import VAE
from modules.interfaces import Family
from modules.memory.layers.layers import LayerSettings, ManagedLayers, manage_layers
from modules.memory.precision import autocast, compute_dtype, storage_dtype
from modules.memory.residency import (
    METHOD,
    REWARDS,
    PlacementInputs,
    Residency,
    placement_table,
)
from modules.methods.quantized import quantize_family, unquantized_components
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.hardware import OffloadDevice
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.dataset.caption_caching import encodes_text_each_step
from onetrainer.dataset.dataset import uses_images_only
from onetrainer.families.registry import base_of, family_spec

HOST = torch.device("cpu")


def offload_device_of(choice: OffloadDevice, device: torch.device) -> torch.device:
    """Return the device of offloaded components."""
    return device if choice == "same" else HOST


def placement_inputs_of(config: TrainConfig) -> PlacementInputs:
    """Return the settings that determine the placement of components."""
    spec = family_spec(config.model.family)
    return PlacementInputs(
        encoders=spec.encoder_names,
        trained=trained_component_dtypes(config).keys(),
        predicts=not isinstance(config.objective, Reconstruction),
        encodes_images=not config.data.cache_latents and uses_images(config),
        encodes_text=not uses_images_only(config) and encodes_text_each_step(config),
        samples=config.sampling.has_prompts,
        encodes_blanks=spec.sees_masked_image,
        scores=isinstance(config.objective, AlignProp),
    )


def storage_dtypes(config: TrainConfig) -> dict[str, torch.dtype]:
    """Return the dtype that each component is loaded in."""
    hardware, trained = config.hardware, trained_component_dtypes(config)
    return {
        component: storage_dtype(
            component,
            precision=hardware.precision,
            vae_precision=hardware.vae_precision,
            trained_as=trained.get(component),
        )
        for component in ("unet", "vae", *placement_inputs_of(config).encoders)
    }


def autocast_of(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """Return the context that UNet and text encoders run in, for one use."""
    return autocasts_of(config, device)()


def autocasts_of(
    config: TrainConfig, device: torch.device
) -> Callable[[], AbstractContextManager[object]]:
    """Return what makes the context that UNet and text encoders run in, new for each use.

    Autocast only where the trained weights of one have another dtype than the compute dtype.
    Everywhere else nothing is left for it to cast, as adapters and token embeddings cast their own:
    it would only cast norms up on a GPU, and their results down again, which is a third of a
    step's operations.
    """
    precision = config.hardware.precision
    dtypes = {name: dtype for name, dtype in storage_dtypes(config).items() if name != VAE}
    if set(dtypes.values()) == {compute_dtype(precision)}:
        return nullcontext
    return partial(autocast, device, precision)


def quantize(config: TrainConfig, family: Family, *, device: torch.device) -> tuple[str, ...]:
    """Quantize frozen layers, if the config asks for it; return notes for people.

    Call before attaching a method, because adapters start from the weights of their layers.
    """
    hardware = config.hardware
    if hardware.quantization == "none" or isinstance(config.method, Vae):
        return ()
    return quantize_family(
        family,
        kind=hardware.quantization,
        patterns=[layers.pattern for layers in hardware.quantized_layers],
        trains=unquantized_components(config.method, base_of(config.model.family)),
        device=device,
    )


def manage(config: TrainConfig, family: Family, *, device: torch.device) -> ManagedLayers:
    """Set up checkpointing and offloading of the layers with gradients and of large ones."""
    hardware = config.hardware
    assert hardware.gradient_checkpointing != "auto", "resolved before"
    layers = family.layers()
    offload_device = offload_device_of(hardware.offload_device, device)
    decoder = [] if isinstance(config.method, Vae) else layers.pop(VAE)
    managed = manage_layers(
        layers,
        LayerSettings(
            checkpointing=hardware.gradient_checkpointing,
            offload=hardware.offload_layers,
            activations=hardware.offload_activations,
            prefetch=hardware.prefetch,
            draws=uses_dropout(config, layers.values()),
        ),
        train_device=device,
        offload_device=offload_device,
    )
    if not (isinstance(config.objective, AlignProp) and config.objective.rollout.checkpoint):
        return managed
    # Recomputing the whole decoder takes several times a UNet's memory: 23 GB for 1024 px in
    # fp32, and a third of that block by block.
    decoding = manage_layers(
        {VAE: decoder},
        LayerSettings(checkpointing="block"),
        train_device=device,
        offload_device=offload_device,
    )
    return ManagedLayers(managed.offloaded, managed.layers + decoding.layers)


def uses_dropout(config: TrainConfig, components: Iterable[Sequence[nn.Module]]) -> bool:
    """Return whether dropout draws random numbers: of adapters, or of the model's own layers."""
    method = config.method
    if isinstance(method, AdapterSection) and any(
        getattr(method, name, 0) for name in ("dropout", "rank_dropout", "module_dropout")
    ):
        return True
    modules = (part for layers in components for layer in layers for part in layer.modules())
    # CLIP's attention has its probability as a number.
    chances = (
        part.p if isinstance(part, nn.Dropout) else vars(part).get("dropout", 0.0)
        for part in modules
    )
    return any(chance > 0 for chance in chances)


def residency_of(
    config: TrainConfig,
    attached: Attached,
    layers: ManagedLayers,
    *,
    device: torch.device,
    rewards: nn.Module | None = None,
) -> Residency:
    """Return the residency of the components, which are all on the temporary device now.

    rewards: Reward networks; None without.
    """
    return Residency(
        placement_table(placement_inputs_of(config)),
        components_of(attached, rewards),
        train_device=device,
        offload_device=offload_device_of(config.hardware.offload_device, device),
        offloaded=layers.offloaded,
        pins=config.hardware.pin_memory,
    )


def components_of(attached: Attached, rewards: nn.Module | None = None) -> Mapping[str, nn.Module]:
    """Return every component that moves by its name in the placement table.

    Sharded ones stay on the train device: their weights were moved there part by part.
    """
    return {
        **attached.whole_networks(),
        METHOD: attached.method.extra_modules(),
        **({} if rewards is None else {REWARDS: rewards}),
    }
