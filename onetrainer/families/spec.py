"""What a model family is: its networks, their names in files, and what it was trained with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from onetrainer import ROOT

MODELS = ROOT / "configs" / "models"
"""Component configs and tokenizers of the published models, a folder for each base."""
CLIP_TOKENIZER = MODELS / "sd15" / "tokenizer"
"""The vocabulary that every published CLIP shares, OpenAI's and OpenCLIP's."""

Names = Literal["same", "unet", "vae", "open-clip"]
Prediction = Literal["epsilon", "v_prediction", "flow"]


class ComponentSpec(NamedTuple):
    """A network in files.

    Attributes:
        folder: Its folder in the diffusers layout.
        network: Its class, as "module:name", which has `from_config` or a `config_class`.
        prefix: That of its tensors in a single file.
        names: How a single file names the tensors: as ours, or by one of the original layouts.
        weights: Stem of its weight files in a folder.
    """

    folder: str
    network: str
    prefix: str
    names: Names = "same"
    weights: str = "diffusion_pytorch_model"

    @property
    def has_text_level(self) -> bool:
        """Whether names have the level `text_model.`, which some versions of CLIP's class omit."""
        return self.network.startswith("transformers:CLIPText")


class EncoderSpec(NamedTuple):
    """How a family uses one of its text encoders.

    Attributes:
        name: In LoRA files and embeddings.
        label: For people.
        component: Its files.
        width: Of its outputs in the published models.
        depth: Layers of the trained encoder.
        comfy_name: In ComfyUI's LoRA files and in embeddings.
        other_names, other_comfy_names: Further names that some programs give it there.
        pad: Token that fills a chunk after its end.
        clip_skip: Layer to read, counted from the end of the trained encoder; 1 is the last.
        is_normed: Whether the final layer norm follows.
        missing_layers: How many of the trained encoder's last layers the published diffusers
            weights omit.
        has_projection: Whether it gives a pooled vector.
    """

    name: str
    label: str
    component: ComponentSpec
    width: int
    depth: int = 0
    comfy_name: str = ""
    other_names: tuple[str, ...] = ()
    other_comfy_names: tuple[str, ...] = ()
    pad: int = 0
    clip_skip: int = 1
    is_normed: bool = True
    missing_layers: int = 0
    has_projection: bool = False

    @property
    def lora_names(self) -> tuple[str, ...]:
        """Its names in kohya's LoRA files; the first is written."""
        return (self.name, *self.other_names)

    @property
    def comfy_names(self) -> tuple[str, ...]:
        """Its names in ComfyUI's LoRA files; the first is written."""
        return (self.comfy_name or self.name, *self.other_comfy_names)


