"""What is used of LyCORIS, loaded without the packages that it only looks for.

It asks for layers of these, which it never gets here; loading them takes several times as long as
all else of it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "DiagOFTModule",
    "IA3Module",
    "LoConModule",
    "LohaModule",
    "LokrModule",
    "LycorisBaseModule",
    "bypass_forward_diff",
    "diff_weight",
    "kron_bypass",
]


@contextmanager
def _without(*packages: str) -> Iterator[None]:
    """Within, packages that are not loaded yet are as if they were not installed."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type] # None is documented to
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with _without("bitsandbytes", "optimum", "peft", "quanto"):
    from lycoris.functional.locon import bypass_forward_diff
    from lycoris.functional.loha import diff_weight
    from lycoris.functional.lokr import kron_bypass
    from lycoris.modules.base import LycorisBaseModule
    from lycoris.modules.diag_oft import DiagOFTModule
    from lycoris.modules.ia3 import IA3Module
    from lycoris.modules.locon import LoConModule
    from lycoris.modules.loha import LohaModule
    from lycoris.modules.lokr import LokrModule
