"""The captions of a concept's images from any caption source."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.caption_file import CaptionError, captions_of, read_caption_file
from onetrainer.captions.caption_list import read_caption_list
from onetrainer.captions.caption_list_file import CaptionEntry, read_beginning
from onetrainer.captions.encodings import misread
from onetrainer.concepts.concepts import ConceptSettings, folder_name
from onetrainer.concepts.folder_listing import FolderImage, is_image, normalize_name


@dataclass(frozen=True, slots=True)
class ItemCaptions:
    """The captions of one image, and the center of the crop."""

    captions: tuple[str, ...]
    focus: tuple[float, float] | None = None


class ConceptCaptions:
    """The captions of a concept's images, and the entries of its list that match none.

    listed: Number of entries of the list. misread: Files that were read in another encoding than
    they are in, with what `misread` returns of them. Raises UserError if the list cannot be read.
    """

    def __init__(self, concept: ConceptSettings, images: Sequence[FolderImage]) -> None:
        self._concept = concept
        self._listed: dict[str, CaptionEntry | None] = {}
        self.misread: list[tuple[Path, bytes]] = []
        self.listed = 0
        self.unused: tuple[CaptionEntry, ...] = ()
        if concept.caption_source != "list" or concept.caption_list is None:
            return
        captions = read_caption_list(concept.caption_list)
        names = [found.name for found in images if is_image(found.name)]
        matched = captions.match(concept.folder, names)
        self._listed = dict(zip(names, matched.entries, strict=True))
        self.listed, self.unused = len(captions.entries), matched.unused
        self._note_encoding(concept.caption_list, read_beginning(concept.caption_list))

    def of(self, found: FolderImage) -> ItemCaptions:
        """Return the captions of an image. Raises CaptionError if its file cannot be read."""
        concept = self._concept
        match concept.caption_source:
            case "files":
                if found.caption is None:
                    return ItemCaptions(("",))
                try:
                    content = read_caption_file(found.caption)
                    self._note_encoding(found.caption, content)
                    lines = concept.captions.lines
                    return ItemCaptions(captions_of(found.caption, content, lines=lines))
                except CaptionError:
                    if concept.uses_captions:
                        raise
                    return ItemCaptions(("",))
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

    def _note_encoding(self, path: Path, content: bytes) -> None:
        if (before := misread(content)) is not None:
            self.misread.append((path, before))
