"""The request to generate images: base model, additions to it, prompts and seeds."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.captions.prompt_file import MAX_TEXT
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.base.prompt_weights import PromptWeights
from onetrainer.config.base.section import Section, Ui
from onetrainer.config.run.hardware import Device, Precision
from onetrainer.config.run.model import FamilyName, Model, PredictionChoice, ZeroSnrChoice
from onetrainer.config.run.sampling import (
    MAX_STRENGTH,
    Prompt,
    SamplerName,
    Sampling,
)
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS, family_spec
from onetrainer.families.spec import Prediction
from onetrainer.model_files.adapters import adapter_at
from onetrainer.model_files.choices import (
    require_family,
    require_made_for,
    require_published_size,
    require_vae,
)
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import DESCRIPTIONS
from onetrainer.run.run_folder import RunFolder

NOT_ADDITIONS = ("vae", "unet", "text-encoder", *FAMILY_LABELS)

MAX_SEED = 2**63 - 1
MAX_VALUES = 64

SIDE = Field(ge=64, le=4096, multiple_of=8)
Strength = Annotated[float, Field(ge=-MAX_STRENGTH, le=MAX_STRENGTH)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]


class SampledLora(Section):
    """A LoRA file, or a run's folder with the step whose weights are used, and its strength.

    strength: 1 is as trained. step: Of a run; None for the newest.
    """

    path: str
    strength: Strength = 1.0
    step: Annotated[int, Field(ge=1)] | None = None

    @property
    def run(self) -> RunFolder | None:
        """The run, if it is one."""
        folder = RunFolder(Path(self.path))
        return folder if folder.is_run() else None

    @property
    def name(self) -> str:
        """What people call it: the file's name without suffix, or the run's with the step."""
        path = Path(self.path)
        return path.stem if self.run is None else f"{path.name}-{self.step or 'newest'}"


AxisName = Literal[
    "prompt",
    "negative",
    "seed",
    "size",
    "steps",
    "guidance",
    "sampler",
    "strength",
    "lora",
    "step",
]
AXIS_LABELS: Mapping[AxisName, str] = {
    "prompt": "Prompt",
    "negative": "Negative prompt",
    "seed": "Seed",
    "size": "Size",
    "steps": "Steps",
    "guidance": "Guidance",
    "sampler": "Sampler",
    "strength": "LoRA strength",
    "lora": "LoRA",
    "step": "Step of the run",
}


class Axis(Section):
    """What differs along one side of a grid."""

    of: AxisName
    values: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_VALUES)]
    """As a person types them."""

    lora: Annotated[int, Field(ge=1)] = 1
    """Which LoRA of the list "strength", "lora" and "step" are about, from 1."""


class SampleRequest(Section):
    """The request to generate an image of every prompt with every seed."""

    base: Annotated[str, Ui("Base model", unit="BASE")]
    """A folder, a file or the name of a model on the Hugging Face Hub."""

    prompts: Annotated[tuple[Text, ...], Ui("Prompt", lead="content")] = ()
    """What an image should show."""

    listed: tuple[Prompt, ...] = ()
    """Prompts of a file. What one sets itself (`model_fields_set`) goes before the options."""

    negative: Annotated[Text, Ui("Negative prompt")] = ""
    """What no image should show."""

    prompt_weights: Annotated[PromptWeights, Ui("Prompt weights")] = "off"
    """Reads (word:1.3) as a weight, as "a1111" or "comfyui" do; "off" reads it as text."""

    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), Ui("Seed", unit="N")] = (
        Prompt.default().seed,
    )
    """The seed of the noise."""

    width: Annotated[int | None, SIDE, Ui("Width", unit="PX")] = None
    """A multiple of 8; the side that the model was trained at if left out."""

    height: Annotated[int | None, SIDE, Ui("Height", unit="PX")] = None
    """The same for the height."""

    loras: Annotated[
        tuple[SampledLora, ...], Ui("LoRA", unit="FILE[:STRENGTH]", lead="additions to the model")
    ] = ()
    """A LoRA and its strength, 1 if left out. Also a run's folder, RUN or RUN@STEP: what it had
    trained by a step of which it keeps a checkpoint or a file."""

    embeddings: Annotated[tuple[str, ...], Ui("Embedding", unit="FILE")] = ()
    """An embedding; its token is the file's name without suffix, or the name inside."""

    vae: Annotated[str, Ui("VAE", unit="FILE")] = ""
    """A VAE that replaces the model's own."""

    clip_skip: Annotated[int, Field(ge=0, le=12), Ui("Clip skip")] = 0
    """The text encoder layer to use, counted from the end: 1 for the last, up to 12. 0 is the
    layer that the model was trained with."""

    family: Annotated[FamilyName | None, Ui("Model family", choices=FAMILY_LABELS)] = None
    """The model's family; detected if left out."""

    prediction: Annotated[PredictionChoice, Ui("Prediction")] = "auto"
    """The model's prediction type; detected if left out."""

    zero_terminal_snr: Annotated[ZeroSnrChoice, Ui("Zero terminal SNR")] = "auto"
    """Whether the noise schedule ends in pure noise; detected if left out."""

    circular_padding: Annotated[bool, Ui("Circular padding")] = False
    """Seamless textures: convolutions wrap around the edges, as in training with it."""

    offline: Annotated[bool, Ui("Offline")] = False
    """Never uses the network."""

    sampler: Annotated[SamplerName, Ui("Sampler", lead="sampling")] = Sampling.default().sampler
    """The method that turns noise into an image, also by its usual name: "DPM++ 2M Karras"."""

    steps: Annotated[int, Field(ge=1, le=1000), Ui("Sampling steps")] = Sampling.default().steps
    """Denoising steps."""

    guidance: Annotated[float, Field(ge=0, le=50), Ui("Guidance")] = Sampling.default().guidance
    """How strongly images follow their prompt; 1 for no guidance."""

    guidance_rescale: Annotated[float, Field(ge=0, le=1), Ui("Guidance rescale")] = 0.0
    """0 to 1; 0.7 for models with zero terminal SNR."""

    batch: Annotated[int, Field(ge=1, le=1024), Ui("Images at once")] = 1
    """Images at once."""

    precision: Annotated[Precision | None, Ui("Precision")] = None
    """The number format of computing; bf16 on a GPU and fp32 on the CPU if left out."""

    device: Annotated[Device, Ui("Device")] = "auto"
    """Where images are generated; "auto" uses the GPU if there is one."""

    grid: Annotated[bool, Ui("Grid")] = False
    """Also writes a grid of all images, prompts by seeds."""

    x: Axis | None = None
    """What differs from column to column of a grid; see `sample_table`."""

    y: Axis | None = None
    """The same from row to row."""

    out: Annotated[str, Ui("Output folder", unit="FOLDER")] = "samples"
    """The output folder; nothing in it is overwritten."""


