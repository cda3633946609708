"""What an optimizer has accumulated survives a checkpoint, for every optimizer there is."""

import pytest
import torch

from onetrainer.config.optimizers.adam import AdamW, AdamW8bit
from onetrainer.config.optimizers.adaptive import Prodigy
from tests.optimizer_steps import SECTIONS, Run

FORMATS = [(torch.float32, None), (torch.bfloat16, None), (torch.bfloat16, 7)]
CASES = [
    pytest.param(
        section,
        *number_format,
        id=f"{section.__name__}-{number_format}",
        # All in fp32, three in every format, and the rest in long runs.
        marks=[] if section in (AdamW, Prodigy, AdamW8bit) or not place else pytest.mark.long,
    )
    for section in SECTIONS
    for place, number_format in enumerate(FORMATS)
]


@pytest.mark.parametrize(("section", "dtype", "rounding_seed"), CASES)
def test_ten_steps_equal_five_and_five_after_a_checkpoint(section, dtype, rounding_seed):
    whole = Run(section(), dtype, rounding_seed=rounding_seed)
    whole.go(range(10))
    first = Run(section(), dtype, rounding_seed=rounding_seed)
    first.go(range(5))
    second = Run(section(), dtype, rounding_seed=rounding_seed)
    second.restore(first.saved())
    second.go(range(5, 10))
    for name, weight in whole.trained.items():
        assert torch.equal(weight, second.trained[name]), name
