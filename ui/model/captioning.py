"""What the page of captioning asks for and shows: requests, and what writing changes. No Tk."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onetrainer.captioning.changes import Fate, propose
from onetrainer.captioning.kinds import KINDS, Kind, find_kind
from onetrainer.captioning.own_files import own_files
from onetrainer.captioning.results import JobFolder
from onetrainer.captioning.writing import can_take_back
from onetrainer.concepts.concepts import ConceptSettings, concepts_of
from onetrainer.config.data.concept import CAPTION_SOURCES
from onetrainer.config.train import TrainConfig
from onetrainer.edits.history import EditHistory
from onetrainer.errors import UserError
from onetrainer.jobs.caption_request import CaptionRequest, CaptionWriting, MaskWriting
from onetrainer.model_files.hub import cached_folder, is_hub_name
from ui.model.labeled_request import labeled_request

PREVIEW = 10
# Two beside each other: long ones first.
_MASKS = ("existing", "threshold", "invert", "grow", "feather")
_TEXTS = ("prefix", "existing")
_TAGS = (
    *("prefix", "threshold", "exclude", "character_threshold"),
    *("existing", "keep_underscores", "rating"),
)
_ASKS: tuple[Kind, ...] = ("blip", "florence", "chat")
_UNREAD_CAPTIONS = (
    "Training would not read these captions: Data › Captions from is “{}” for this folder."
)
_UNREAD_MASKS = {
    "off": "Training would not read these masks: they are turned off (Data › Masks).",
    "alpha": "Training would not read these masks: Data › Masks is “transparency”.",
}
_LOADED = ("config.json", "selected_tags.csv", "model.onnx", "onnx/model.onnx")


def request_fields(kind: Kind) -> tuple[str, ...]:
    """Return the settings of running a model of some kind, beside its prompt."""
    return (*(("max_tokens",) if kind in _ASKS else ()), "batch_size", "device")


def writing_section(kind: Kind) -> type[CaptionWriting] | type[MaskWriting]:
    """Return the settings of what is made of its results."""
    return CaptionWriting if KINDS[kind].makes == "captions" else MaskWriting


def writing_fields(kind: Kind) -> tuple[str, ...]:
    """Return those of them that apply to it."""
    return _MASKS if KINDS[kind].makes == "masks" else _TAGS if kind == "tagger" else _TEXTS


def request_of(kind: Kind, values: Mapping[str, object]) -> CaptionRequest:
    """Return the request of what was filled in. Raises UserError that names a field."""
    if not values.get("images"):
        raise UserError("Choose the folder of images first")
    if not values.get("model"):
        raise UserError("Choose a model first", "Expected a folder, a file or a name on the Hub")
    if kind == "clipseg" and not values.get("prompt"):
        raise UserError("Say first what is to be white in the masks", 'Such as "a face, hair"')
    request = labeled_request(CaptionRequest, {**values, "makes": KINDS[kind].makes})
    path = Path(request.model)
    if not is_hub_name(request.model) and find_kind(path) != kind:
        found = KINDS[find_kind(path)].title
        raise UserError(f"{path.name}: this is a model of the kind {found}", "", f"Choose {found}")
    return request


def trained_as(data: TrainConfig | None, images: str) -> ConceptSettings | None:
    """Return how a folder is trained; None if it is not, or if that is not known."""
    if data is None or not images:
        return None
    folder = Path(images).expanduser().resolve()
    return next((each for each in concepts_of(data) if each.folder.resolve() == folder), None)


def mask_folder_of(concept: ConceptSettings | None) -> str:
    """Return where training looks for masks; "" for next to the images."""
    folder = concept.mask_folder if concept is not None and concept.masks != "alpha" else None
    return str(folder or "")


def unread_note(concept: ConceptSettings | None, kind: Kind) -> str:
    """Return why training would not read what is written; "" if it would."""
    if concept is None:
        return ""
    if KINDS[kind].makes == "captions":
        source = CAPTION_SOURCES[concept.caption_source]
        return "" if concept.caption_source == "files" else _UNREAD_CAPTIONS.format(source)
    return _UNREAD_MASKS.get(concept.masks, "")


def model_note(kind: Kind, model: str) -> str:
    """Return where a model is, and what it takes."""
    spec = KINDS[kind]
    size = f"The usual one takes about {spec.gigabytes:g} GB of memory."
    if not model:
        return size
    if is_hub_name(model):
        if cached_folder(model, _LOADED) is not None:
            return f"Downloaded before. {size}"
        return f"Will be downloaded once from the Hugging Face Hub. {size}"
    return "On this computer." if Path(model).exists() else f"There is no {model}."


@dataclass(frozen=True)
class Row:
    """An image with what was found in it. found: The mask in the model's size; None for a text."""

    image: Path
    name: str
    fate: Fate
    text: str
    before: str
    found: Path | None = None


@dataclass(frozen=True)
class Review:
    """What a job has found, and what writing it would change.

    Attributes:
        job: Its folder.
        writing: How captions or masks are made.
        total: Images of the folder.
        rows: Those that have a result.
        fates: How many share each fate.
        can_take_back: Files of the last writing that can be given back.
    """

    job: JobFolder
    writing: CaptionWriting | MaskWriting
    total: int
    rows: tuple[Row, ...] = ()
    fates: Counter[Fate] = field(default_factory=Counter)
    can_take_back: int = 0


def review(job: JobFolder, writing: CaptionWriting | MaskWriting) -> Review:
    """Look up what there is. Raises UserError if the folder of images cannot be listed."""
    images = Path(job.request.images)
    proposals = list(propose(job, own_files(images), writing, makes_masks=False))
    results = job.read()  # afterwards: a model that is at work adds to them
    rows = []
    for each in proposals:
        mask = results[each.image.name].mask
        found = job.masks / mask if mask else None
        row = Row(each.image.path, each.image.name, each.fate, each.text, each.text_before, found)
        rows.append(row)
    return Review(
        job,
        writing,
        len(job.listed()),
        tuple(rows),
        Counter(row.fate for row in rows),
        can_take_back(images, EditHistory()),
    )
