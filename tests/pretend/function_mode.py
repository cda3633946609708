"""Above autograd: device arguments are rewritten, and every question for a device is answered."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import _device_constructors

from modules.meta_device.autocast import Autocast
from modules.meta_device.device import attention
from tests.pretend.dispatch_mode import FollowStorages
from tests.pretend.ledger import CPU, CUDA, FLOATING, Ledger, seen
from tests.pretend.moves import Mover
from tests.pretend.numberless import LARGE, META, zeros_of

Handler = Callable[[Sequence[Any], dict[str, Any]], Any]

_NUMPY = (
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host"
    " memory first."
)


class RewriteDevices(TorchFunctionMode):
    """The mode that a program talks to."""

    def __init__(
        self,
        ledger: Ledger,
        dispatch: FollowStorages,
        mover: Mover,
        autocast: Autocast | None = None,
    ) -> None:
        super().__init__()
        self._autocast = autocast
        self.ledger = ledger
        self.dispatch = dispatch
        self.mover = mover
        self._handlers = self._all_handlers()
        if ledger.is_numberless:
            self._handlers[functional.scaled_dot_product_attention] = _attend

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if self._autocast is not None:
            args, kwargs = self._autocast.cast(func, tuple(args), kwargs or {})
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(args, kwargs or {})
        if not kwargs:
            return func(*args)
        if "device" in kwargs or "pin_memory" in kwargs:
            return self._with_device(func, args, kwargs)
        if kwargs.get("generator") is not None:
            self._require_generator(args, kwargs["generator"])
        return func(*args, **kwargs)

    @contextmanager
    def reentered(self) -> Iterator[None]:
        """Within, the mode is active, also where torch has set it aside for what it calls."""
        if self in _get_current_function_mode_stack():
            yield
            return
        with self:
            yield

    def _all_handlers(self) -> dict[Any, Handler]:
        return {
            torch.Tensor.device.__get__: lambda args, _: self.ledger.device_of(args[0]),  # type: ignore[attr-defined] # a getset
            torch.Tensor.is_cuda.__get__: self._is_cuda,  # type: ignore[attr-defined] # a getset
            torch.Tensor.is_cpu.__get__: lambda args, _: not self._is_on(args[0], CUDA),  # type: ignore[attr-defined] # a getset
            torch.Tensor.get_device: lambda args, _: (
                seen().index if self._is_on(args[0], CUDA) else -1
            ),
            torch.Tensor.grad.__set__: self._set_grad,  # type: ignore[attr-defined] # a getset
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.cpu: lambda args, _: self.mover.moved(args[0], CPU),
            torch.Tensor.type: self._type,
            torch.Tensor.pin_memory: lambda args, _: self.mover.pinned(args[0]),
            torch.Tensor.is_pinned: lambda args, _: self.mover.is_pinned(args[0]),
            torch.Tensor.copy_: self._copy,
            torch.Tensor.numpy: partial(self._numpy, torch.Tensor.numpy),
            torch.Tensor.__array__: partial(self._numpy, torch.Tensor.__array__),
            torch.Tensor.tolist: partial(self._read, "tolist", torch.Tensor.tolist),
            torch.Tensor.__repr__: partial(self._read, "print", torch.Tensor.__repr__),
            torch.Tensor.__deepcopy__: self._deepcopy,
            torch.Tensor.new_tensor: self._new_tensor,
            torch.Tensor.data_ptr: self._data_ptr,
            **{factory: partial(self._with_device, factory) for factory in _device_constructors()},
            torch.as_tensor: lambda args, kwargs: self._as_tensor(torch.as_tensor, args, kwargs),
            torch.asarray: lambda args, kwargs: self._as_tensor(torch.asarray, args, kwargs),
        }

    def _is_cuda(self, args: Sequence[Any], _: object) -> bool:
        return self._is_on(args[0], CUDA) and seen().type == "cuda"

    def _is_on(self, tensor: Tensor, place: torch.device) -> bool:
        return self.ledger.place_of(tensor) is place

    # What a program asks to be made somewhere.

    def _with_device(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A call with `device=` or `pin_memory=`."""
        kwargs = dict(kwargs)
        asked = kwargs.pop("device", None)
        is_pinned = bool(kwargs.pop("pin_memory", False))
        if func is torch.device:
            return func(*args, **kwargs) if asked is None else func(*args, device=asked, **kwargs)
        source = args[0] if args and isinstance(args[0], Tensor) else None
        place = place_named(asked)
        if place is None:
            place = CPU if source is None else self.ledger.place_of(source)
        if asked is not None and torch.device(asked).type == "meta":
            # Empty networks are made so, and wait in host memory.
            return self._made(func, args, {**kwargs, "device": META}, CPU)
        if kwargs.get("generator") is not None:
            require_same_device(kwargs["generator"], place)
        made = self._made(func, args, kwargs, place)
        if is_pinned:
            self.ledger.pin(made)
        return made

    def _made(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        place: torch.device,
    ) -> Any:
        if self.ledger.is_numberless and (place is CUDA or _is_large(args, kwargs)):
            kwargs = {**kwargs, "device": META}
            kwargs.pop("generator", None)  # nothing is sampled
        self.dispatch.factory = place
        try:
            made = func(*args, **kwargs)
        finally:
            self.dispatch.factory = FLOATING
        if kwargs.get("out") is None and isinstance(made, Tensor):
            if func is torch.tensor and place is CUDA:
                self.dispatch.count_transfer(made.numel() * made.element_size(), CUDA, waits=True)
            self.ledger.put(made, place)
        return made

    def _as_tensor(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        kwargs = dict(kwargs)
        place = place_named(kwargs.pop("device", None))
        made = func(*args, **kwargs)
        return made if place is None else self.mover.moved(made, place)

    def _new_tensor(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        kwargs = dict(kwargs)
        place = place_named(kwargs.pop("device", None)) or self.ledger.place_of(args[0])
        made = torch.Tensor.new_tensor(*args, **kwargs)
        if place is CUDA:
            self.dispatch.count_transfer(made.numel() * made.element_size(), CUDA, waits=True)
        self.ledger.put(made, place)
        return made

    def _require_generator(self, args: Sequence[Any], generator: torch.Generator) -> None:
        tensor = args[0] if args and isinstance(args[0], Tensor) else None
        require_same_device(generator, CPU if tensor is None else self.ledger.place_of(tensor))

    # Moves.

    def _to(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        tensor, *rest = args
        given = dict(kwargs)
        named = given.pop("device", None)
        dtype = given.pop("dtype", None)
        other = given.pop("other", None)
        if rest and isinstance(rest[0], Tensor):
            other = rest.pop(0)
        if other is not None:
            named, dtype = self.ledger.place_of(other), other.dtype
        elif rest and not isinstance(rest[0], torch.dtype | bool) and rest[0] is not None:
            named = rest.pop(0)
        elif rest and rest[0] is None:
            rest.pop(0)
        if rest and (isinstance(rest[0], torch.dtype) or rest[0] is None):
            dtype = rest.pop(0) or dtype
        flags = dict(zip(("non_blocking", "copy"), rest, strict=False)) | given
        if flags.get("memory_format") is None:
            flags.pop("memory_format", None)
        place = place_named(named) or self.ledger.place_of(tensor)
        if named is not None and torch.device(named).type == "meta":
            return torch.Tensor.to(*args, **kwargs)
        return self.mover.moved(tensor, place, dtype=dtype, **flags)

    def _cuda(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        device = args[1] if len(args) > 1 else kwargs.get("device")
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        place = place_named("cuda" if device is None else device)
        assert place is CUDA
        return self.mover.moved(args[0], place, non_blocking=non_blocking)

    def _type(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        answer = torch.Tensor.type(*args, **kwargs)
        if isinstance(answer, str) and self._is_on(args[0], CUDA):
            return answer.replace("torch.", "torch.cuda.", 1)
        return answer

    def _copy(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        target, source = args[0], args[1]
        crosses = self.ledger.place_of(target) is not self.ledger.place_of(source)
        if crosses and source.requires_grad and torch.is_grad_enabled():
            # torch's own backward would leave the gradient where the target is.
            source = self.mover.moved(source, self.ledger.place_of(target))
        return target.copy_(source, *args[2:], **kwargs)

    # What is read.

    def _numpy(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self._is_on(args[0], CUDA):
            raise TypeError(_NUMPY)
        self._require_landed(args[0], "numpy")
        if args[0].is_meta:
            return zeros_of(args[0]).numpy()
        return func(*args, **kwargs)

    def _data_ptr(self, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
        self._require_landed(args[0], "data_ptr")
        if self.ledger.is_numberless and args[0].is_meta:
            raise NotImplementedError("this tensor has no numbers that could be read or saved")
        return args[0].data_ptr()

    def _require_landed(self, tensor: Tensor, what: str) -> None:
        """The host may only read what it has waited for."""
        streams, entry = self.dispatch.streams, self.ledger.entry_of(tensor)
        if streams.is_used and entry is not None and entry.place is CPU:
            streams.use(streams.host, [entry], [], what)

    def _read(
        self, what: str, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        tensor = args[0]
        if self.ledger.is_numberless and what == "tolist" and tensor.is_meta:
            args = [zeros_of(tensor)]
        if not self._is_on(tensor, CUDA):
            self._require_landed(tensor, what)
            return func(*args, **kwargs)
        self.dispatch.streams.host_waits()
        self.ledger.to_host.add(tensor.numel() * tensor.element_size())
        self.ledger.wait(what)
        with self.ledger.quiet():
            return func(*args, **kwargs)

    def _deepcopy(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        made: Tensor = torch.Tensor.__deepcopy__(*args, **kwargs)
        self.ledger.put(made, self.ledger.place_of(args[0]))
        if args[0].grad is not None and made.grad is not None:
            self.ledger.put(made.grad, self.ledger.place_of(args[0].grad))
        return made

    # Gradients.

    def _set_grad(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        tensor, gradient = args
        if gradient is not None:
            place, found = self.ledger.place_of(tensor), self.ledger.place_of(gradient)
            if found is not place and FLOATING not in (found, place):
                raise RuntimeError(
                    "assigned grad has data located on a different device:"
                    f" expected {place} but got {found}"
                )
        torch.Tensor.grad.__set__(*args)  # type: ignore[attr-defined] # a getset


def _attend(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if not args[0].is_meta:
        return functional.scaled_dot_product_attention(*args, **kwargs)
    if kwargs.get("attn_mask") is not None:
        kwargs = kwargs | {"attn_mask": kwargs["attn_mask"].to(META)}
    return attention(*args, **kwargs)


def _is_large(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a factory is asked for so much that it is made without numbers."""
    shape = args[0] if args and isinstance(args[0], tuple | list) else args
    shape = kwargs.get("size", shape)
    if not all(isinstance(one, int) for one in shape):
        return False
    size = (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
    return math.prod(shape) * size >= LARGE


def place_named(device: torch.device | str | int | None) -> torch.device | None:
    """The place that a device means; None if none is named.

    Raises RuntimeError for a GPU that is not there.
    """
    if device is None:
        return None
    if isinstance(device, int):
        device = torch.device(seen().type, device)
    if isinstance(device, str):
        device = torch.device(device)
    if device.type in ("cuda", "mps"):
        # On another GPU than the first, nothing may be left to which one is the current one.
        if device != seen() and (device.type != seen().type or device.index or seen().index):
            raise RuntimeError(f"CUDA error: invalid device ordinal ({device})")
        return CUDA
    return CPU


def require_same_device(generator: torch.Generator, place: torch.device) -> None:
    """Raises RuntimeError if a generator samples for another place."""
    kind = seen().type if place is CUDA else "cpu"
    if place is not FLOATING and generator.device.type != kind:
        raise RuntimeError(
            f"Expected a '{kind}' device type for generator but found '{generator.device.type}'"
        )
