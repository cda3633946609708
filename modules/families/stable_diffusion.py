"""What all Stable Diffusion families share: the UNet in latents, the VAE around it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# The modules themselves: `from diffusers import …` would import every pipeline on top.
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor
from transformers import CLIPTextModel

from modules.diffusion.schedule import NoiseSchedule, scaled_linear
from modules.diffusion.targets import Prediction
from modules.families.prompts import CHUNK, ClipPrompts
from modules.interfaces import Conditioning, LatentMoments
from onetrainer.errors import UserError

SCALING_FACTOR = 0.18215  # where a VAE's config does not tell: Rombach et al. 2022, appendix G


@dataclass(frozen=True)
class StableDiffusion:
    """A loaded Stable Diffusion; `modules.interfaces.Family` tells what each method gives.

    unet, prompts.encoder: frozen, in the compute dtype. vae: frozen, always float32, since the
    VAEs of Stable Diffusion overflow in float16.
    """

    unet: UNet2DConditionModel
    vae: AutoencoderKL
    prompts: ClipPrompts
    schedule: NoiseSchedule
    prediction: Prediction

    @property
    def text_encoders(self) -> Mapping[str, CLIPTextModel]:
        """SD 1.x and 2.x have one."""
        return {"te": self.prompts.encoder}

    def encode_text(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        return Conditioning(self.prompts.encode(captions, among=among))

    def encoder_settings(self) -> tuple[str, str]:
        vocabulary = self.prompts.tokenizer.backend_tokenizer.to_str()
        digest = hashlib.sha256(vocabulary.encode()).hexdigest()
        return f"scale {self._scale}", f"tokenizer {digest}, chunks of {CHUNK}"

    def encode_images(self, pixels: Tensor) -> LatentMoments:
        """Moves and casts the pixels to the VAE; never under autocast."""
        with torch.autocast(self.vae.device.type, enabled=False):
            posterior = self.vae.encode(pixels.to(self.vae.device, self.vae.dtype)).latent_dist
        return LatentMoments(posterior.mean * self._scale, posterior.std * self._scale)

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Moves and casts the latents to the VAE; never under autocast."""
        with torch.autocast(self.vae.device.type, enabled=False):
            unscaled = latents.to(self.vae.device, self.vae.dtype) / self._scale
            pixels: Tensor = self.vae.decode(unscaled).sample
        return pixels.float().clamp(-1, 1)

    def predict(self, noisy: Tensor, timesteps: Tensor, conditioning: Conditioning) -> Tensor:
        """Moves and casts what it is given to the UNet."""
        # One weight, because unet.device and unet.dtype walk through every module each time.
        weight = self.unet.conv_in.weight
        device, dtype = weight.device, weight.dtype
        hidden = conditioning.to(device, dtype).hidden
        prediction: Tensor = self.unet(
            noisy.to(device, dtype), timesteps.to(device), encoder_hidden_states=hidden
        ).sample
        return prediction.float()

    def enable_gradient_checkpointing(self, *, text_encoders: bool) -> None:
        """Computes blocks of the UNet, and if asked of the text encoders, twice to save memory.

        The text encoders' part works in training mode only, as transformers decides it.
        """
        self.unet.enable_gradient_checkpointing()
        if text_encoders:
            for encoder in self.text_encoders.values():
                _checkpoint_layers(encoder)

    @property
    def _scale(self) -> float:
        return float(self.vae.config.get("scaling_factor", SCALING_FACTOR))


def _checkpoint_layers(encoder: CLIPTextModel) -> None:
    # transformers renames the method for this (5.23 warns of the one name, 5.17 lacks the other).
    if hasattr(encoder, "activation_checkpointing_enable"):
        encoder.activation_checkpointing_enable({"use_reentrant": False})
    else:
        encoder.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[no-untyped-call]  # a library's


def schedule_of(config: Mapping[str, Any], source: str) -> NoiseSchedule:
    """The noise schedule that a diffusers scheduler config describes."""
    betas = config.get("beta_schedule", "scaled_linear")
    if betas != "scaled_linear" or config.get("rescale_betas_zero_snr"):
        raise UserError(
            f"{source}: this model has a noise schedule of its own"
            f" ({betas}, zero terminal SNR {bool(config.get('rescale_betas_zero_snr'))})",
            "This version trains models with Stable Diffusion's usual schedule only",
            "Choose another base model",
        )
    start, end = float(config.get("beta_start", 0.00085)), float(config.get("beta_end", 0.012))
    return scaled_linear(start, end, int(config.get("num_train_timesteps", 1000)))


def prediction_of(config: Mapping[str, Any], source: str) -> Prediction:
    """What a diffusers scheduler config says that the UNet predicts."""
    match config.get("prediction_type", "epsilon"):
        case "epsilon":
            return "epsilon"
        case "v_prediction":
            return "v_prediction"
        case other:
            raise UserError(
                f'{source}: the model predicts "{other}"',
                "This version trains models that predict noise (epsilon) or velocity",
                "Choose another base model",
            )
