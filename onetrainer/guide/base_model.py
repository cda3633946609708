"""What a base model is, and why it cannot be trained, in one sentence."""

from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES, FAMILY_LABELS, any_base, family_spec
from onetrainer.model_files.choices import (
    require_family,
    require_published_size,
    resolve_prediction,
)
from onetrainer.model_files.find import size_on_disk
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import NAMES, ModelFile
from onetrainer.presets.find import expanded


@dataclass(frozen=True)
class BaseModel:
    """A base model that was named.

    Attributes:
        text: As it was named: a path, or a name on the Hub.
        family: "" if it is not known before the model is downloaded, or is none that is trained.
        side: Of the squares in pixels that it was made for; 0 if it is not known.
        size: In bytes; 0 if it is not on this computer.
        where: Its folder, or that it is on the Hub.
        problem: Why it cannot be trained; "" if it can.
    """

    text: str
    family: str = ""
    precision: str = ""
    side: int = 0
    size: int = 0
    where: str = ""
    problem: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether it is downloaded when training starts."""
        return not self.problem and not self.size


def look_at_model(text: str) -> BaseModel:
    """Look at the headers of a base model."""
    try:
        if not is_hub_name(text):
            path = Path(expanded(text))
            return _judged(text, inspect_model(path), str(path.absolute().parent))
        folder = cached_folder(text)
        if folder is None:
            return BaseModel(text, _published(text), where="The Hugging Face Hub")
        return _judged(text, inspect_model(folder), "Downloaded from the Hugging Face Hub")
    except UserError as error:
        return BaseModel(text, problem=_in_one(error.what, error.remedy))
    except OSError as error:  # a name that is too long
        return BaseModel(text, problem=f"{text}: this cannot be read ({error.strerror})")


def _published(name: str) -> str:
    """Return the family of a model that is published on the Hub; "" for others."""
    return next((spec.name for spec in FAMILIES if spec.hub == name), "")


def _judged(text: str, model: ModelFile, where: str) -> BaseModel:
    if model.kind not in FAMILY_LABELS and model.kind in NAMES:
        what = f"{model.path.name} is a model of {NAMES[model.kind]}, which is not trained here"
        wanted = any_base(lambda spec: spec.label)
        return BaseModel(text, problem=_in_one(what, f"choose one of {wanted}"))
    is_family = model.kind in FAMILY_LABELS
    try:
        require_family(model, model.kind if is_family else next(iter(FAMILY_LABELS)))
        require_published_size(model)
        prediction = resolve_prediction(model, "auto")
    except UserError as error:
        return BaseModel(text, problem=_in_one(error.what, error.remedy))
    side = family_spec(model.kind).side_of(prediction)
    size = size_on_disk(model.path)
    return BaseModel(text, model.kind, model.precision, side, size, where)


def _in_one(what: str, remedy: str) -> str:
    remedy = remedy.rstrip(".")
    return f"{what}; {remedy[:1].lower()}{remedy[1:]}." if remedy else f"{what}."
