"""What a file says about itself: first what people ask for, all of it where that is wished."""

import json
from collections import Counter
from collections.abc import Mapping

LONGEST_VALUE = 200
"""Characters of metadata that are printed; the rest is counted."""
_IMAGES = ("modelspec.thumbnail", "ssmd_cover_images", "thumbnail")
_TAGS = "ss_tag_frequency"
_TOP_TAGS = 10
# Labels, and the keys that may tell; the first one that tells something counts.
_ASKED_FOR: Mapping[str, tuple[str, ...]] = {
    "Title": ("modelspec.title", "ss_output_name", "name"),
    "Trigger words": ("modelspec.trigger_phrase", "ss_trigger_words", "trigger_words"),
    "Base": ("ss_sd_model_name", "ss_base_model_version", "modelspec.architecture"),
    "Resolution": ("modelspec.resolution", "ss_resolution"),
    "Steps": ("ss_steps", "ss_max_train_steps"),
    "Learning rate": ("ss_learning_rate", "ss_unet_lr"),
    "Seed": ("ss_seed",),
    "Pictures": ("ss_num_train_images",),
    "Top tags": (_TAGS,),
}
_NOTHING = ("", "None", "null", "{}")


def told(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata, sorted; of pictures only the length."""
    return {
        key: f"(pictures, {len(value)} characters)" if _is_image(key, value) else value
        for key, value in sorted(metadata.items())
    }


def short_lines(metadata: Mapping[str, str]) -> list[str]:
    """What most people ask for, a line each, and how much more there is."""
    lines, used = [], set()
    for label, keys in _ASKED_FOR.items():
        key = next((key for key in keys if metadata.get(key, "") not in _NOTHING), None)
        if key is not None:
            lines.append(f"  {label}: {_short(key, metadata[key])}")
            used.add(key)
    rest = len(metadata) - len(used)
    more = " more" if used else ""
    fields = "field" if rest == 1 else "fields"
    shows = "shows it" if rest == 1 else "shows them"
    return [*lines, *([f"  {rest}{more} {fields}; --all {shows}"] if rest else [])]


def all_lines(metadata: Mapping[str, str]) -> list[str]:
    """Every field, each in one line of bounded length."""
    return [f"  {key}: {_short(key, value)}" for key, value in metadata.items()]


def _is_image(key: str, value: str) -> bool:
    return bool(value) and (key in _IMAGES or value.startswith("data:image/"))


def _short(key: str, value: str) -> str:
    if key == _TAGS and (tags := _tag_counts(value)):
        return _top(tags)
    line = " ".join(value[: 2 * LONGEST_VALUE].split())
    if len(value) <= LONGEST_VALUE:
        return line
    return f"{line[:LONGEST_VALUE]} … ({len(value)} characters)"


def _top(tags: Counter[str]) -> str:
    """The most frequent tags that fit one line; captions in sentences are long ones."""
    words = [f"{tag[:LONGEST_VALUE]} ({count})" for tag, count in tags.most_common(_TOP_TAGS)]
    while len(words) > 1 and len(", ".join(words)) > LONGEST_VALUE:
        words.pop()
    rest = len(tags) - len(words)
    return ", ".join(words) + (f" and {rest} more" if rest > 0 else "")


def _tag_counts(value: str) -> Counter[str]:
    """How often each tag stands in the captions of all folders; empty if that is not told so."""
    try:
        folders = json.loads(value)
    except (ValueError, RecursionError):
        return Counter()
    counts: Counter[str] = Counter()
    for tags in folders.values() if isinstance(folders, dict) else ():
        for tag, count in tags.items() if isinstance(tags, dict) else ():
            counts[tag.strip()] += count if isinstance(count, int) else 0
    return counts
