"""The settings of the components that a method trains: the UNet and the text encoders."""

from onetrainer.config.base.components import TextEncoder, Unet
from onetrainer.config.base.encoders import encoder_key
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.full import Full
from onetrainer.families.registry import lora_components


def settings_path(component: str) -> str:
    """Return the path of a component's settings: that of "unet" or of a text encoder."""
    name = component if component == "unet" else f"text_encoders.{encoder_key(component)}"
    return f"method.{name}"


def component_settings(method: Adapter | Full, component: str) -> Unet | TextEncoder:
    """Return the settings of "unet" or of a text encoder. Raises ValueError for anything else."""
    return method.unet if component == "unet" else method.text_encoders[encoder_key(component)]


def trained_components(method: Adapter | Full, family: str) -> dict[str, Unet | TextEncoder]:
    """Return the settings of a family's components that are trained, by component."""
    components = {name: component_settings(method, name) for name in lora_components(family)}
    return {name: settings for name, settings in components.items() if settings.train}
