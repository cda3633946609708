"""Format reports about a cache folder."""

from onetrainer.cache.format import Kind
from onetrainer.cache.store import CacheReport, KindReport, PruneReport
from onetrainer.errors import some_of
from onetrainer.messages.formatting import counted, format_moment, format_size

_LABELS: dict[Kind, str] = {"latents": "images", "masks": "masks", "text": "captions"}
_EXAMPLES = 5


def format_cache_report(report: CacheReport) -> list[str]:
    """Return the contents of a cache folder as lines."""
    lines = [
        f"{report.folder}: {format_size(report.bytes)}" + (", in use" if report.is_in_use else "")
    ]
    lines += [_of_kind(kind) for kind in report.kinds]
    unused = sum(kind.unused_bytes for kind in report.kinds)
    if unused:
        lines.append(f"{format_size(unused)} of this is unused; --prune frees what it can")
    if report.older_entries:
        lines.append(
            f"{counted(report.older_entries, 'file')} of an older version, "
            f"{format_size(report.older_bytes)}: unused, removed by --prune"
        )
    if report.damaged:
        lines.append(f"damaged, encoded again when needed: {some_of(report.damaged, _EXAMPLES)}")
    if report.foreign:
        lines.append(f"other files, left alone: {some_of(report.foreign, _EXAMPLES)}")
    return lines


def format_prune_report(report: PruneReport, folder: str, limit_bytes: int | None) -> list[str]:
    """Return the result of pruning as lines."""
    lines = [f"{folder}: {_removed(report)}; {format_size(report.bytes)} are left"]
    if report.computers:
        lines.append(
            f"A program on {some_of(report.computers, _EXAMPLES)} uses this folder. Until it ends,"
            " no file that it might be reading is removed"
        )
    elif limit_bytes is not None and report.bytes > limit_bytes:
        rest = "the indexes are not removed"
        rest = "running programs use the rest" if report.is_in_use else rest
        lines.append(f"That is more than {format_size(limit_bytes)}: {rest}")
    return lines


def _removed(report: PruneReport) -> str:
    """Return what was removed and freed: "removed 3 entries, 12 MB"."""
    if not report.freed_bytes and not report.entries and not report.older_entries:
        return "nothing to remove"
    parts = [counted(report.entries, "entry", "entries")] if report.entries else []
    if report.older_entries:
        parts.append(f"{counted(report.older_entries, 'file')} of an older version")
    if report.leftover_bytes:
        size = f"{format_size(report.leftover_bytes)} of " if parts else ""
        parts.append(f"{size}unused data")
    together = " together" if len(parts) > 1 else ""
    return f"removed {' and '.join(parts)}, {format_size(report.freed_bytes)}{together}"


def _of_kind(kind: KindReport) -> str:
    label = _LABELS[kind.kind]
    if kind.last_used is None or kind.oldest_used is None:
        return f"  {label:9} none"
    files = counted(kind.shards, "file")
    last, oldest = (format_moment(used, "%Y-%m-%d") for used in (kind.last_used, kind.oldest_used))
    return (
        f"  {label:9} {kind.entries} in {files}, {format_size(kind.bytes)},"
        f" last used {last} (oldest: {oldest})"
    )
