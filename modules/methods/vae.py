"""Fine-tuning of a VAE's decoder; the encoder, and with it the latents, stays unchanged."""

from pathlib import Path

import torch
from torch import Tensor

from modules.formats.files.tensor_source import LazyTensor
from modules.formats.models.vae_file import write_vae_file, write_vae_folder
from modules.interfaces import ExportOptions, Family, ParameterGroup
from modules.methods.full import WEIGHT_DTYPES, OwnWeights
from modules.methods.model_source import ModelSource
from modules.methods.original_weights import OriginalWeights
from onetrainer.config.methods.full import Vae as VaeSection

COMPONENT: str = "vae"
DECODER = ("post_quant_conv.", "decoder.")
"""Prefixes of diffusers' names of the decoder's tensors."""


class VaeDecoder(OwnWeights):
    """A family whose VAE decoder is trained."""

    @staticmethod
    def attach(
        family: Family,
        section: VaeSection,
        *,
        source: ModelSource,
        keep_original: torch.device | None = None,
    ) -> "VaeDecoder":
        """Make the decoder trainable in the section's number format; the encoder keeps its dtype.

        Args:
            family: Its decoder is changed in place.
            section: The method's settings.
            source: Files the family was loaded from.
            keep_original: Device for a copy of the weights for `base_model`; None for no copy.
        """
        weights = {
            name: parameter
            for name, parameter in family.vae.named_parameters()
            if name.startswith(DECODER)
        }
        for weight in weights.values():
            weight.data = weight.data.to(WEIGHT_DTYPES[section.weights])  # from the file's fp32
            weight.requires_grad_(True)
        original = OriginalWeights.of(weights, keep_original) if keep_original else None
        named = {f"{COMPONENT}.{name}": weight for name, weight in weights.items()}
        groups = (ParameterGroup(COMPONENT, named),)
        return VaeDecoder(family, source, {COMPONENT: weights}, groups, (family.vae,), original)

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write the VAE alone; its encoder is read from the source."""
        with self.source.open_vae(self.family) as stored:
            tensors: dict[str, Tensor | LazyTensor] = {**stored.tensors}
            tensors |= {name: weight.detach() for name, weight in self.weights[COMPONENT].items()}
            if options.model_format == "diffusers":
                write_vae_folder(path, stored.config, tensors, dtype=options.dtype)
                return [path]
            file = path.with_name(f"{path.name}.safetensors")
            vae = self.family.spec.vae
            write_vae_file(file, vae, tensors, dtype=options.dtype, metadata=options.metadata)
            return [file]
