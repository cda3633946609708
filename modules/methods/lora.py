"""Low-rank adaptation: small trained matrices beside the frozen weights.

Source: Hu et al. 2021, arXiv:2106.09685; for convolutions as in LyCORIS' LoCon.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from lycoris.functional.locon import bypass_forward_diff
from lycoris.modules.locon import LoConModule
from torch import Tensor, nn

from modules import seeds
from modules.formats.lora_file import LoraFile, write_lora
from modules.formats.lora_names import COMPONENTS, Layer, LayerNames, Naming, Part
from modules.interfaces import Family, ParameterGroup
from modules.methods.lora_targets import adapter_name, chosen_layers, layer_names
from onetrainer.config.method import Lora as LoraSection
from onetrainer.config.model import Prediction
from onetrainer.model_files.adapter_keys import ALPHA, DOWN, UP


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

    adapters: by part ("unet", "te" …), then by `adapter_name`; float32. layers: what each adapter
    lies on, by its name.
    """

    adapters: Mapping[Part, nn.ModuleDict]
    layers: Mapping[str, Layer]
    parts: Mapping[Part, nn.Module]
    names: LayerNames
    prediction: Prediction
    section: LoraSection

    @staticmethod
    def attach(family: Family, section: LoraSection, *, seed: int) -> "Lora":
        """Puts untrained adapters, which change nothing yet, on the family's chosen layers.

        The down matrices depend on the seed and on each layer's name, on nothing else.
        """
        names = layer_names(family)
        parts: dict[Part, nn.Module] = {"unet": family.unet}
        if section.train_text_encoder:
            parts |= {
                part: family.text_encoders[part]
                for part in COMPONENTS
                if part in family.text_encoders
            }
        chosen = {
            part: dict(chosen_layers(part, model, section.targets)) for part, model in parts.items()
        }
        adapters = {part: _attach(found, section, seed) for part, found in chosen.items()}
        layers = {adapter_name(layer): layer for found in chosen.values() for layer in found}
        return Lora(adapters, layers, parts, names, family.prediction, section)

    def parameter_groups(self) -> list[ParameterGroup]:
        return [
            ParameterGroup(part, list(held.parameters())) for part, held in self.adapters.items()
        ]

    def state_dict(self) -> dict[str, Tensor]:
        return {
            name: parameter.detach()
            for held in self.adapters.values()
            for name, parameter in held.named_parameters()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError unless names and shapes are exactly those of `state_dict`."""
        own = self.state_dict()
        if own.keys() != state.keys():
            raise ValueError(f"other adapters: {sorted(own.keys() ^ state.keys())[:4]}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                raise ValueError(f"{name}: {state[name].shape} is not {tensor.shape}")
            tensor.copy_(state[name])

    def train(self, mode: bool) -> None:
        for module in (*self.parts.values(), *self.adapters.values()):
            module.train(mode)

    def export(
        self,
        path: Path,
        *,
        dtype: torch.dtype,
        metadata: Mapping[str, str],
        naming: Naming = "kohya",
    ) -> None:
        """Writes a LoRA file; `metadata` wins over what is known here."""
        file = LoraFile(self._kinds(), {}, {}, self._metadata() | dict(metadata), naming)
        write_lora(path, file, self.names, naming=naming, dtype=dtype, hashes=True)

    def _kinds(self) -> dict[Layer, dict[str, Tensor]]:
        kinds: dict[Layer, dict[str, Tensor]] = {}
        for held in self.adapters.values():
            for name, adapter in held.items():
                assert isinstance(adapter, Adapter)
                kinds[self.layers[name]] = {
                    DOWN: adapter.lora_down.weight.detach(),
                    UP: adapter.lora_up.weight.detach(),
                    ALPHA: torch.tensor(self.section.alpha),
                }
        return kinds

    def _metadata(self) -> dict[str, str]:
        """The words by which other programs tell what a file is for."""
        rank, alpha = str(self.section.rank), str(self.section.alpha)
        known = {
            "ss_network_module": "networks.lora",
            "ss_network_dim": rank,
            "ss_network_alpha": alpha,
            "ss_base_model_version": self._base_model_version(),
            "ss_v2": str(self.names.base == "sd2"),
        }
        if self.section.targets == "full":
            known["ss_network_args"] = f'{{"conv_dim": "{rank}", "conv_alpha": "{alpha}"}}'
        return known

    def _base_model_version(self) -> str:
        """The word of kohya's programs, which have none for an SDXL of velocity."""
        velocity = "_v" if self.prediction == "v_prediction" else ""
        match self.names.base:
            case "sd15":
                return f"sd_v1{velocity}"
            case "sd2":
                return f"sd_v2{velocity}"
            case "sdxl":
                return "sdxl_base_v1-0"


def _attach(layers: Mapping[Layer, nn.Module], section: LoraSection, seed: int) -> nn.ModuleDict:
    held = nn.ModuleDict()
    # LyCORIS draws initial weights from the global generator, which is not ours to move.
    with torch.random.fork_rng(devices=[]):
        for layer, module in layers.items():
            name = adapter_name(layer)
            held[name] = _adapter(name, module, section, seed)
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
