"""Metadata of a model file as lines of text."""

from collections import Counter
from collections.abc import Mapping

from onetrainer.files.own_json import NotOurs, parse_object

LONGEST_VALUE = 200
"""Characters of a value that are printed."""
_IMAGES = ("modelspec.thumbnail", "ssmd_cover_images", "thumbnail")
_TAGS = "ss_tag_frequency"
_TOP_TAGS = 10
# Keys by label; the first key with a value is used.
_MAIN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Title": ("modelspec.title", "ss_output_name", "name"),
    "Trigger words": ("modelspec.trigger_phrase", "ss_trigger_words", "trigger_words"),
    "Base": ("ss_sd_model_name", "ss_base_model_version", "modelspec.architecture"),
    "Resolution": ("modelspec.resolution", "ss_resolution"),
    "Steps": ("ss_steps", "ss_max_train_steps"),
    "Learning rate": ("ss_learning_rate", "ss_unet_lr"),
    "Seed": ("ss_seed",),
    "Images": ("ss_num_train_images",),
    "Top tags": (_TAGS,),
}
_NOTHING = ("", "None", "null", "{}")


def readable_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata, sorted, with images replaced by their length."""
    return {
        key: f"(images, {len(value)} characters)"
        if value and (key in _IMAGES or value.startswith("data:image/"))
        else value
        for key, value in sorted(metadata.items())
    }


def metadata_lines(metadata: Mapping[str, str], *, everything: bool) -> list[str]:
    """Return every field, or the most important ones and the number of others, one per line."""
    if everything:
        return [f"  {key}: {_short(key, value)}" for key, value in metadata.items()]
    lines = []
    for label, keys in _MAIN_FIELDS.items():
        key = next((key for key in keys if metadata.get(key, "") not in _NOTHING), None)
        if key is not None:
            lines.append(f"  {label}: {_short(key, metadata[key])}")
    rest, more = len(metadata) - len(lines), " more" if lines else ""
    if rest:
        shows = "shows it" if rest == 1 else "shows them"
        lines.append(f"  {rest}{more} {'field' if rest == 1 else 'fields'}; --all {shows}")
    return lines


def _short(key: str, value: str) -> str:
    if key == _TAGS and (tags := _tag_counts(value)):
        # The most frequent tags that fit one line; sentences used as tags are long.
        texts = [f"{tag[:LONGEST_VALUE]} ({count})" for tag, count in tags.most_common(_TOP_TAGS)]
        while len(texts) > 1 and len(", ".join(texts)) > LONGEST_VALUE:
            texts.pop()
        rest = len(tags) - len(texts)
        return ", ".join(texts) + (f" and {rest} more" if rest > 0 else "")
    line = " ".join(value[: 2 * LONGEST_VALUE].split())
    if len(value) <= LONGEST_VALUE:
        return line
    return f"{line[:LONGEST_VALUE]} … ({len(value)} characters)"


def _tag_counts(value: str) -> Counter[str]:
    """Return the count of each tag over all folders; empty if the value has another form."""
    try:
        folders = parse_object(value)
    except NotOurs:
        return Counter()
    counts: Counter[str] = Counter()
    for tags in folders.values():
        for tag, count in tags.items() if isinstance(tags, dict) else ():
            counts[tag.strip()] += count if isinstance(count, int) else 0
    return counts
