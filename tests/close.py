"""Comparisons of computed numbers: how far apart two may be follows from how they were computed.

Another processor adds in another order, and so rounds otherwise. What that may come to is counted
in roundings of the type that was computed in, each as large as that of the largest number: no bare
number is right for every processor.
"""

from collections.abc import Mapping

import numpy
import pytest

FLOAT32 = 2.0**-23
FLOAT64 = 2.0**-52
ROUNDINGS = 100
"""A sum wanders by the square root of its terms: this is for ten thousand, as tiny models have in
a row. A wrong sign, factor, index or term moves numbers by a hundred times as much, or more."""


def near(expected, *, eps=FLOAT32, roundings=ROUNDINGS, of=None):
    """Return what equals numbers, in a sequence or a mapping, that are as close as `close` allows.

    eps: Of the type that they were computed in. of: The largest of what was added, where that is
    larger than the result.
    """
    values = list(expected.values()) if isinstance(expected, Mapping) else expected
    largest = float(numpy.max(numpy.abs(values if of is None else of), initial=0))
    return pytest.approx(expected, rel=0, abs=roundings * eps * largest)


def close(found, expected, *, roundings=ROUNDINGS, of=None, each=False, dtype=None):
    """Check that tensors, in sequences or mappings, differ by so many roundings at most.

    Types and shapes must agree; the expected may be float64 where the found is not. of: What was
    added or subtracted, where that is larger than the result. each: Compare each number with what
    it is itself, and not with the largest. dtype: What was computed in, if it is coarser.
    """
    import torch  # only here: numbers of plain Python are compared without

    if isinstance(expected, Mapping):
        assert found.keys() == expected.keys()
        found, expected = zip(*((found[name], expected[name]) for name in expected), strict=True)
    if isinstance(expected, list | tuple):
        for one, other in zip(found, expected, strict=True):
            close(one, other, roundings=roundings, of=of, each=each, dtype=dtype)
        return
    found, expected = torch.as_tensor(found).detach(), torch.as_tensor(expected).detach()
    assert expected.dtype in (found.dtype, torch.float64), (found.dtype, expected.dtype)
    tolerance = roundings * torch.finfo(dtype or found.dtype).eps
    sizes = torch.as_tensor(expected if of is None else of).detach().double().abs()
    sizes = sizes[sizes.isfinite()]
    largest = float(sizes.max()) if sizes.numel() else 0.0
    torch.testing.assert_close(
        found.double(),
        expected.double(),
        rtol=tolerance if each else 0,
        atol=0 if each else tolerance * largest,
    )
