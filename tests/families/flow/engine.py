"""The engine of the family: loads it, and computes what `modules.interfaces.Family` asks for."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import nn

from modules.diffusion.flow import RectifiedFlow, rectified_flow
from modules.families.components import load_weights
from modules.formats.files.component_configs import read_config
from modules.formats.models.component_shapes import build_empty
from modules.interfaces import Conditioning, LatentMoments
from onetrainer.families.registry import folder_of
from onetrainer.families.spec import FamilySpec
from onetrainer.model_files.choices import require_family
from onetrainer.model_files.inspection import inspect_model


@dataclass(frozen=True)
class FlowFamily:
    """The loaded family."""

    spec: FamilySpec
    unet: nn.Module
    vae: nn.Module
    text_encoders: dict[str, nn.Module]
    process: RectifiedFlow = field(default_factory=rectified_flow)

    @property
    def name(self):
        return self.spec.name

    @property
    def vocabulary(self):
        raise NotImplementedError("bytes have no embeddings")

    def unread_modules(self):
        return frozenset()

    def with_embeddings(self, embeddings):
        assert not embeddings, "bytes have no embeddings"
        return self

    def with_prompt_weights(self, style):
        assert style == "off", "bytes have no weights"
        return self

    def with_process(self, process):
        return replace(self, process=process)

    def with_tiling(self, *, is_on):
        return self

    def layers(self):
        encoders = {name: [encoder.fc1] for name, encoder in self.text_encoders.items()}
        return {"unet": list(self.unet.attentions), **encoders, "vae": [self.vae.decoder]}

    def count_tokens(self, caption):
        return len(caption.encode())

    def encoder_settings(self):
        return f"scale {self.spec.vae_scale}", "bytes"

    def encode_blank_images(self, sizes):
        pass

    def encode_text(self, captions, *, among=()):
        longest = max(len(text.encode()) for text in (*captions, *among, " "))
        rows = [list(text.encode().ljust(longest, b"\0")) for text in captions]
        encoder = self.text_encoders["bytes"]
        return Conditioning(encoder(torch.tensor(rows).to(encoder.table.weight.device)))

    def encode_images(self, pixels):
        weight = self.vae.encoder.conv_in.weight
        posterior = self.vae.encode(pixels.to(weight.device, weight.dtype)).latent_dist
        scale = self.spec.vae_scale
        return LatentMoments(posterior.mean.float() * scale, posterior.std.float() * scale)

    def decode_unclamped(self, latents):
        weight = self.vae.decoder.conv_in.weight
        scaled = latents.to(weight.device, weight.dtype) / self.spec.vae_scale
        return self.vae.decode(scaled).sample.float()

    def decode_latents(self, latents):
        return self.decode_unclamped(latents).clamp(-1, 1)

    def predict(self, noisy, timesteps, conditioning, *, time_ids, masked=None):
        weight = self.unet.patches.weight
        text = conditioning.to(weight.device, weight.dtype).hidden
        noisy, timesteps = noisy.to(weight.device, weight.dtype), timesteps.to(weight.device)
        return self.unet(noisy, timesteps, text).float()


def load(spec, section, *, compute_dtype, device, components_device, dtypes):
    """Load it from a single file or from a folder."""
    model = inspect_model(Path(section.path))
    require_family(model, section.family)
    networks = _build(spec, model.path if model.layout == "folder" else spec.configs)
    for folder, network in networks.items():
        path = model.path if model.layout == "single-file" else model.path / folder
        dtype = torch.float32 if folder == "vae" else compute_dtype
        given = {folder_of(name): dtype for name, dtype in dtypes.items()}
        load_weights(
            network,
            path,
            spec.components[folder],
            given.get(folder, dtype),
            components_device or device,
        )
        network.requires_grad_(False).eval()
    return _assembled(spec, networks, device)


def empty(spec, *, dtypes, configs, clip_skip):
    """Build it on the meta device."""
    networks = _build(spec, configs or spec.configs)
    for name, dtype in dtypes.items():
        networks[folder_of(name)].to(torch.device("meta"), dtype).requires_grad_(False).eval()
    return _assembled(spec, networks, torch.device("cpu"))


def _build(spec, home):
    return {
        folder: build_empty(component, read_config(home / folder / "config.json"))
        for folder, component in spec.components.items()
    }


def _assembled(spec, networks, device):
    encoders = {encoder.name: networks[encoder.component.folder] for encoder in spec.encoders}
    process = rectified_flow(spec.shift).to(device)
    return FlowFamily(spec, networks["unet"], networks["vae"], encoders, process)
