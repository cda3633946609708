"""What a model can be made to learn, the preset for each, and the settings that follow."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.base.amount import parse_amount
from onetrainer.config.complete import completed
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.families.registry import base_of
from onetrainer.files.names import name_problem
from onetrainer.gpu_driver.nvidia import ask_nvidia
from onetrainer.guide.base_model import BaseModel
from onetrainer.guide.images import ImageFolder
from onetrainer.guide.length import interval_for, steps_for
from onetrainer.guide.prompts import prompts_of
from onetrainer.json_file import Document
from onetrainer.presets.find import BUILT_IN
from onetrainer.presets.presets import load_document, value_at

Asks = Literal["trigger", "token", ""]
_FITS = re.compile(r"fine-tune-(\d+)gb")
_MIB_PER_GIB = 1024
# A card of "8 GB" reports a little less.
_NEARLY = 0.9


@dataclass(frozen=True)
class Aim:
    """Something to make of images.

    Attributes:
        title, text: For people.
        presets: Names of presets within a family, the most fitting first; a "*" stands for the
            sizes of memory.
        asks: What only the person can know.
        counts_images: Whether more images take more steps.
    """

    name: str
    title: str
    text: str
    presets: tuple[str, ...]
    asks: Asks = ""
    counts_images: bool = True


AIMS = (
    Aim(
        "person",
        "A person",
        "One person or character, called by a word of yours. A small file (LoRA).",
        ("lora-character", "lora"),
        "trigger",
    ),
    Aim(
        "style",
        "A style",
        "How images look: a painter, a light, a technique. A LoRA of more detail.",
        ("lora-style", "lora"),
    ),
    Aim(
        "object",
        "An object",
        "One thing, pet or product, called by a word of yours. A small file (LoRA).",
        ("lora-object", "lora-character", "lora"),
        "trigger",
    ),
    Aim(
        "embedding",
        "An embedding",
        "A new word for what the model can already draw. A tiny file of a few kilobytes.",
        ("embedding",),
        "token",
        counts_images=False,
    ),
    Aim(
        "full",
        "A full fine-tune",
        "A new model, trained as a whole: for hundreds of images and large GPUs.",
        ("fine-tune-*gb",),
    ),
)


@dataclass(frozen=True)
class Answers:
    """What a person has answered.

    word: The trigger words, or the token of an embedding. shows: What an embedding begins with.
    """

    images: ImageFolder
    model: BaseModel
    aim: Aim
    word: str = ""
    shows: str = ""

    @property
    def said(self) -> tuple[str, ...]:
        """What of it a person has said; what was found at these places may change meanwhile."""
        folder, model = str(self.images.concept.folder), self.model
        return (folder, model.text, model.family, self.aim.name, self.word, self.shows)


def asked(aim: Aim, images: ImageFolder) -> Asks:
    """Return what is asked: images without any caption are trained on trigger words."""
    return aim.asks or ("" if images.captions else "trigger")


def word_problem(answers: Answers) -> str:
    """Return why the word cannot be used; "" if it can."""
    match asked(answers.aim, answers.images):
        case "":
            return ""
        case kind if not re.search(r"\w", answers.word):
            return f"Type a {'token' if kind == 'token' else 'trigger word'} first."
        case "token" if "," in answers.word:
            return "A token has no comma in it."
    return ""


def preset_of(aim: Aim, family: str, *, gpu_gib: float = 0.0) -> Path:
    """Return the shipped preset for an aim; gpu_gib: memory of the GPU, 0 if it is not known."""
    folder = BUILT_IN / base_of(family)
    found = (_fitting(folder.glob(f"{name}.json"), gpu_gib) for name in aim.presets)
    return next(path for path in found if path is not None)


def settings_of(answers: Answers, preset: Path, *, has_gpu: bool = True) -> Mapping[str, object]:
    """Return the settings that follow from the answers, by path; the preset has all others."""
    images, model, word = answers.images, answers.model, answers.word.strip()
    asks, document = asked(answers.aim, images), completed(load_document(preset))
    side = model.side or int(value_at(document, "data.resolution"))
    trigger = word if asks else ""
    values: dict[str, object] = {
        "model.path": model.text,
        "model.family": model.family,
        "data.folder": str(images.concept.folder),
        "data.include_subfolders": images.concept.recursive,
        "data.trigger": trigger,
        "metadata.trigger_words": "",  # the file then names those that are trained
        "output.name": _name(word or images.concept.folder.name, answers.aim),
        "data.resolution": side,
    }
    if answers.aim.counts_images:
        values |= _length(images.images, document)
    if not has_gpu:
        # Most processors compute in bf16, which presets are made for, many times slower.
        values["hardware.precision"] = "fp32"
    if not images.captions:
        # Trigger words alone are then the caption of every image.
        values["data.caption_source"] = "text"
    if asks == "token":
        first = value_at(document, "embeddings.tokens.0")
        token = EmbeddingToken.model_validate({**first, "token": word})
        shows = answers.shows.strip() or token.initial_text
        token = token.model_copy(update={"initial_text": shows})
        values["embeddings.tokens"] = [token.model_dump(mode="json")]
    concept: ConceptSettings = replace(images.concept, trigger=trigger)
    values["sampling.prompts"] = prompts_of(images.captioned, concept, side)
    return values


def _length(images: int, document: Document) -> Mapping[str, int]:
    """Return how long a preset's run is with a number of images, and what follows from that.

    What a preset has in epochs, images or minutes stays as it is.
    """
    most = _in_steps(document, "training.steps")
    if most is None:
        return {}
    batch, microbatches = "training.batch_size", "training.accumulation"
    at_once = value_at(document, batch) * value_at(document, microbatches)
    steps = steps_for(images, at_once=at_once, most=most)
    paths = ("sampling.every", "output.save_every")
    intervals = {path: _in_steps(document, path) for path in paths}
    return {
        "training.steps": steps,
        **{p: interval_for(n, steps=steps, of=most) for p, n in intervals.items() if n is not None},
    }


def _in_steps(document: Document, path: str) -> int | None:
    """Return a number of steps; None where it is an amount in another unit."""
    value = value_at(document, path)
    steps = parse_amount(value) if isinstance(value, str) else value
    return steps if isinstance(steps, int) else None


def gpu_memory() -> float:
    """Return the memory of the largest NVIDIA GPU in GiB; 0 if it is not known."""
    try:
        return max(map(float, ask_nvidia("memory.total")), default=0.0) / _MIB_PER_GIB
    except ValueError:  # a GPU that shares the computer's memory names no number
        return 0.0


def _fitting(presets: Iterable[Path], gpu_gib: float) -> Path | None:
    """Return the preset for the most memory that there is, or for the least."""
    paths = list(presets)
    sizes = {path: int(found[1]) for path in paths if (found := _FITS.match(path.stem))}
    if not sizes:
        return next(iter(paths), None)
    fitting = [path for path, size in sizes.items() if size * _NEARLY <= gpu_gib]
    return max(fitting, key=sizes.__getitem__) if fitting else min(sizes, key=sizes.__getitem__)


def _name(word: str, aim: Aim) -> str:
    """Return a name for the files of a run that every system can have."""
    name = re.sub(r"[^\w-]+", "-", word).strip("-_").lower()
    return name if name and not name_problem(name) else f"my-{aim.name}"
