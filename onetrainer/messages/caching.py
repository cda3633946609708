"""Format the part of a forecast about the dataset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onetrainer.messages.durations import format_duration

_NAMED = 3


def data_lines(data: Mapping[str, Any]) -> list[str]:
    """Return lines about a forecast's data, see `Forecast.data`; none if nothing is known."""
    found = []
    if "caching_seconds" in data:
        time = format_duration(data["caching_seconds"])
        found.append(f"Caching takes about {time} if nothing is cached yet.")
    count = data.get("long_caption_count", 0)
    if count:
        some = data["long_captions"][:_NAMED]
        named = ", ".join(f"{Path(one['path']).name} ({one['tokens']})" for one in some)
        more = " …" if count > len(some) else ""
        found.append(
            f"{count:,} caption{'' if count == 1 else 's'} longer than {data['chunk']} tokens,"
            f" encoded in chunks without truncation: {named}{more}."
        )
    return found
