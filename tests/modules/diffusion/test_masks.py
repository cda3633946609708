"""What masks do to an image's loss, in numbers that can be added up by hand."""

import torch

from modules.diffusion.masks import mask_weights, masked_mean
from tests.close import near
from tests.each import each

# Half of the first image, none of the second, all of the third.
MASK = torch.tensor([[[[1.0, 0.0]]], [[[0.0, 0.0]]], [[[1.0, 1.0]]]])
ERROR = torch.tensor([2.0, 4.0]).view(1, 1, 1, 2).expand(3, 1, 1, 2)
KEPT = torch.tensor([10.0, 6.0]).view(1, 1, 1, 2).expand(3, 1, 1, 2)


@each(
    ("outside", "prior", "normalize", "expected"),
    [
        (1.0, 0.0, False, [3, 3, 3]),
        (0.0, 0.0, False, [1, 0, 3]),
        (0.5, 0.0, False, [(2 + 2) / 2, 1.5, 3]),
        (0.0, 0.0, True, [2, 0, 3]),
        (0.5, 0.0, True, [(2 + 2) / 1.5, 3, 3]),
        (0.0, 0.5, False, [(2 + 3) / 2, (5 + 3) / 2, 3]),
        (0.5, 0.5, True, [(2 + 2 + 3) / 2, (1 + 2 + 5 + 3) / 2, 3]),
    ],
)
def test_masked_losses_are_the_means_by_hand(outside, prior, normalize, expected):
    counts = mask_weights(MASK, outside=outside, prior=prior)
    kept = KEPT if prior else None
    ours = masked_mean(ERROR, kept, counts, normalize_area=normalize)
    assert ours.tolist() == near(expected)
