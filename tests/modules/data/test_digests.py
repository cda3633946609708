"""What tells weights from others."""

import pytest
import torch

from modules.data.cache import weights_digest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_digest_keeps_values_names_types_and_shapes_apart(dtype):
    def module(value=1.0, name="a", dtype=dtype, shape=(2, 3)):
        made = torch.nn.Module()
        made.register_buffer(name, torch.full(shape, value, dtype=dtype))
        made.register_buffer("count", torch.tensor(3))
        return made

    others = [{"value": 2.0}, {"name": "b"}, {"dtype": torch.float64}, {"shape": (3, 2)}]
    different = {weights_digest(module(**change)) for change in [{}, *others]}
    assert len(different) == 5
    assert weights_digest(module()) == weights_digest(module())


def test_weights_digest_does_not_depend_on_memory_layout():
    plain, turned = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    turned.load_state_dict(plain.state_dict())
    turned.weight.data = turned.weight.data.t().contiguous().t()
    assert weights_digest(plain) == weights_digest(turned)
