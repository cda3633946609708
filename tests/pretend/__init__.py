"""A GPU that is not there: tensors stay in host memory and say that they are on "cuda".

    with pretend.accelerator() as gpu:
        loss = net.to("cuda")(torch.ones(2, 3, device="cuda")).sum()
        loss.backward()
    assert gpu.syncs == []

Mixed devices are refused as CUDA refuses them; bytes alive and their peak, copies each way and
every time that the host waits are counted. Numbers are those of the processor, bit for bit.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Literal

import torch
from torch import Tensor

from modules.meta_device.autocast import Autocast
from tests.pretend import ledger as ledger_module
from tests.pretend.cuda_stand_ins import replace_cuda
from tests.pretend.dispatch_mode import FollowStorages
from tests.pretend.function_mode import RewriteDevices
from tests.pretend.ledger import CPU, Ledger, Sync, Transfers, replace
from tests.pretend.moves import Mover
from tests.pretend.numberless import Numberless, make_parameters_numberless
from tests.pretend.streams import Streams
from tests.pretend.torch_stand_ins import AcceleratorState, replace_in_torch

__all__ = ["PretendedGpu", "Sync", "Transfers", "accelerator", "device_of"]

_LEDGER: ContextVar[Ledger | None] = ContextVar("ledger of the pretended card", default=None)


class PretendedGpu:
    """The pretended GPU's account; it can still be read after the context."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def allocated(self) -> int:
        """Bytes of all storages on the GPU now."""
        return self._ledger.allocated

    @property
    def peak(self) -> int:
        """The most bytes since the beginning or the last `reset_peak`."""
        return self._ledger.peak

    def reset_peak(self) -> None:
        """The peak is what is allocated now."""
        self._ledger.peak = self._ledger.allocated

    @property
    def to_device(self) -> Transfers:
        """Copies from host memory to the GPU."""
        return self._ledger.to_device

    @property
    def to_host(self) -> Transfers:
        """Copies from the GPU to host memory."""
        return self._ledger.to_host

    @property
    def syncs(self) -> list[Sync]:
        """Every time that the host waited for the GPU, in order; may be cleared."""
        return self._ledger.syncs

    @property
    def module_moves(self) -> list[str]:
        """ "file:line" of every call of a module's `to`, `cuda` or `cpu` with a device."""
        return self._ledger.module_moves


@contextmanager
def accelerator(
    storage: Literal["host", "meta"] = "host", capacity: int | None = None, name: str = "cuda:0"
) -> Iterator[PretendedGpu]:
    """Within, there is a GPU. Nothing of it is left after, also after an exception.

    storage: whether tensors have numbers, or only shapes. capacity: bytes of the GPU; None means
    that it never is full, otherwise torch.OutOfMemoryError is raised as CUDA raises it. name: what
    it is called: "cuda:1" is the second of two, of which the first may not be used; "mps:0" is
    Apple's, without CUDA, pinned memory, non-blocking copies, float64 and float8.
    """
    if _LEDGER.get() is not None:
        raise RuntimeError("there is one pretended GPU at a time")
    is_numberless = storage == "meta"
    ledger = Ledger(capacity, is_numberless=is_numberless)
    streams = Streams(ledger)
    dispatch = FollowStorages(ledger, streams, Numberless() if is_numberless else None)
    autocast = Autocast("cuda") if is_numberless else None
    mode = RewriteDevices(ledger, dispatch, Mover(ledger, dispatch), autocast)
    token = _LEDGER.set(ledger)
    state = AcceleratorState()
    try:
        with ExitStack() as patches:
            replace(patches, ledger_module, "NAME", torch.device(name))
            replace_cuda(patches, ledger, streams)
            replace_in_torch(patches, ledger, mode)
            if autocast is not None:
                make_parameters_numberless(patches)
                patches.enter_context(autocast.patched())
            with dispatch, mode:
                yield PretendedGpu(ledger)
    finally:
        state.restore()
        ledger.close()
        _LEDGER.reset(token)


def device_of(tensor: Tensor) -> torch.device:
    """Where a program believes a tensor to be: cuda:0 or cpu."""
    ledger = _LEDGER.get()
    return CPU if ledger is None else ledger.device_of(tensor)
