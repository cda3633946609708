"""Broken steps on a GPU: every optimizer's own kernels leave weights and state alone, unasked."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch

from tests.each import each
from tests.stepping import INDEPENDENT, Training, equal

pytestmark = pytest.mark.cuda
NAN = float("nan")


@contextmanager
def waiting_refused() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@each("section", INDEPENDENT)
@pytest.mark.parametrize("in_backward", [False, True])
def test_a_broken_step_changes_no_weight_and_adam_waits_for_nothing(section, in_backward):
    clipping = 0.0 if in_backward else 1.0
    made = Training(
        section, device=torch.device("cuda"), in_backward=in_backward, clipping=clipping
    ).run(0, 3)
    before = made.snapshot()
    made.engine.begin(3)
    loss = made.loss(3) * NAN
    # Some libraries' optimizers wait in every step for reasons of their own.
    with waiting_refused() if section.kind in ("adamw", "adam") else nullcontext():
        made.engine.backward(loss)
        made.engine.clip_gradients()
        check = made.engine.step()
    assert check.broken.item() == 1
    assert equal(made.snapshot(), before)
    made.step(4)
    after = made.snapshot()
    assert not equal(after, before)
    assert all(torch.isfinite(weight).all() for weight in after.values())
