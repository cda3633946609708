"""What torch.cuda answers while there is a pretended GPU."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from tests.pretend.function_mode import place_named
from tests.pretend.ledger import CUDA, TOTAL_MEMORY, Ledger, replace, seen
from tests.pretend.streams import Event, Stream, Streams

NAME = "Pretended card"
CAPABILITY = (9, 0)


def replace_cuda(patches: ExitStack, ledger: Ledger, streams: Streams) -> None:
    """Let torch.cuda describe the pretended GPU, or torch.mps if it is called so."""
    replace(patches, torch, "Generator", generator_class(torch.Generator))
    if seen().type == "mps":
        replace(patches, torch.backends.mps, "is_available", lambda: True)
        replace(patches, torch.backends.mps, "is_macos_or_newer", lambda major, minor: True)
        replace(patches, torch.mps, "current_allocated_memory", lambda: ledger.allocated)
        replace(patches, torch.mps, "driver_allocated_memory", lambda: ledger.allocated)
        replace(patches, torch.mps, "empty_cache", lambda: None)
        return
    answers = {**_presence(), **_memory(ledger), **_streams(ledger, streams), **_random()}
    for name, answer in answers.items():
        replace(patches, torch.cuda, name, answer)
    for name, value in {"_initialized": True, "default_generators": ()}.items():
        replace(patches, torch.cuda, name, value)


def _presence() -> Mapping[str, Callable[..., Any]]:
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1 + seen().index,
        "current_device": lambda: seen().index,
        "set_device": place_named,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "is_current_stream_capturing": lambda: False,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_device_properties": lambda device=None: _properties(),
        "get_arch_list": lambda: ["sm_90"],
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "can_device_access_peer": lambda device, peer: False,
        "device": _InsideDevice,
        "device_of": _InsideDevice,
        "ipc_collect": lambda: None,
    }


def _properties(total: int = TOTAL_MEMORY) -> SimpleNamespace:
    return SimpleNamespace(
        name=NAME,
        uuid="7",
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=total,
        multi_processor_count=1,
        warp_size=32,
        gcnArchName="",
        is_integrated=False,
        is_multi_gpu_board=False,
    )


def _memory(ledger: Ledger) -> Mapping[str, Callable[..., Any]]:
    total = TOTAL_MEMORY if ledger.capacity is None else ledger.capacity

    def reset_peak(device: object = None) -> None:
        ledger.peak = ledger.allocated

    return {
        "get_device_properties": lambda device=None: _properties(total),
        "memory_allocated": lambda device=None: ledger.allocated,
        "max_memory_allocated": lambda device=None: ledger.peak,
        "memory_reserved": lambda device=None: ledger.allocated,
        "max_memory_reserved": lambda device=None: ledger.peak,
        "mem_get_info": lambda device=None: (total - ledger.allocated, total),
        "memory_stats": lambda device=None: {
            "allocated_bytes.all.current": ledger.allocated,
            "allocated_bytes.all.peak": ledger.peak,
        },
        "memory_summary": lambda device=None, abbreviated=False: "",
        "reset_peak_memory_stats": reset_peak,
        "reset_max_memory_allocated": reset_peak,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "empty_cache": lambda: None,
    }


def _streams(ledger: Ledger, streams: Streams) -> Mapping[str, Any]:
    def synchronize(device: object = None) -> None:
        ledger.wait("torch.cuda.synchronize")
        streams.synchronize()

    @contextmanager
    def stream(stream: Stream | None) -> Any:
        streams.enter(stream)
        try:
            yield
        finally:
            streams.leave()

    class PretendedStream(Stream):
        """torch.cuda.Stream."""

        def __new__(cls, device: object = None, priority: int = 0, **_: object) -> Any:
            place_named(device)
            return streams.new()

    class PretendedEvent(Event):
        """torch.cuda.Event."""

        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(streams)

    return {
        "synchronize": synchronize,
        "Stream": PretendedStream,
        "Event": PretendedEvent,
        "stream": stream,
        "StreamContext": stream,
        "current_stream": lambda device=None: streams.current,
        "default_stream": lambda device=None: streams.default,
        "set_stream": lambda stream: streams.enter(stream),
    }


def _random() -> Mapping[str, Callable[..., Any]]:
    """The GPU samples from the processor's generator, so that it gets the same numbers."""
    return {
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "seed": lambda: None,
        "seed_all": lambda: None,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda state, device="cuda": None,
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: None,
    }


class _InsideDevice:
    """torch.cuda.device and device_of: there is but one."""

    def __init__(self, device: Any = None) -> None:
        if not isinstance(device, torch.Tensor):
            place_named(device if device != -1 else None)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def generator_class(original: type[torch.Generator]) -> type:
    """torch.Generator that can be asked for the GPU; it samples the processor's numbers."""

    class Kind(type(original)):  # type: ignore[misc] # as below
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

    class Generator(original, metaclass=Kind):  # type: ignore[misc, valid-type] # chosen at run time
        """A generator that says on which device it samples."""

        def __new__(cls, device: Any = "cpu") -> Any:
            made = original.__new__(cls, "cpu")
            made.place = place_named(device)
            return made

        def __init__(self, device: Any = "cpu") -> None:
            pass

        @property
        def device(self) -> torch.device:
            """cuda:0 or cpu."""
            place: torch.device = self.place
            return seen() if place is CUDA else torch.device("cpu")

    return Generator
