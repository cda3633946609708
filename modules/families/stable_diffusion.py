"""What all Stable Diffusion families share: the UNet in latents, the VAE around it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

# The modules themselves: `from diffusers import …` would import every pipeline on top.
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor, nn

from modules.diffusion.schedule import NoiseSchedule
from modules.families.prompts.prompts import ClipPrompts
from modules.families.spec import Added
from modules.formats.embeddings.embedding_file import Embedding
from modules.formats.models.whole_model import INPAINTING_CHANNELS
from modules.interfaces import Conditioning, LatentMoments
from modules.memory.to_device import sent
from onetrainer.config.run.model import FamilyName, Prediction

SCALING_FACTOR = 0.18215  # where a VAE's config does not tell: Rombach et al. 2022, appendix G
LATENT_SIDE = 8  # pixels a latent's side
TILE = 512  # pixels a tile's side


@dataclass(frozen=True)
class StableDiffusion:
    """A loaded Stable Diffusion; `modules.interfaces.Family` tells what each method gives.

    unet and text encoders: in the compute dtype, or in that of their training. vae: float32, or
    what was asked for; a decoder that trains may be in another one than its encoder.
    added: what the UNet is told besides text. decodes_in_tiles: whether large pictures are decoded
    piece by piece, which takes less memory and may show seams.
    """

    name: FamilyName
    unet: UNet2DConditionModel
    vae: AutoencoderKL
    prompts: ClipPrompts
    schedule: NoiseSchedule
    prediction: Prediction
    added: Added
    decodes_in_tiles: bool = False
    _blanks: dict[tuple[int, int], Tensor] = field(default_factory=dict, repr=False)

    @property
    def text_encoders(self) -> Mapping[str, nn.Module]:
        return {encoder.name: encoder.model for encoder in self.prompts.encoders}

    def encode_text(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        return self.prompts.encode(captions, among=among)

    @property
    def vocabulary(self) -> ClipPrompts:
        return self.prompts

    def with_embeddings(self, embeddings: Mapping[str, Embedding]) -> "StableDiffusion":
        return replace(self, prompts=self.prompts.with_embeddings(embeddings))

    def count_tokens(self, caption: str) -> int:
        return self.prompts.count_tokens(caption)

    def encoder_settings(self) -> tuple[str, str]:
        return f"scale {self._scale}", self.prompts.settings()

    def encode_images(self, pixels: Tensor) -> LatentMoments:
        """Moves and casts the pixels to the encoder; never under autocast."""
        weight = self.vae.encoder.conv_in.weight
        with torch.autocast(weight.device.type, enabled=False):
            posterior = self.vae.encode(sent(pixels, weight.device, weight.dtype)).latent_dist
            mean, std = posterior.mean.float(), posterior.std.float()
        return LatentMoments(mean * self._scale, std * self._scale)

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Moves and casts the latents to the VAE; never under autocast."""
        if not self.decodes_in_tiles:
            return self.decode_unclamped(latents).clamp(-1, 1)
        self.vae.enable_tiling()
        # diffusers' tiles are as large as the pictures that the VAE learned: then there is one.
        self.vae.tile_sample_min_size, self.vae.tile_latent_min_size = TILE, TILE // LATENT_SIDE
        try:
            return self.decode_unclamped(latents).clamp(-1, 1)
        finally:
            self.vae.disable_tiling()

    def decode_unclamped(self, latents: Tensor) -> Tensor:
        """Moves and casts the latents to the decoder; never under autocast."""
        # The decoder's own, which while it trains may be another one than the encoder's.
        weight = self.vae.decoder.conv_in.weight
        with torch.autocast(weight.device.type, enabled=False):
            unscaled = sent(latents, weight.device, torch.float32) / self._scale
            pixels: Tensor = self.vae.decode(unscaled.to(weight.dtype)).sample
        return pixels.float()

    def predict(
        self,
        noisy: Tensor,
        timesteps: Tensor,
        conditioning: Conditioning,
        *,
        frames: Tensor,
        masked: Tensor | None = None,
    ) -> Tensor:
        """Moves and casts what it is given to the UNet."""
        # One weight, because unet.device and unet.dtype walk through every module each time.
        weight = self.unet.conv_in.weight
        device, dtype = weight.device, weight.dtype
        if weight.shape[1] == INPAINTING_CHANNELS:
            masked = self._all_masked(noisy) if masked is None else sent(masked, noisy.device)
            # The noisy latent, the mask, the latent of what is left of the picture.
            noisy = torch.cat([noisy, masked.to(noisy.dtype)], dim=1)  # (B, 9, h, w)
        conditioning = conditioning.to(device, dtype)
        prediction: Tensor = self.unet(
            sent(noisy, device, dtype),
            sent(timesteps, device),
            encoder_hidden_states=conditioning.hidden,
            added_cond_kwargs=self.added(conditioning, frames),
        ).sample
        return prediction.float()

    def prepare_blanks(self, sizes: Iterable[tuple[int, int]]) -> None:
        """Encodes empty pictures of these widths and heights, in pixels, while the VAE is at hand.

        A UNet for inpainting asks for them in every step; others do not, and there is nothing done.
        """
        if self.unet.conv_in.weight.shape[1] == INPAINTING_CHANNELS:
            for width, height in sizes:
                self._blank(height // LATENT_SIDE, width // LATENT_SIDE)

    def _blank(self, height: int, width: int) -> Tensor:
        """The latent of an empty picture, (1, 4, h, w), where the VAE was when it was encoded."""
        if (height, width) not in self._blanks:
            with torch.no_grad():
                gray = torch.zeros(1, 3, LATENT_SIDE * height, LATENT_SIDE * width)
                self._blanks[height, width] = self.encode_images(gray).mean
        return self._blanks[height, width]

    def _all_masked(self, noisy: Tensor) -> Tensor:
        """(B, 5, h, w): everything is to be painted, and nothing is left but the mask's gray."""
        height, width = noisy.shape[-2:]
        blank = sent(self._blank(height, width), noisy.device)
        return torch.cat([torch.ones_like(blank[:, :1]), blank], dim=1).expand(
            len(noisy), -1, -1, -1
        )

    @property
    def _scale(self) -> float:
        return float(self.vae.config.get("scaling_factor", SCALING_FACTOR))
