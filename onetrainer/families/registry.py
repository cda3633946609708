"""The model families."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from pydantic_core import PydanticKnownError

from onetrainer.families import stable_diffusion as sd
from onetrainer.families.spec import ComponentSpec, FamilySpec

FAMILIES: tuple[FamilySpec, ...] = (
    sd.SD15,
    sd.SD15_INPAINTING,
    sd.SD2,
    sd.SD2_INPAINTING,
    sd.SDXL,
    sd.SDXL_INPAINTING,
)


def family_spec(name: str) -> FamilySpec:
    """Return the family of a name; KeyError if there is none."""
    return {spec.name: spec for spec in FAMILIES}[name]


def families_with(has: Callable[[FamilySpec], bool]) -> tuple[str, ...]:
    """Return the names of the families that satisfy a condition."""
    return tuple(spec.name for spec in FAMILIES if has(spec))


def lora_components(base: str) -> tuple[str, ...]:
    """Return the networks that LoRAs of a family have layers of: the UNet and the text encoders."""
    return ("unet", *family_spec(base).encoder_names)


def component_of(name: str) -> ComponentSpec:
    """Return the component of a name such as "unet"; KeyError if there is none."""
    named = {
        name: component
        for spec in reversed(FAMILIES)
        for name, component in (
            ("unet", spec.unet),
            ("vae", spec.vae),
            *((encoder.name, encoder.component) for encoder in spec.encoders),
        )
    }
    return named[name]


def folder_of(component: str) -> str:
    """Return a component's folder in the diffusers layout, also the prefix of its layers' names."""
    return component_of(component).folder


def base_of(name: str) -> str:
    """Return a family without its specialization, whose components it has."""
    return family_spec(name).base or name


def require_known(name: str) -> str:
    """Return a name; raise pydantic's error of a choice if no family has it."""
    if not any(spec.name == name for spec in FAMILIES):
        *others, last = (f"'{spec.name}'" for spec in FAMILIES)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


@dataclass(frozen=True)
class FamilyTexts(Mapping[str, str]):
    """Texts by family name: one for each registered family, then `others`."""

    text: Callable[[FamilySpec], str]
    others: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        found = next((self.text(spec) for spec in FAMILIES if spec.name == name), None)
        return self.others[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return chain((spec.name for spec in FAMILIES), self.others)

    def __len__(self) -> int:
        return len(FAMILIES) + len(self.others)


FAMILY_LABELS = FamilyTexts(lambda spec: spec.label)
