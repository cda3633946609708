"""Fine-tuning of a VAE's decoder; the encoder, and with it the latents, stays unchanged."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from modules.formats.files.tensor_source import LazyTensor
from modules.formats.models.vae_file import write_vae_file, write_vae_folder
from modules.interfaces import ExportOptions, Family, ParameterGroup
from modules.methods.full import WEIGHT_DTYPES, load_weights
from modules.methods.layers.inference_mode import inference_mode
from modules.methods.model_source import ModelSource
from modules.methods.original_weights import OriginalWeights
from onetrainer.config.methods.full import Vae as VaeSection
from onetrainer.config.run.model import base_of

COMPONENT = "vae"
DECODER = ("post_quant_conv.", "decoder.")
"""Prefixes of diffusers' names of the decoder's tensors."""


@dataclass(frozen=True)
class VaeDecoder:
    """A family whose VAE decoder is trained; implements `modules.interfaces.Method`.

    Attributes:
        weights: The decoder's parameters, by the VAE's names.
        original: Their values before training; None if not kept.
    """

    family: Family
    source: ModelSource
    weights: Mapping[str, nn.Parameter]
    original: OriginalWeights | None

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
        return VaeDecoder(family, source, weights, original)

    def parameter_groups(self) -> list[ParameterGroup]:
        named = {f"{COMPONENT}.{name}": weight for name, weight in self.weights.items()}
        return [ParameterGroup(COMPONENT, named)]

    def extra_modules(self) -> nn.Module:
        return nn.Module()  # everything that trains is the model's own

    def state_dict(self) -> dict[str, Tensor]:
        return {f"{COMPONENT}.{name}": weight.detach() for name, weight in self.weights.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raise ValueError unless names and shapes are exactly those of `state_dict`."""
        load_weights(self.state_dict(), state)

    def train(self, mode: bool) -> None:
        self.family.vae.train(mode)

    def base_model(self) -> AbstractContextManager[None]:
        """Raise ValueError if the original weights were not kept."""
        if self.original is None:
            raise ValueError("the original weights were not kept")
        return self.original.restored()

    def merged(self) -> AbstractContextManager[None]:
        return inference_mode((self.family.vae,))

    def after_step(self) -> None:
        """Do nothing: weights are not constrained."""

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write the VAE alone; its encoder is read from the source."""
        with self.source.open_vae(self.family) as stored:
            tensors: dict[str, Tensor | LazyTensor] = {**stored.tensors}
            tensors |= {name: weight.detach() for name, weight in self.weights.items()}
            if options.model_format == "diffusers":
                write_vae_folder(path, stored.config, tensors, dtype=options.dtype)
                return [path]
            file = path.with_name(f"{path.name}.safetensors")
            base = base_of(self.family.name)
            write_vae_file(file, base, tensors, dtype=options.dtype, metadata=options.metadata)
            return [file]
