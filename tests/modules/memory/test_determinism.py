"""Whether a GPU computes the same bits each time: what is set, and set back, for it."""

import os

import pytest
import torch
from torch.backends import cudnn

from modules.memory.determinism import determinism
from onetrainer.run.failures import recognize

GPU, CPU = torch.device("cuda"), torch.device("cpu")


def modes():
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark


@pytest.fixture(autouse=True)
def workspace(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is taken back afterwards
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")


@pytest.mark.parametrize(
    ("setting", "device", "expected"),
    [
        ("on", GPU, (True, True, False)),
        ("off", GPU, (False, False, True)),
        ("auto", GPU, (False, False, False)),
        ("on", CPU, (False, False, False)),
    ],
)
def test_algorithms_are_chosen_for_the_run_and_as_before_after_it(setting, device, expected):
    with pytest.raises(ZeroDivisionError), determinism(setting, device):
        assert modes() == expected
        assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == expected[0]
        raise ZeroDivisionError
    assert modes() == (False, False, False)


def test_an_operation_without_such_an_algorithm_ends_the_run_and_leads_to_the_setting():
    with determinism("on", GPU):
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        with pytest.raises(RuntimeError) as raised:
            torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
    assert recognize(raised.value) == "not deterministic"
