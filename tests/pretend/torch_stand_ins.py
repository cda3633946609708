"""Places inside torch and accelerate that ask for a device without asking a tensor."""

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.utils._foreach_utils
from torch import Tensor, nn

from tests.pretend.function_mode import RewriteDevices
from tests.pretend.ledger import CPU, CUDA, Ledger, replace, seen
from tests.pretend.places import callers_place

# Their packages replace these names by functions and classes of the same name.
_OPTIMIZER = sys.modules["torch.optim.optimizer"]
_CLIPPING = sys.modules["torch.nn.utils.clip_grad"]


def replace_in_torch(patches: ExitStack, ledger: Ledger, mode: RewriteDevices) -> None:
    """Replaces all of them."""
    _autocast(patches)
    _foreach(patches, ledger)
    _callbacks(patches, mode)
    _functions(patches, ledger)
    _module_moves(patches, ledger)
    _wrappers(patches)
    _tensor_methods(patches, ledger, mode)


def _tensor_methods(patches: ExitStack, ledger: Ledger, mode: RewriteDevices) -> None:
    """Methods that torch does not show to modes, or not soon enough."""
    pickled = torch.Tensor._reduce_ex_internal

    def reduce(self: Tensor, protocol: int) -> Any:
        if ledger.place_of(self) is CUDA:
            ledger.to_host.add(self.numel() * self.element_size())
            ledger.wait("pickle")
        return pickled(self, protocol)

    def record_stream(self: Tensor, stream: object) -> None:
        entry = ledger.entry_of(self)
        if entry is not None:
            entry.recorded = {*(entry.recorded or ()), stream}

    def pin_memory(self: Tensor) -> Tensor:
        """Also in threads of the program's own, which modes do not see."""
        return mode.mover.pinned(self)

    replace(patches, torch.Tensor, "_reduce_ex_internal", reduce)
    replace(patches, torch.Tensor, "pin_memory", pin_memory)
    replace(patches, torch.Tensor, "record_stream", record_stream)