class FamilySpec(NamedTuple):
    """A model family.

    Attributes:
        name: In configs.
        base: The family whose components it uses; empty if it has its own.
        label: For people: "SD 1.5"; title: In the descriptions of presets, if it is another.
        description: The same with an article: "an SD 1.5 model".
        engine: Module of the engine that loads and builds it; see `modules.families.registry`.
            Empty for models that are recognized and not trained.
        encoders: In the order in which their outputs are concatenated.
        side: Side in pixels of the squares that the published models were made for.
        smallest_side: Below it, in pixels, the model works poorly; 0 for none.
        bucket_step: Usual multiple of bucket sides in pixels.
        latent_channels, latent_side: Channels of latents, and pixels per latent on a side.
        text_width, pooled_width: Width of encoded tokens, and of whole texts.
        vae_scale: Scaling factor of latents, by which VAEs are distinguished.
        fp16_vae: A VAE that computes in fp16, whose range the family's own exceeds.
        has_size_conditioning: Whether it is given the sizes of images.
        sees_masked_image: Whether it is given a mask and what of the image is outside of it.
        predictions: What its noise process can predict; the usual one is the first.
        other_channels: Input channels of the UNet for anything else.
        levels: Of the UNet.
        sides: Other sides by prediction.
        shift: Of the timesteps of a rectified flow.
        architecture: By ModelSpec; architectures: Others by prediction.
        vae_architecture: That of a separate VAE.
        kohya_versions: `ss_base_model_version` by prediction; kohya_v2: `ss_v2`.
        stated: Beginnings of `ss_base_model_version` and ModelSpec's architecture in the files of
            other programs.
        pipeline: The class of its diffusers folder; those of its tasks begin with the same words.
        index_flags: What else the folder's index says.
        has_original_layer_names: Whether kohya's LoRA files name the UNet's layers as the original
            layout does.
        has_convolution_projections: Whether projections around its transformers are 1x1
            convolutions, not linear layers.
        series: Of embeddings, for people: "SD 1.x".
        hub: Name of its published model on the Hugging Face Hub; "" where there is none any more.
        models: Folder of component configs; None for that of the base in configs/models.
        marks: Beginnings of tensor names, all of which only its single files have; empty for UNets,
            which `model_files` tells apart by what is said here of their layers.
        own_layers: Pattern of the layers that only it has, in LoRA files of any naming.
    """

    name: str
    label: str
    description: str
    engine: str
    unet: ComponentSpec
    vae: ComponentSpec
    encoders: tuple[EncoderSpec, ...]
    side: int
    text_width: int
    architecture: str
    vae_architecture: str
    pipeline: str = ""
    base: str = ""
    title: str = ""
    smallest_side: int = 0
    bucket_step: int = 8
    latent_channels: int = 4
    latent_side: int = 8
    pooled_width: int = 0
    vae_scale: float = 0.18215
    fp16_vae: str = ""
    has_size_conditioning: bool = False
    sees_masked_image: bool = False
    predictions: tuple[Prediction, ...] = ("epsilon", "v_prediction")
    other_channels: int = 0
    levels: int = 4
    sides: Mapping[Prediction, int] = {}
    shift: float = 1.0
    architectures: Mapping[Prediction, str] = {}
    kohya_versions: Mapping[Prediction, str] = {}
    kohya_v2: bool = False
    stated: tuple[str, ...] = ()
    index_flags: tuple[str, ...] = ()
    has_original_layer_names: bool = False
    has_convolution_projections: bool = False
    series: str = ""
    hub: str = ""
    models: Path | None = None
    marks: tuple[str, ...] = ()
    own_layers: str = ""

    def __hash__(self) -> int:
        return hash(self.name)  # mappings have no hash

    @property
    def components(self) -> dict[str, ComponentSpec]:
        """Every network by its folder."""
        found = (self.unet, self.vae, *(encoder.component for encoder in self.encoders))
        return {component.folder: component for component in found}

    @property
    def configs(self) -> Path:
        """Folder with the configs of the published components."""
        return self.models or MODELS / (self.base or self.name)

    def configs_in(self, folder: Path) -> Path:
        """Return the folder of component configs in a folder with one for each base."""
        return self.configs if folder == MODELS else folder / (self.base or self.name)

    @property
    def unet_channels(self) -> int:
        """Input channels of the UNet: latents, and with a masked image a mask and its latents."""
        masked = self.latent_channels + 1 if self.sees_masked_image else 0
        return self.latent_channels + masked + self.other_channels

    @property
    def has_unet(self) -> bool:
        """Whether it has Stable Diffusion's UNet, of any width."""
        return self.unet.names == "unet"

    @property
    def encoder_names(self) -> tuple[str, ...]:
        """Names of the text encoders."""
        return tuple(encoder.name for encoder in self.encoders)

    @property
    def encoder_folders(self) -> frozenset[str]:
        """Folders of the text encoders in the diffusers layout."""
        return frozenset(encoder.component.folder for encoder in self.encoders)

    @property
    def several_predictions(self) -> tuple[Prediction, ...]:
        """What its published models predict, if they differ: their files do not state it."""
        return (*self.architectures, "epsilon") if self.architectures else ()

    def latent_shape(self, width: int, height: int) -> tuple[int, int, int]:
        """Return channels, height and width of the latents of an image in pixels."""
        return self.latent_channels, height // self.latent_side, width // self.latent_side

    def side_of(self, prediction: Prediction) -> int:
        """Return the side of the squares that models with this prediction were made for."""
        return self.sides.get(prediction, self.side)
