"""Adapters at a strength, as other programs apply their files at it."""

import pytest
import torch

from modules.methods.adapters.adapters import Adapters
from modules.methods.joint import Joint
from tests import tiny
from tests.adapters import predict, section, shake
from tests.cases import cases

STRENGTH = 0.6


@pytest.mark.parametrize(
    "kind",
    cases(
        ["lora", "dora", "dora-outputs", "loha", "lokr", "oft", "oft-constrained", "ia3"],
        ["dora", "oft", "ia3"],
    ),
)
def test_beside_their_layers_adapters_compute_as_merged_at_a_strength(kind):
    family = tiny.family()
    plain = predict(family)
    method = Adapters.attach(family, section(kind, targets="attn"), seed=0)
    shake(method)
    whole = predict(family)
    # The merged weight is computed by the published formula of each kind.
    with method.at_strength(STRENGTH):
        found = predict(family)
        with method.merged():
            torch.testing.assert_close(predict(family), found, atol=2e-5, rtol=1e-4)
    # A hundred times the tolerance.
    assert min((found - plain).abs().max(), (found - whole).abs().max()) > 2e-3
    with method.at_strength(1.0):
        assert torch.equal(predict(family), whole)
    with method.at_strength(STRENGTH), method.base_model(), Joint(method, None).at_strength(2.0):
        assert torch.equal(predict(family), plain)
    assert torch.equal(predict(family), whole)