def _wrappers(patches: ExitStack) -> None:
    """Tensors that hold others are made where memory is, and say that they are where these are."""
    original = torch.Tensor._make_wrapper_subclass

    def make(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == seen().type:
            kwargs["device"] = CPU
        return original(*args, **kwargs)

    replace(patches, torch.Tensor, "_make_wrapper_subclass", staticmethod(make))


def _autocast(patches: ExitStack) -> None:
    """Of the GPU it is that of the processor: the same casts, the same numbers."""
    kind = torch.amp.autocast_mode.autocast
    original = kind.__init__

    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda" and dtype is None:
            dtype = torch.float16  # CUDA's
        original(self, _real(device_type), dtype, *args, **kwargs)

    replace(patches, kind, "__init__", init)
    for name in (
        "is_autocast_enabled",
        "get_autocast_dtype",
        "set_autocast_enabled",
        "set_autocast_dtype",
    ):
        replace(patches, torch, name, _with_real_device(getattr(torch, name)))
    available = torch.amp.autocast_mode.is_autocast_available
    for owner in (torch.amp, torch.amp.autocast_mode):
        replace(patches, owner, "is_autocast_available", _with_real_device(available))


def _real(device_type: Any) -> Any:
    return "cpu" if device_type == seen().type else device_type


def _with_real_device(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        return original(*map(_real, args), **{name: _real(v) for name, v in kwargs.items()})

    return asked


def _foreach(patches: ExitStack, ledger: Ledger) -> None:
    """Optimizers take the branch that they take on the processor, and group by pretended device."""
    group = torch.utils._foreach_utils._group_tensors_by_device_and_dtype

    def grouped(tensorlistlist: Any, with_indices: bool = False) -> Any:
        made = group(tensorlistlist, with_indices)
        return _by_place(made, ledger)

    for owner in (torch.utils._foreach_utils, _OPTIMIZER, _CLIPPING):
        replace(patches, owner, "_group_tensors_by_device_and_dtype", grouped)
    if not ledger.is_numberless:
        # Else memory is what counts, and optimizers are as greedy as on a GPU.
        for owner in (torch.utils._foreach_utils, _OPTIMIZER):
            replace(patches, owner, "_get_foreach_kernels_supported_devices", lambda: [])
    for owner in (torch.utils._foreach_utils, _CLIPPING):
        replace(patches, owner, "_device_has_foreach_support", lambda device: True)


def _by_place(groups: dict[Any, Any], ledger: Ledger) -> dict[Any, Any]:
    """Groups by real device and dtype, as groups by pretended device and dtype."""
    made: dict[Any, Any] = {}
    for (_, dtype), (lists, indices) in groups.items():
        for row, tensor in enumerate(lists[0]):
            device = CPU if tensor is None else ledger.device_of(tensor)
            into, numbers = made.setdefault((device, dtype), ([[] for _ in lists], []))
            for target, source in zip(into, lists, strict=True):
                if source:
                    target.append(source[row])
            if indices:
                numbers.append(indices[row])
    return made


def _callbacks(patches: ExitStack, mode: RewriteDevices) -> None:
    """Python that C++ calls talks to the mode, too: hooks, backward passes, saved tensors."""
    engine = torch.autograd.graph._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with mode.reentered():
            return engine(*args, **kwargs)

    for owner in (torch.autograd, torch.autograd.graph):
        replace(patches, owner, "_engine_run_backward", run_backward)
    hooks = torch.autograd.graph.saved_tensors_hooks
    original = hooks.__init__

    def init(self: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        original(self, _in_mode(pack, mode), _in_mode(unpack, mode))

    replace(patches, hooks, "__init__", init)


def _in_mode(function: Callable[..., Any], mode: RewriteDevices) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any) -> Any:
        with mode.reentered():
            return function(*args)

    return called


def _functions(patches: ExitStack, ledger: Ledger) -> None:
    """Own functions' backward has to give each input a gradient in the input's place."""
    original = torch.autograd.Function.__dict__["apply"].__func__

    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        made = original(cls, *args, **kwargs)
        if torch.is_grad_enabled():
            _check_gradients(cls.__name__, args, made, ledger)
        return made

    replace(patches, torch.autograd.Function, "apply", classmethod(apply))


def _check_gradients(name: str, args: Sequence[Any], made: Any, ledger: Ledger) -> None:
    results = made if isinstance(made, tuple | list) else (made,)
    node = next((r.grad_fn for r in results if isinstance(r, Tensor) and r.grad_fn), None)
    if node is None or not hasattr(node, "needs_input_grad"):
        return
    places = [ledger.place_of(arg) for arg in args if isinstance(arg, Tensor)]

    def check(gradients: Sequence[Tensor | None], _: object) -> None:
        for index, (gradient, place) in enumerate(zip(gradients, places, strict=False)):
            if gradient is None or gradient.dim() == 0:
                continue
            found = ledger.place_of(gradient)
            if found is not place and {found, place} <= _SAID:
                raise RuntimeError(
                    f"Function {name}Backward returned an invalid gradient at index {index} -"
                    f" expected device {place} but got {found}"
                )

    node.register_hook(check)


_SAID = {CUDA, CPU}


def _module_moves(patches: ExitStack, ledger: Ledger) -> None:
    for name in ("to", "cuda", "cpu"):
        replace(patches, nn.Module, name, _noted(name, getattr(nn.Module, name), ledger))


def _noted(name: str, original: Callable[..., Any], ledger: Ledger) -> Callable[..., Any]:
    @functools.wraps(original)
    def moved(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        named = [*args[:1], kwargs.get("device"), kwargs.get("tensor")]
        asks = [one for one in named if isinstance(one, str | int | torch.device | Tensor)]
        if name != "to" or asks:
            ledger.module_moves.append(callers_place())
        return original(self, *args, **kwargs)

    return moved


class AcceleratorState:
    """What accelerate keeps for the whole process, put aside."""

    def __init__(self) -> None:
        self._kept = [(shared, dict(shared)) for shared in _shared_states()]
        for shared, _ in self._kept:
            shared.clear()

    def restore(self) -> None:
        """As it was; what was made meanwhile is forgotten."""
        for shared in _shared_states():
            shared.clear()
        for shared, before in self._kept:
            shared.update(before)


def _shared_states() -> list[dict[str, Any]]:
    state = sys.modules.get("accelerate.state")
    if state is None:
        return []
    names = ("PartialState", "AcceleratorState", "GradientState")
    return [getattr(state, name)._shared_state for name in names]
