"""Placement of a run's components, and memory settings of their layers."""

from collections.abc import Mapping

import torch
from torch import nn

from modules.assembly.method import Attached, trained_component_dtypes
from modules.families.layers import VAE
from modules.interfaces import Family
from modules.memory.layers.layers import LayerSettings, ManagedLayers, manage_layers
from modules.memory.precision import storage_dtype
from modules.memory.residency import (
    METHOD,
    REWARDS,
    PlacementInputs,
    Residency,
    placement_table,
)
from modules.methods.quantized import quantize_family, unquantized_components
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
    )


def components_of(attached: Attached, rewards: nn.Module | None = None) -> Mapping[str, nn.Module]:
    """Return every component by its name in the placement table."""
    family = attached.family
    return {
        "unet": family.unet,
        "vae": family.vae,
        **family.text_encoders,
        METHOD: attached.method.extra_modules(),
        **({} if rewards is None else {REWARDS: rewards}),
    }
