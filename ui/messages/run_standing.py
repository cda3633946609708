"""The state of a run in words, as all pages word it."""

from onetrainer.run.history import RunSummary


def standing_text(run: RunSummary) -> str:
    """Return the state of a run as the run page words it."""
    return "Stopped unexpectedly" if run.standing == "broken off" else run.standing.capitalize()
