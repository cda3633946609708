"""Format file sizes."""


def format_size(size: int) -> str:
    """Return a number of bytes with three digits, such as "721 kB"."""
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} bytes"
