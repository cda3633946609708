"""Low-rank adaptation: small trained matrices beside the frozen weights.

Source: Hu et al. 2021, arXiv:2106.09685; for convolutions as in LyCORIS' LoCon.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from lycoris.functional.locon import bypass_forward_diff
from lycoris.modules.locon import LoConModule
from torch import Tensor, nn

from modules import seeds
from modules.formats.lora_file import write_lora
from modules.interfaces import Family, ParameterGroup
from modules.methods.lora_targets import text_layers, unet_layers
from onetrainer.config.method import Lora as LoraSection

UNET = "unet"


class Adapter(LoConModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoRA, computed with plain torch operations, with dropout on what goes in.

    LyCORIS chooses a kernel at every call. On a graphics card that compiles for seconds in the
    first steps, and may take another kernel after a resume, which gives other bits. It also drops
    adapter outputs; the paper and peft drop inputs.
    """

    def bypass_forward_diff(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """What the adapter adds to the layer's output, in x's dtype."""
        down = self.lora_down
        geometry = {"stride": down.stride, "padding": down.padding} if self.isconv else {}
        added: Tensor = bypass_forward_diff(
            self.dropout(x),
            None,
            down.weight.to(x.dtype),
            self.lora_up.weight.to(x.dtype),
            None,
            gamma=self.scale * scale,
            extra_args=geometry,
            backend="torch",
        )
        return added


@dataclass(frozen=True)
class Lora:
    """Adapters attached to a family; `modules.interfaces.Method` tells what each method gives.

    adapters: by part ("unet", "te"), then by the layer's name in the file; float32.
    """

    adapters: Mapping[str, nn.ModuleDict]
    parts: Mapping[str, nn.Module]
    section: LoraSection

    @staticmethod
    def attach(family: Family, section: LoraSection, *, seed: int) -> "Lora":
        """Puts untrained adapters, which change nothing yet, on the family's chosen layers.

        The down matrices depend on the seed and on each layer's name, on nothing else.
        """
        parts: dict[str, nn.Module] = {UNET: family.unet}
        layers = {UNET: unet_layers(family.unet, section.targets)}
        if section.train_text_encoder:
            for name, encoder in family.text_encoders.items():
                parts[name] = encoder
                layers[name] = text_layers(encoder, section.targets, name=name)
        adapters = {part: _attach(found, section, seed) for part, found in layers.items()}
        return Lora(adapters, parts, section)

    def parameter_groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup(part, list(held.parameters())) for part, held in self.adapters.items()
        ]

    def state_dict(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self._named_parameters()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError unless names and shapes are exactly those of `state_dict`."""
        own = dict(self._named_parameters())
        if own.keys() != state.keys():
            raise ValueError(f"other adapters: {sorted(own.keys() ^ state.keys())[:4]}")
        with torch.no_grad():
            for name, parameter in own.items():
                if parameter.shape != state[name].shape:
                    raise ValueError(f"{name}: {state[name].shape} is not {parameter.shape}")
                parameter.copy_(state[name])

    def train(self, mode: bool) -> None:
        for module in (*self.parts.values(), *self.adapters.values()):
            module.train(mode)

    def export(self, path: Path, *, dtype: torch.dtype, metadata: Mapping[str, str]) -> None:
        """In kohya's form; `metadata` wins over what is known here."""
        write_lora(
            path,
            self.state_dict(),
            alpha=self.section.alpha,
            dtype=dtype,
            metadata=self._metadata() | dict(metadata),
        )

    def _named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        for held in self.adapters.values():
            yield from held.named_parameters()

    def _metadata(self) -> dict[str, str]:
        """The words by which other programs tell what a file is for."""
        rank, alpha = str(self.section.rank), str(self.section.alpha)
        known = {
            "ss_network_module": "networks.lora",
            "ss_network_dim": rank,
            "ss_network_alpha": alpha,
            "ss_base_model_version": "sd_v1",
            "ss_v2": "False",
        }
        if self.section.targets == "full":
            known["ss_network_args"] = f'{{"conv_dim": "{rank}", "conv_alpha": "{alpha}"}}'
        return known


def _attach(
    layers: Iterable[tuple[str, nn.Module]], section: LoraSection, seed: int
) -> nn.ModuleDict:
    held = nn.ModuleDict()
    # LyCORIS draws initial weights from the global generator, which is not ours to move.
    with torch.random.fork_rng(devices=[]):
        for name, layer in layers:
            held[name] = _adapter(name, layer, section, seed)
    return held


def _adapter(name: str, layer: nn.Module, section: LoraSection, seed: int) -> Adapter:
    adapter = Adapter(
        name,
        layer,
        multiplier=1.0,
        lora_dim=section.rank,
        alpha=section.alpha,
        dropout=section.dropout,
        bypass_mode=True,
    )
    generator = seeds.generator(seed, f"lora-init {name}")
    nn.init.kaiming_uniform_(adapter.lora_down.weight, a=math.sqrt(5), generator=generator)
    nn.init.zeros_(adapter.lora_up.weight)
    adapter.to(next(layer.parameters()).device, torch.float32)
    adapter.apply_to()
    return adapter
