"""Families loaded from files, whose own weights train, for tests of what is written of them."""

from dataclasses import dataclass
from pathlib import Path

import torch

from modules.families.load import load
from modules.families.stable_diffusion import StableDiffusion
from modules.methods.full import Full, component_dtypes
from modules.methods.model_source import ModelSource
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.run.model import Model
from onetrainer.families.registry import base_of, family_spec
from tests import tiny
from tests.batches import TIME_IDS


@dataclass(frozen=True)
class Origin:
    """A tiny model on the disk, and what opens it. configs: of each base, for single files."""

    section: Model
    configs: Path

    @property
    def source(self) -> ModelSource:
        return ModelSource.of(self.section, configs=self.configs)

    def load(self, dtypes=None, *, path: Path | None = None, dtype=torch.float32, vae=None):
        """The family of these files, or of others in their place."""
        changes = {"path": str(path)} if path else {}
        changes |= {} if vae is None else {"vae": str(vae)}
        section = self.section.model_copy(update=changes)
        base = base_of(section.family)
        return load(
            family_spec(section.family),
            section,
            compute_dtype=dtype,
            device=tiny.CPU,
            configs=self.configs / base,
            dtypes=dtypes or {},
        )


def write_origin(folder: Path, name: str, layout: str, **settings) -> Origin:
    """A tiny model in a layout, float32."""
    configs = tiny.write_configs(folder / "configs" / base_of(name), name).parent
    # Said outright, because a single file of SD 2 does not say what it predicts.
    prediction = settings.get("prediction", "epsilon")
    if layout == "folder":
        path = tiny.write_folder(folder / "base", name=name, **settings)
    else:
        path = tiny.write_single_file(folder / "base.safetensors", name=name)
    return Origin(Model(family=name, path=str(path), prediction=prediction), configs)


def attach(origin: Origin, section: FullSection, *, dtype=torch.float32, **options):
    """The family with its method, loaded as a run loads it."""
    dtypes = component_dtypes(section, base_of(origin.section.family))
    family = origin.load(dtypes, dtype=dtype)
    return family, Full.attach(family, section, source=origin.source, **options)


def shake(method, scale: float = 0.1) -> None:
    """Moves every trained weight, as training would."""
    generator = torch.Generator().manual_seed(1)
    for tensor in method.state_dict().values():
        tensor.add_(torch.randn(tensor.shape, generator=generator).to(tensor.dtype) * scale)


def states(family: StableDiffusion) -> dict[str, torch.Tensor]:
    """Every tensor of a family, by part."""
    named = {"unet": family.unet, "vae": family.vae, **family.text_encoders}
    return {
        f"{part}.{name}": tensor.detach().clone()
        for part, module in named.items()
        for name, tensor in module.state_dict().items()
    }


def loss_of(family: StableDiffusion) -> torch.Tensor:
    """Something to differentiate that every network has a part in."""
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(2))
    text = family.encode_text(["a cat"])
    return family.predict(noisy, torch.tensor([500]), text, time_ids=TIME_IDS).square().mean()
