"""What fails beside the steps: reported once per kind, unless training cannot go on."""

from contextlib import contextmanager

import pytest

from modules.optim.exported_weights import ExportedWeights
from modules.training.failures import Failures
from onetrainer.errors import EndsRun, StateLost, UserError


def test_each_kind_of_failure_is_reported_once():
    warnings = []
    failures = Failures(warnings.append)
    for error in (ValueError("a"), UserError("b.png: full", "Room", "Make some"), OSError("c")):
        for _ in range(2):
            with failures.tolerated(f"kind {error}"):
                raise error
    with failures.tolerated("validating"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    assert len(warnings) == 4
    assert warnings[3].endswith(" There is not enough memory.")
    assert warnings[0].endswith("ValueError: a")
    assert warnings[1].endswith("b.png: full. Room. Make some.")


def test_what_ends_a_run_is_not_tolerated():
    for error in (EndsRun("lost"), StateLost("gone"), KeyboardInterrupt()):
        with pytest.raises(type(error)), Failures(pytest.fail).tolerated("a sample"):
            raise error


def test_weights_that_cannot_be_restored_end_the_run_and_others_do_not():
    @contextmanager
    def applied(_normalize):
        try:
            yield
        finally:
            if is_broken:
                raise RuntimeError("no memory")

    class Average:
        pass

    Average.applied = staticmethod(applied)
    exported = ExportedWeights(None, Average, lambda: None)
    for broken, expected in ((True, StateLost), (False, ValueError)):
        is_broken = broken
        with pytest.raises(expected), exported.for_samples():
            raise ValueError("a sample failed")
