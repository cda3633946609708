"""The kinds of models that describe images: what each is for, and how it is recognized."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer import install_command
from onetrainer.errors import UserError
from onetrainer.files.ordinary import read_ordinary
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.jobs.caption_request import Makes

Kind = Literal["tagger", "blip", "florence", "chat", "clipseg", "background"]
TAGS_FILE = "selected_tags.csv"
"""Beside a tagger's .onnx file: its tags in the order of its outputs."""
EXTRA, PACKAGE = "captioning", "onnxruntime"
_SETTINGS = ("config.json", "preprocessor_config.json")
_COMPRESSED = ("int8", "uint8", "q4", "quantized", "bnb4", "fp16")
# Files of a transformers model on the Hub; never code, pickles or other frameworks' weights.
_READ = (".json", ".safetensors", ".txt", ".jinja", ".model")


@dataclass(frozen=True)
class KindSpec:
    """A kind of model.

    Attributes:
        title: What it is called.
        text: What it is for, in a sentence.
        makes: What its results are for.
        example: A usual one: its name on the Hub, or a file's name.
        gigabytes: The memory that this one takes, about.
        prompt: What is asked if nothing else is.
        takes_prompt: What the prompt is called in the window; "" if it takes none.
        model_types: `model_type` in the config.json of those of transformers.
    """

    title: str
    text: str
    makes: Makes
    example: str
    gigabytes: float
    prompt: str = ""
    takes_prompt: str = ""
    model_types: tuple[str, ...] = ()


_ASKED = (
    "Describe this image in two or three sentences, as a caption for training an image generator:"
    " subject, clothing, pose, surroundings, light and style. Begin with the subject. State only"
    " what is visible."
)
KINDS: dict[Kind, KindSpec] = {
    "tagger": KindSpec(
        "WD tagger",
        "Lists tags such as “1girl, long hair”: for drawings, and base models trained on tags.",
        "captions",
        "SmilingWolf/wd-swinv2-tagger-v3",
        1.0,
    ),
    "blip": KindSpec(
        "BLIP",
        "One short sentence for each image: small and fast, good enough for a simple subject.",
        "captions",
        "Salesforce/blip-image-captioning-large",
        2.0,
        takes_prompt="Begin of each sentence",
        model_types=("blip", "blip-2"),
    ),
    "florence": KindSpec(
        "Florence-2",
        "A sentence or a paragraph for each image: more exact than BLIP, and still small.",
        "captions",
        "florence-community/Florence-2-large",
        2.0,
        prompt="<MORE_DETAILED_CAPTION>",
        takes_prompt="Task",
        model_types=("florence2",),
    ),
    "chat": KindSpec(
        "Vision-language model",
        "Describes each image as you ask it to: the best captions, and the slowest.",
        "captions",
        "Qwen/Qwen2.5-VL-3B-Instruct",
        9.0,
        prompt=_ASKED,
        takes_prompt="Question",
    ),
    "clipseg": KindSpec(
        "CLIPSeg",
        "A mask of what you name, such as “a face, hair”.",
        "masks",
        "CIDAS/clipseg-rd64-refined",
        0.8,
        takes_prompt="What is white",
        model_types=("clipseg",),
    ),
    "background": KindSpec(
        "Background removal",
        "A mask of the subject, whatever it is: U²-Net, IS-Net or BiRefNet as an .onnx file.",
        "masks",
        "isnet-general-use.onnx",
        1.5,
    ),
}


def find_kind(model: Path) -> Kind:
    """Return what a model on this disk is, by its files. Raises UserError if it is none."""
    folder = model if model.is_dir() else model.parent
    if not model.exists():
        raise UserError(
            f"{model}: there is no such file or folder",
            "Expected a folder, an .onnx file, or a name on the Hugging Face Hub",
            "Check the path",
        )
    if model.is_file() and model.suffix.lower() != ".onnx":
        raise _unknown(model, f"a {model.suffix or 'nameless'} file")
    if (folder / TAGS_FILE).is_file():
        return "tagger"
    if model.is_file():
        return "background"
    model_type = _model_type(folder)
    for kind, spec in KINDS.items():
        if model_type in spec.model_types:
            return kind
    if any(folder.rglob("*.onnx")):
        return "background"
    if model_type:  # whatever transformers can ask about an image; others are refused there
        return "chat"
    raise _unknown(model, "a folder without config.json and .onnx file")


def onnx_file(model: Path) -> Path:
    """Return the .onnx file of a model: itself, or the one in its folder. Raises UserError."""
    if model.is_file():
        return model
    found = chosen_onnx(path.relative_to(model).as_posix() for path in model.rglob("*.onnx"))
    if found is None:
        raise UserError(f"{model}: this folder has no .onnx file", "", "Choose another folder")
    return model / found


def chosen_onnx(names: Iterable[str]) -> str | None:
    """Return the name of the full-precision .onnx file among others; None if there is none."""
    files = [name for name in names if name.lower().endswith(".onnx")]
    return min(
        files, key=lambda n: (any(c in n.lower() for c in _COMPRESSED), len(n)), default=None
    )


def files_to_download(names: Iterable[str]) -> list[str]:
    """Return the files that a repository's model needs, of all that it has."""
    listed = list(names)
    if TAGS_FILE in listed or not any(name.endswith(".safetensors") for name in listed):
        onnx = chosen_onnx(listed)
        data = [name for name in listed if onnx and name.startswith(f"{onnx}_data")]
        return [n for n in (TAGS_FILE, *_SETTINGS) if n in listed] + ([onnx] if onnx else []) + data
    return [name for name in listed if "/" not in name and name.endswith(_READ)]


def require_makes(model: Path, kind: Kind, makes: Makes) -> None:
    """Raise UserError if a model makes captions where masks are asked for, or the reverse."""
    spec = KINDS[kind]
    if spec.makes != makes:
        other = "caption" if spec.makes == "captions" else "mask"
        raise UserError(
            f"{model.name}: this is a model of the kind {spec.title}, which makes {spec.makes}",
            f"Expected a model for {makes}",
            f"Choose another model, or use: onetrainer {other}",
        )


def missing_package() -> UserError:
    """Return the error of a missing ONNX Runtime."""
    return UserError(
        f'.onnx models need the package "{PACKAGE}", which is not installed',
        f'It comes with the extra "{EXTRA}" of this program',
        f"Install it with: {install_command(EXTRA)}",
        failure="package",
    )


def _model_type(folder: Path) -> str:
    try:
        return str(parse_object(read_ordinary(folder / "config.json")).get("model_type", ""))
    except (OSError, NotOurs):
        return ""


def _unknown(model: Path, what: str) -> UserError:
    titles = ", ".join(spec.title for spec in KINDS.values())
    return UserError(
        f"{model}: this is {what}, and no model that describes images",
        f"Expected one of: {titles}",
        "Choose another file or folder",
    )
