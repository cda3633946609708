"""Sizes of files, in words."""


def format_size(size: int) -> str:
    """So many bytes to three digits: "721 kB"."""
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} bytes"
