"""Where the parts of a run are: the residency of its model, and the memory of its layers."""

from collections.abc import Mapping

import torch
from torch import nn

from modules.assembly.method import Attached, trained_dtypes, trained_networks
from modules.families.layers import VAE, layers_of
from modules.interfaces import Family
from modules.memory.layers.layers import LayerSettings, ManagedLayers, manage_layers
from modules.memory.precision import precision_of
from modules.memory.residency import METHOD, REWARDS, Needs, Place, Residency, places
from modules.methods.quantized import parts_left, quantize_family
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.hardware import OffloadDevice
from onetrainer.config.run.model import base_of
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.dataset.caption_caching import encodes_text_anew
from onetrainer.dataset.dataset import is_images_alone

HOST = torch.device("cpu")


def offload_device_of(choice: OffloadDevice, device: torch.device) -> torch.device:
    """Where parts wait, on a train device."""
    return device if choice == "same" else HOST


def needs_of(config: TrainConfig) -> Needs:
    """What of the config decides where parts are."""
    has_second = config.model.family.startswith("sdxl")
    average: Place = "train" if config.ema.device == "device" else "temp"
    return Needs(
        encoders=("te1", "te2") if has_second else ("te",),
        trained=trained_networks(config),
        predicts=not isinstance(config.objective, Reconstruction),
        encodes_images=not config.data.cache_latents and uses_images(config),
        encodes_text=not is_images_alone(config) and encodes_text_anew(config),
        draws=bool(config.sampling.prompts),
        encodes_blanks=config.model.family.endswith("inpainting"),
        average=average if config.ema.use else None,
        scores=isinstance(config.objective, AlignProp),
    )


def storage_dtypes(config: TrainConfig) -> dict[str, torch.dtype]:
    """The number format that each part is loaded in."""
    hardware, trained = config.hardware, trained_dtypes(config)
    if isinstance(config.method, Vae):
        # Cast to the decoder's format by the method, out of the files' own.
        trained["vae"] = torch.float32
    return {
        part: precision_of(
            part,
            precision=hardware.precision,
            vae_precision=hardware.vae_precision,
            trained_as=trained.get(part),
        ).storage
        for part in ("unet", "vae", *needs_of(config).encoders)
    }


def quantize(config: TrainConfig, family: Family, *, device: torch.device) -> tuple[str, ...]:
    """Keeps frozen layers in few bits, if that is wanted; gives notes for people.

    Before anything is attached: adapters begin by the weights that they compute beside.
    """
    hardware = config.hardware
    if hardware.quantization == "none" or isinstance(config.method, Vae):
        return ()
    return quantize_family(
        family,
        kind=hardware.quantization,
        patterns=[layers.pattern for layers in hardware.quantized_layers],
        trains=parts_left(config.method, base_of(config.model.family)),
        device=device,
    )


def manage(config: TrainConfig, family: Family, *, device: torch.device) -> ManagedLayers:
    """The layers of what gradients go through, or what is large, made to take less memory."""
    hardware = config.hardware
    assert hardware.gradient_checkpointing != "auto", "chosen before"
    found, offload_device = layers_of(family), offload_device_of(hardware.offload_device, device)
    decoder = [] if isinstance(config.method, Vae) else found.pop(VAE)
    managed = manage_layers(
        found,
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
    # A decoder that is computed again as a whole holds several times what a UNet does: 23 GB for
    # 1024 px in fp32, and a third of that block by block.
    decoding = manage_layers(
        {VAE: decoder},
        LayerSettings(checkpointing="block"),
        train_device=device,
        offload_device=offload_device,
    )
    return ManagedLayers(managed.waiting, managed.layers + decoding.layers)


def residency_of(
    config: TrainConfig,
    attached: Attached,
    layers: ManagedLayers,
    *,
    device: torch.device,
    rewards: nn.Module | None = None,
) -> Residency:
    """What moves the parts of the run, which are all on the temporary device now.

    rewards: the networks that score pictures, if there are any.
    """
    return Residency(
        places(needs_of(config)),
        parts_of(attached, rewards),
        train_device=device,
        offload_device=offload_device_of(config.hardware.offload_device, device),
        waiting=layers.waiting,
    )


def parts_of(attached: Attached, rewards: nn.Module | None = None) -> Mapping[str, nn.Module]:
    """Everything that has a place, by its name in the table of places."""
    family = attached.family
    return {
        "unet": family.unet,
        "vae": family.vae,
        **family.text_encoders,
        METHOD: attached.method.own_modules(),
        **({} if rewards is None else {REWARDS: rewards}),
    }
