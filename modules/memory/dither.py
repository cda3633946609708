"""Dithered casts to half precision, which keep small changes of weights on average.

A weight that is already exact in bfloat16 rounds back to its old value when it changes by a
thousandth: of relative changes of 3e-4, as adapters make them in their first steps, rounding to
the nearest loses four fifths. Thresholds spread evenly over a weight's rows and columns round the
right fraction of the numbers up (the R2 sequence of Roberts 2018, "The unreasonable effectiveness
of quasirandom sequences"). The thresholds are constant: no random numbers are drawn.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

# The two numbers of R2, 0.75488 and 0.56984, times 2**16: thresholds are integers of 16 bits.
ROW, COLUMN = 49471, 37345
BITS = 16
CUT: Mapping[torch.dtype, int] = {torch.bfloat16: 16, torch.float16: 13}
"""Bits of a float32 that each dtype drops."""


def cast_with_dither(exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast a weight to another dtype, rounding each number to one of its two neighbors.

    What the dtype can represent stays unchanged. Only casts from float32 to 16 bits are dithered;
    numbers below 6e-5, for which float16 has fewer bits, are rounded to the nearest.

    Args:
        exact: (out, …).
        dtype: The dtype to cast to.
    """
    cut = CUT.get(dtype)
    if cut is None or exact.dtype != torch.float32:
        return exact.to(dtype)
    rows = exact.flatten(1).contiguous()
    count, width = rows.shape
    thresholds = torch.arange(count, dtype=torch.int32, device=exact.device)[:, None] * ROW
    thresholds = thresholds + torch.arange(width, dtype=torch.int32, device=exact.device) * COLUMN
    thresholds.bitwise_and_((1 << BITS) - 1).bitwise_right_shift_(BITS - cut)
    # The sign is a separate bit, so a carry moves a number away from zero, if need be into the
    # exponent.
    thresholds.add_(rows.view(torch.int32)).bitwise_and_(-(1 << cut))
    return thresholds.view(torch.float32).to(dtype).view(exact.shape)