def model_section(request: SampleRequest, path: Path) -> Model:
    """Return the base model's settings with its family. path: The model on this disk.

    Raises:
        UserError: If the model's family is not the requested one, or unknown.
    """
    model = inspect_model(path)
    # For a model of no known family, `require_family` reports what it is.
    detected = next(
        (name for name in FAMILY_LABELS if name == model.kind), next(iter(FAMILY_LABELS))
    )
    family = request.family or detected
    require_family(model, family, has_custom_vae=bool(request.vae))
    require_published_size(model)
    return Model(
        family=family,
        path=str(path),
        vae=request.vae,
        prediction=request.prediction,
        zero_terminal_snr=request.zero_terminal_snr,
        clip_skip=request.clip_skip,
        circular_padding=request.circular_padding,
        offline=request.offline,
    )


def rows_of(
    request: SampleRequest, family: FamilyName, prediction: Prediction
) -> list[tuple[Shot, ...]]:
    """Return the images of each prompt, one for each seed.

    Sizes are those of the prompt, the request, or the side that the model was trained at.
    """
    prompts = [*(Prompt(prompt=text) for text in request.prompts), *request.listed]
    side = family_spec(family).side_of(prediction)
    size = {"width": request.width or side, "height": request.height or side}
    return [tuple(_shots(request, prompt, size)) for prompt in prompts]


def _shots(request: SampleRequest, prompt: Prompt, size: Mapping[str, int]) -> Iterator[Shot]:
    own = prompt.model_fields_set
    for seed in (prompt.seed,) if "seed" in own else request.seeds:
        others = {"negative": request.negative, "seed": seed, **size}
        yield Shot(
            prompt.model_copy(update={k: v for k, v in others.items() if k not in own}),
            steps=request.steps if prompt.steps is None else prompt.steps,
            guidance=request.guidance if prompt.guidance is None else prompt.guidance,
            sampler=request.sampler if prompt.sampler == "run" else prompt.sampler,
            strength=1.0,
            title=prompt.prompt,
        )


def require_additions(request: SampleRequest, family: FamilyName | None) -> None:
    """Check that the LoRAs, embeddings and VAE are such files, made for the family.

    Only headers are read; a file of unknown family passes. family: The base model's; None if
    unknown.

    Raises:
        UserError: If one of them is not.
    """
    if request.vae and family:
        require_vae(inspect_model(Path(request.vae)), family)
    files = [lora.path for lora in request.loras if lora.run is None]
    for path in map(Path, [*files, *request.embeddings]):
        model = inspect_model(path)
        if model.kind in NOT_ADDITIONS:
            raise UserError(
                f"{path.name}: this is {DESCRIPTIONS[model.kind]}",
                "Expected a LoRA (--lora) or an embedding (--embedding)",
                "Choose another file",
            )
        if family:
            require_made_for(model, family)
        if model.kind == "lora":
            adapter_at(path)
