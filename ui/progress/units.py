"""Durations, sizes and speeds as people read them."""


def format_time(seconds: float) -> str:
    """Format a duration: "45 s", "12 min 30 s", "3 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def format_bytes(size: int) -> str:
    """Format a number of bytes: "812 MB", "9.1 GB"."""
    gigabytes = size / 2**30
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{size / 2**20:.0f} MB"


def format_speed(steps_per_second: float) -> str:
    """Format a speed in steps per second, or seconds per step if slower."""
    if steps_per_second <= 0:
        return ""
    if steps_per_second < 1:
        return f"{1 / steps_per_second:.1f} s/it"
    return f"{steps_per_second:.1f} it/s"
