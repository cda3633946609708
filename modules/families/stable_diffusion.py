"""The model all Stable Diffusion families share: a UNet in latent space and a VAE."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

# The modules themselves: `from diffusers import …` would import every pipeline on top.
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor, nn

from modules.families.circular_padding import is_circular
from modules.families.layers import component_layers
from modules.families.prompts.prompts import ClipPrompts, unread_modules
from modules.formats.embeddings.embedding_file import Embedding
from modules.interfaces import Conditioning, LatentMoments, NoiseProcess
from modules.memory.to_device import to_device
from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.config.run.model import FamilyName
from onetrainer.families.spec import FamilySpec

SCALING_FACTOR = 0.18215  # default of VAE configs: Rombach et al. 2022, appendix G
LATENT_SIDE = 8  # pixels per latent
TILE = 512  # side of a VAE tile in pixels


@dataclass(frozen=True)
class StableDiffusion:
    """A loaded Stable Diffusion model; implements `modules.interfaces.Family`.

    Attributes:
        unet: In the compute dtype, or in that of its training, as are the text encoders.
        vae: In float32 or the requested dtype; a trained decoder may differ from its encoder.
        vae_tiling: Whether large images are decoded in tiles, which saves memory and may show
            seams.
    """

    spec: FamilySpec
    unet: UNet2DConditionModel
    vae: AutoencoderKL
    prompts: ClipPrompts
    process: NoiseProcess
    vae_tiling: bool = False
    _blanks: dict[tuple[int, int], Tensor] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> FamilyName:
        return self.spec.name

    @property
    def text_encoders(self) -> Mapping[str, nn.Module]:
        return {encoder.name: encoder.model for encoder in self.prompts.encoders}

    def unread_modules(self) -> frozenset[nn.Module]:
        """Return modules whose outputs nothing reads, such as layers after that of `clip_skip`."""
        return frozenset(
            module for encoder in self.prompts.encoders for module in unread_modules(encoder)
        )

    def encode_text(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        return self.prompts.encode(captions, among=among)

    @property
    def vocabulary(self) -> ClipPrompts:
        return self.prompts

    def with_embeddings(self, embeddings: Mapping[str, Embedding]) -> "StableDiffusion":
        return replace(self, prompts=self.prompts.with_embeddings(embeddings))

    def with_prompt_weights(self, style: PromptWeights) -> "StableDiffusion":
        return replace(self, prompts=replace(self.prompts, weights=style))

    def with_process(self, process: NoiseProcess) -> "StableDiffusion":
        return replace(self, process=process)

    def with_tiling(self, *, is_on: bool) -> "StableDiffusion":
        return replace(self, vae_tiling=is_on, _blanks={})

    def layers(self) -> dict[str, list[nn.Module]]:
        return component_layers(self.unet, self.vae, self.text_encoders)

    def count_tokens(self, caption: str) -> int:
        return self.prompts.count_tokens(caption)

    def encoder_settings(self) -> tuple[str, str]:
        padding = "; circular padding" if is_circular(self.vae) else ""
        return f"scale {self._scale}{padding}", self.prompts.settings()

    def encode_images(self, pixels: Tensor) -> LatentMoments:
        """Encode images, moved and cast to the encoder; never under autocast."""
        weight = self.vae.encoder.conv_in.weight
        with torch.autocast(weight.device.type, enabled=False):
            posterior = self.vae.encode(to_device(pixels, weight.device, weight.dtype)).latent_dist
            mean, std = posterior.mean.float(), posterior.std.float()
        return LatentMoments(mean * self._scale, std * self._scale)

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Decode latents, moved and cast to the VAE; never under autocast."""
        if not self.vae_tiling:
            return self.decode_unclamped(latents).clamp(-1, 1)
        self.vae.enable_tiling()
        # diffusers' default tile is as large as the training images, so there would be only one.
        self.vae.tile_sample_min_size, self.vae.tile_latent_min_size = TILE, TILE // LATENT_SIDE
        try:
            return self.decode_unclamped(latents).clamp(-1, 1)
        finally:
            self.vae.disable_tiling()

    def decode_unclamped(self, latents: Tensor) -> Tensor:
        """Decode latents without clamping, moved and cast to the decoder; never under autocast."""
        # A decoder that is trained may have another dtype than the encoder.
        weight = self.vae.decoder.conv_in.weight
        with torch.autocast(weight.device.type, enabled=False):
            unscaled = to_device(latents, weight.device, torch.float32) / self._scale
            pixels: Tensor = self.vae.decode(unscaled.to(weight.dtype)).sample
        return pixels.float()

    def predict(
        self,
        noisy: Tensor,
        timesteps: Tensor,
        conditioning: Conditioning,
        *,
        time_ids: Tensor,
        masked: Tensor | None = None,
    ) -> Tensor:
        """Predict with the UNet; inputs are moved and cast to it."""
        # unet.device and unet.dtype would walk through every module each time.
        weight = self.unet.conv_in.weight
        device, dtype = weight.device, weight.dtype
        if self.spec.sees_masked_image:
            masked = self._all_masked(noisy) if masked is None else to_device(masked, noisy.device)
            # The noisy latents, the mask, the latents of the masked image.
            noisy = torch.cat([noisy, masked.to(noisy.dtype)], dim=1)  # (B, 9, h, w)
        conditioning = conditioning.to(device, dtype)
        prediction: Tensor = self.unet(
            to_device(noisy, device, dtype),
            to_device(timesteps, device),
            encoder_hidden_states=conditioning.hidden,
            added_cond_kwargs=self._added(conditioning, time_ids),
        ).sample
        return prediction.float()

    def encode_blank_images(self, sizes: Iterable[tuple[int, int]]) -> None:
        if self.spec.sees_masked_image:
            for width, height in sizes:
                self._blank(height // LATENT_SIDE, width // LATENT_SIDE)

    def _blank(self, height: int, width: int) -> Tensor:
        """Return the latents of a blank image, (1, 4, h, w), on the VAE's device at the time."""
        if (height, width) not in self._blanks:
            with torch.no_grad():
                gray = torch.zeros(1, 3, LATENT_SIDE * height, LATENT_SIDE * width)
                self._blanks[height, width] = self.encode_images(gray).mean
        return self._blanks[height, width]

    def _all_masked(self, noisy: Tensor) -> Tensor:
        """Return a mask of the whole image and a blank one's latents, (B, 5, h, w)."""
        height, width = noisy.shape[-2:]
        blank = to_device(self._blank(height, width), noisy.device)
        return torch.cat([torch.ones_like(blank[:, :1]), blank], dim=1).expand(
            len(noisy), -1, -1, -1
        )

    def _added(self, conditioning: Conditioning, time_ids: Tensor) -> Mapping[str, Tensor]:
        """Return the pooled text, and the time ids in float32: half precision would round sizes."""
        if not self.spec.has_size_conditioning:
            return {}
        if conditioning.pooled is None:
            raise ValueError(f"{self.spec.label} needs pooled text embeddings")
        return {
            "text_embeds": conditioning.pooled,
            "time_ids": to_device(time_ids, conditioning.pooled.device).float(),
        }

    @property
    def _scale(self) -> float:
        return float(self.vae.config.get("scaling_factor", SCALING_FACTOR))
