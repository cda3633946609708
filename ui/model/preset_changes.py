"""What opening a preset would change, and how two presets differ, by the labels of settings."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from onetrainer.json_file import Document
from onetrainer.presets.differences import Difference, document_differences
from onetrainer.presets.presets import value_at
from ui.model.form_fields import display_text, find_setting, page_title
from ui.model.variants import defaults_in, variants_in

_NOTHING = "—"
_MOST_OF_PATH = 28  # characters, of its end


@dataclass(frozen=True)
class SettingChange:
    """A setting with its old and new value as text.

    is_own: whether the old value is the user's unsaved change.
    """

    path: str
    page: str
    label: str
    old: str
    new: str
    is_own: bool = False


def changes_between(old: Document, new: Document, own: Collection[str] = ()) -> list[SettingChange]:
    """Return the settings in which two whole documents differ, in the order of the pages.

    Settings that only one of them has are left out while they have their default: the choice that
    brings them is listed.

    Args:
        old: The values now.
        new: The values then.
        own: Settings that the user has changed since the last save.
    """
    sides = [(document, defaults_in(variants_in(document))) for document in (old, new)]
    found = []
    for difference in document_differences(old, new):
        path = difference.path
        is_default = [value_at(side, path) == value_at(plain, path) for side, plain in sides]
        if (difference.left_lacks and is_default[1]) or (difference.right_lacks and is_default[0]):
            continue
        found.append(_change(difference, old, new, is_own=path in own))
    pages = list(dict.fromkeys(change.page for change in found))
    return sorted(found, key=lambda change: pages.index(change.page))


def _change(difference: Difference, old: Document, new: Document, *, is_own: bool) -> SettingChange:
    path = difference.path
    documents: tuple[tuple[Document, str, object], ...] = (
        (old, difference.left_lacks, difference.left),
        (new, difference.right_lacks, difference.right),
    )
    texts = [
        _NOTHING if lacks else _text(document, path, value) for document, lacks, value in documents
    ]
    lists = [value for *_, value in documents if isinstance(value, list)]
    if len(lists) == 2 and texts[0] == texts[1]:
        texts[1] = f"{texts[1]}, changed"
    setting = find_setting(path, variants_in(old if difference.right_lacks else new))
    label = setting.ui.label if setting else path
    return SettingChange(path, page_title(path), label, texts[0], texts[1], is_own)


def _text(document: Mapping[str, object], path: str, value: object) -> str:
    setting = find_setting(path, variants_in(document))
    if isinstance(value, list):
        return f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
    text = display_text(value, setting) if setting else str(value)
    if setting is not None and setting.ui.is_path and len(text) > _MOST_OF_PATH:
        text = f"…{text[-_MOST_OF_PATH:]}"
    return text or "empty"
