"""The model families."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic_core import PydanticKnownError

from onetrainer.families import others
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
OTHERS: tuple[FamilySpec, ...] = (sd.SD2_DEPTH, sd.SDXL_REFINER, others.SD3, others.FLUX)
"""Models that are recognized and not trained."""


def recognized() -> tuple[FamilySpec, ...]:
    """Return every model whose files are recognized; the families come first."""
    return (*FAMILIES, *OTHERS)


def recognized_bases() -> list[FamilySpec]:
    """Return them without the specializations of others."""
    return [spec for spec in recognized() if not spec.base]


def narrowed(specs: Iterable[FamilySpec], fits: Callable[[FamilySpec], bool]) -> list[FamilySpec]:
    """Return the specs that fit, or all of them if none does."""
    listed = list(specs)
    return [spec for spec in listed if fits(spec)] or listed


def family_spec(name: str) -> FamilySpec:
    """Return the family of a name, or another recognized model; KeyError if there is none."""
    return {spec.name: spec for spec in recognized()}[name]


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


def any_base(text: Callable[[FamilySpec], str]) -> str:
    """Return a text of each family that is made from no other: "SD 1.5, SD 2 or SDXL"."""
    *most, last = (text(spec) for spec in FAMILIES if not spec.base)
    return f"{', '.join(most)} or {last}"


def require_known(name: str) -> str:
    """Return a name; raise pydantic's error of a choice if no family has it."""
    if not any(spec.name == name for spec in FAMILIES):
        *others, last = (f"'{spec.name}'" for spec in FAMILIES)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


@dataclass(frozen=True)
class FamilyTexts(Mapping[str, str]):
    """Texts by family name: one for each registered family, then `others`.

    is_recognizing: Whether it has one for each other recognized model too.
    """

    text: Callable[[FamilySpec], str]
    others: Mapping[str, str] = field(default_factory=dict)
    is_recognizing: bool = False

    def __getitem__(self, name: str) -> str:
        return self._texts()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts())

    def __len__(self) -> int:
        return len(self._texts())

    def _texts(self) -> dict[str, str]:
        specs = recognized() if self.is_recognizing else FAMILIES
        return {spec.name: self.text(spec) for spec in specs} | dict(self.others)


FAMILY_LABELS = FamilyTexts(lambda spec: spec.label)
