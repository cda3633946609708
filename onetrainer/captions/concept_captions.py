"""The captions of a concept's images from any caption source."""

from collections.abc import Sequence
from dataclasses import dataclass

from onetrainer.captions.caption_file import CaptionError, read_captions
from onetrainer.captions.caption_list import read_caption_list
from onetrainer.captions.caption_list_file import CaptionEntry
from onetrainer.concepts.concepts import ConceptSettings, folder_name
from onetrainer.concepts.folder_listing import FolderImage, is_image, normalize_name


@dataclass(frozen=True, slots=True)
class ItemCaptions:
    """The captions of one image, the center of the crop, and a note or ""."""

    captions: tuple[str, ...]
    focus: tuple[float, float] | None = None
    note: str = ""


class ConceptCaptions:
    """The captions of a concept's images, and the entries of its list that match none.

    notes: Messages about the caption list. listed: Number of its entries. Raises UserError if it
    cannot be read.
    """

    def __init__(self, concept: ConceptSettings, images: Sequence[FolderImage]) -> None:
        self._concept = concept
        self._listed: dict[str, CaptionEntry | None] = {}
        self.notes: tuple[str, ...] = ()
        self.listed = 0
        self.unused: tuple[CaptionEntry, ...] = ()
        if concept.caption_source != "list" or concept.caption_list is None:
            return
        captions = read_caption_list(concept.caption_list)
        names = [found.name for found in images if is_image(found.name)]
        matched = captions.match(concept.folder, names)
        self._listed = dict(zip(names, matched.entries, strict=True))
        self.listed, self.unused = len(captions.entries), matched.unused
        self.notes = matched.notes(concept.caption_list.name)
        if captions.encoding == "cp1252":
            self.notes = (_windows_text(concept.caption_list.name), *self.notes)

    def of(self, found: FolderImage) -> ItemCaptions:
        """Return the captions of an image. Raises CaptionError if its file cannot be read."""
        concept = self._concept
        match concept.caption_source:
            case "files":
                if found.caption is None:
                    return ItemCaptions(("",))
                try:
                    captions, encoding = read_captions(found.caption, lines=concept.captions.lines)
                except CaptionError:
                    if concept.uses_captions:
                        raise
                    return ItemCaptions(("",))
                is_guess = encoding == "cp1252" and concept.uses_captions
                note = _windows_text(found.caption.name) if is_guess else ""
                return ItemCaptions(captions, note=note)
            case "names":
                return ItemCaptions((found.stem,))
            case "folders":
                own = found.group.rpartition("/")[2]
                return ItemCaptions((own or normalize_name(folder_name(concept.folder)),))
            case "text":
                return ItemCaptions((" ".join(concept.caption_text.split()),))
            case "list":
                entry = self._listed.get(found.name)
                return ItemCaptions(entry.captions, entry.focus) if entry else ItemCaptions(("",))


def _windows_text(name: str) -> str:
    return f"{name} is not UTF-8; it was read as Windows text (cp1252)"
