"""The state of a run in words."""

from onetrainer.run.history import RunSummary


def standing_text(run: RunSummary) -> str:
    """Return the state of a run as all pages and commands word it."""
    return "Stopped unexpectedly" if run.standing == "broken off" else run.standing.capitalize()
