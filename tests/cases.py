"""Parameters of tests: a few that every run takes, and the rest of a cross product."""

from collections.abc import Collection, Iterable

import pytest


def cases(every: Iterable, few: Collection) -> list:
    """All parameters, those that are not among the few marked `long`."""
    every, few = list(every), list(few)
    assert not [case for case in few if case not in every]
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in few else pytest.mark.long,
        )
        for case in every
    ]
