"""Follows storages through every operation, forward and backward, and refuses mixed devices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from tests.pretend.ledger import (
    CPU,
    CUDA,
    FLOATING,
    Entry,
    Ledger,
    is_wrapper,
    require_format,
)
from tests.pretend.numberless import Numberless
from tests.pretend.op_rules import OpRule, becomes_masked_fill, has_mask, rule_of
from tests.pretend.streams import Streams


class FollowStorages(TorchDispatchMode):
    """The mode below autograd: what it does not see is not computed.

    numberless: carries operations out where tensors have no numbers; None where they have.
    factory: where tensors that follow from no other lie just now. crossing: the place where the one
    copy that is being made ends.
    """

    def __init__(
        self, ledger: Ledger, streams: Streams, numberless: Numberless | None = None
    ) -> None:
        super().__init__()
        self._numberless = numberless
        self.ledger = ledger
        self.streams = streams
        self.factory = FLOATING
        self.crossing: torch.device | None = None
        self._entries = ledger.entries
        self._rules: dict[OpOverload, OpRule] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # its wrapper costs as much as all that is done here

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if types and any(is_wrapper(kind) for kind in types):
            return NotImplemented  # it comes back with what is inside
        rule = self._rules.get(func)
        if rule is None:
            rule = self._rules[func] = rule_of(func)
        if rule.is_view:
            # It needs nothing, and there is nothing to note.
            return func(*args, **kwargs) if kwargs else func(*args)
        kwargs = kwargs or {}
        place = self._place_of_all(rule, args, kwargs)
        if place is CPU and self.crossing is None and not self.streams.is_used:
            return self._computed(func, rule, args, kwargs)
        if rule.waits is not None and place is CUDA and self._has_to_wait(rule, args):
            self.ledger.wait(rule.waits)
            self.streams.host_waits()
        if rule.kind not in ("copy", "move") and self.streams.matters_to(place):
            self._order(rule, place, args, kwargs)
        result = self._computed(func, rule, args, kwargs)
        if self.crossing is not None and rule.kind == "move":
            self._note(result, self.crossing)
        elif place is not CPU:
            self._note_results(rule, place, args, kwargs, result)
        return result

    def _has_to_wait(self, rule: OpRule, args: Sequence[Any]) -> bool:
        # A number of the host is no reason to wait.
        return rule.waits != "masked_fill" or self._is_on_gpu(args[2])

    def _computed(
        self, func: OpOverload, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if self._numberless is None:
            return func(*args, **kwargs)
        return self._numberless.compute(func, rule, args, kwargs)

    def _note_results(
        self,
        rule: OpRule,
        place: torch.device,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        if rule.kind == "foreach":
            self._note_each(place, args, result)
        elif rule.makes:
            self._note(result, place)
        if rule.resizes:
            for written in self._written(rule, args, kwargs):
                self.ledger.remeasure(written)

    def _order(
        self, rule: OpRule, place: torch.device, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Whoever works here has to have waited for what it uses."""
        actor = self.streams.current if place is CUDA else self.streams.host
        written = list(map(self._entry, self._written(rule, args, kwargs)))
        used = map(self._entry, _tensors(args, kwargs))
        self.streams.use(
            actor,
            read=[entry for entry in used if entry is not None and entry not in written],
            written=[entry for entry in written if entry is not None],
            what=rule.name,
        )

    def _note(self, result: Any, place: torch.device) -> None:
        if isinstance(result, Tensor):
            storage = result.untyped_storage()
            if storage._cdata in self._entries or place is CPU:
                return
            require_format(result, place)
            entry = self.ledger.add(storage, place)
            if self.streams.has_others and place is CUDA:
                self.streams.made(self.streams.current, entry)
        elif isinstance(result, tuple | list):
            for one in result:
                self._note(one, place)

    def _note_each(self, place: torch.device, args: Sequence[Any], result: Any) -> None:
        """Results of a foreach: each lies where the first list's tensor lies."""
        if result is None:
            return
        for source, made in zip(args[0], result, strict=True):
            entry = self._entry(source)
            self._note(made, CPU if entry is None else entry.place)

    def _entry(self, tensor: Tensor) -> Entry | None:
        return self._entries.get(tensor.untyped_storage()._cdata)

    def _place_of_all(
        self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> torch.device:
        """Where the operation is computed. Raises RuntimeError if that cannot be said."""
        kind = rule.kind
        if kind == "plain" or kind == "move":
            return self._common(rule, args, kwargs)
        if kind == "copy":
            return self._copied(args)
        if kind == "index":
            return self._indexed(rule, args)
        return self._foreach(rule, args, kwargs)

    def _common(self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
        """The one place of all tensors; a floating tensor takes that of the others."""
        gpus, others = self._count(args)
        if not others and not (kwargs and _tensors(kwargs.values(), {})):
            return CUDA if gpus else self.factory
        return self._mixed(rule, args, kwargs)

    def _count(self, values: Sequence[Any]) -> tuple[int, int]:
        """How many tensors are on the GPU, and how many are not."""
        entries = self._entries
        gpus = others = 0
        # This is done for every operation: no function is called that need not be.
        for value in values:
            if isinstance(value, Tensor):
                entry = entries.get(value.untyped_storage()._cdata)
                if entry is not None and entry.place is CUDA:
                    gpus += 1
                else:
                    others += 1
            elif value.__class__ is list:
                more = self._count(value)
                gpus, others = gpus + more[0], others + more[1]
        return gpus, others

    def _mixed(self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
        """The same where not all is on the GPU."""
        tensors = _tensors(args, kwargs)
        if not tensors:
            return self.factory
        gpus = hosts = 0
        floating: list[Tensor] = []
        for tensor in tensors:
            entry = self._entries.get(tensor.untyped_storage()._cdata)
            if entry is None or entry.place is CPU:
                # A number is no reason for others to be where it is.
                hosts += 1 if tensor.dim() else 0
            elif entry.place is CUDA:
                gpus += 1
            else:
                floating.append(tensor)
        if gpus:
            if gpus + len(floating) < len(tensors):
                self._require_allowed(rule, args, kwargs)
            place = CUDA
        else:
            place = FLOATING if floating and not hosts else CPU
        if floating and place is not FLOATING:
            for tensor in floating:
                self.ledger.put(tensor, place)
        return place

    def _require_allowed(
        self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Of tensors in both places those of the host may only be numbers, and only be read."""
        for name, tensor, is_written in _named(rule, args, kwargs):
            entry = self._entry(tensor)
            if entry is not None and entry.place is not CPU:
                continue
            is_number = rule.takes_scalars and tensor.dim() == 0 and not is_written
            if not is_number and name not in rule.host_names:
                self._refuse(rule, args, kwargs)

    def _copied(self, args: Sequence[Any]) -> torch.device:
        """A copy into a tensor may come from anywhere."""
        target, source = args[0], args[1]
        to, of = self._entry(target), self._entry(source)
        place = CPU if to is None else to.place
        origin = CPU if of is None else of.place
        if FLOATING in (place, origin):
            if place is FLOATING:
                place = origin
                self.ledger.put(target, place)
            else:
                self.ledger.put(source, place)
        elif place is not origin:
            non_blocking = bool(args[2]) if len(args) > 2 else False
            is_queued = non_blocking and _is_pinned(to, of)
            self.count_transfer(_size(target), place, waits=not is_queued)
            if self.streams.is_used or is_queued:
                self._order_copy(to, of, non_blocking)
        elif self.streams.matters_to(place):
            actor = self.streams.current if place is CUDA else self.streams.host
            self.streams.use(actor, _listed(of), _listed(to), "copy")
        return place

    def _order_copy(self, to: Entry | None, of: Entry | None, non_blocking: bool) -> None:
        """A copy between places is the current stream's work."""
        self.streams.is_used = self.streams.is_used or non_blocking
        current = self.streams.current
        self.streams.use(current, _listed(of), _listed(to), "copy")
        if not non_blocking or not _is_pinned(to, of):
            self.streams.host.join(current)

    def order_new_copy(self, source: Tensor, made: Tensor, non_blocking: bool) -> None:
        """As above, of a copy that has just been made."""
        of, to = self._entry(source), self._entry(made)
        if not self.streams.is_used and not (non_blocking and _is_pinned(to, of)):
            return
        self._order_copy(to, of, non_blocking)

    def count_transfer(self, size: int, place: torch.device, *, waits: bool) -> None:
        """Notes a copy of so many bytes to a place.

        The host waits for each that it asks to wait for, and for each whose end in host memory is
        not pinned: CUDA copies that through memory of its own, after the stream's earlier work.
        Source: CUDA Runtime API, "API synchronization behavior".
        """
        (self.ledger.to_device if place is CUDA else self.ledger.to_host).add(size)
        if waits:
            self.ledger.wait("copy to the GPU" if place is CUDA else "copy to the host")

    def _indexed(self, rule: OpRule, args: Sequence[Any]) -> torch.device:
        """Indices may come from the host; what is indexed and what is written may not."""
        indices = [index for index in args[1] if index is not None]
        kept = [args[0], *(one for one in args[2:3] if isinstance(one, Tensor) and one.dim())]
        place = self._common(rule, kept, {})
        if place is FLOATING:
            return self._common(rule, [*kept, *indices], {})
        if place is CPU:
            if any(self._is_on_gpu(index) for index in indices):
                raise RuntimeError(
                    "indices should be either on cpu or on the same device as the indexed tensor"
                    f" (cpu) (when checking arguments of {rule.name})"
                )
            return CPU
        for index in indices:
            entry = self._entry(index)
            if entry is None or entry.place is CPU:
                self.count_transfer(_size(index), CUDA, waits=True)
        if has_mask(indices) and not becomes_masked_fill(rule, args, self._is_on_host):
            self.ledger.wait("nonzero")
        return CUDA

    def _foreach(
        self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> torch.device:
        """Of each list the first, the second … belong together, and lists may have both kinds."""
        lists = [a for a in (*args, *kwargs.values()) if _is_list_of_tensors(a)]
        alone = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        # A tensor of one number for each of the list is read on the host.
        alone = [a for a in alone if a.dim() == 0]
        place = CPU
        for row in zip(*lists, strict=True):
            if "_foreach_copy" in rule.name:
                here = self._copied([*row, *args[2:3]])
            else:
                here = self._common(_POINTWISE, [*row, *alone], {})
            if here is not CPU:
                place = here
        return place

    def _written(
        self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Tensor]:
        given = [args[place] for place in rule.written if place < len(args)]
        given += [kwargs[name] for name in rule.written_names if name in kwargs]
        return _tensors(given, {})

    def _is_on_gpu(self, tensor: Tensor) -> bool:
        entry = self._entry(tensor)
        return entry is not None and entry.place is CUDA

    def _is_on_host(self, tensor: Tensor) -> bool:
        entry = self._entry(tensor)
        return entry is None or entry.place is CPU

    def _refuse(self, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        listed = ", ".join(
            f"{name} {self.ledger.device_of(tensor)} {tuple(tensor.shape)}"
            for name, tensor, _ in _named(rule, args, kwargs)
        )
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices,"
            f" cuda:0 and cpu! (when checking arguments of {rule.name}: {listed})"
        )


def _tensors(args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Every tensor among the arguments, also in lists."""
    found = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [one for one in value if isinstance(one, Tensor)]
    return [*found, *_tensors(kwargs.values(), {})] if kwargs else found


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_pinned(to: Entry | None, of: Entry | None) -> bool:
    """Whether the host's end of a copy is pinned memory."""
    return any(entry is not None and entry.is_pinned for entry in (to, of))


def _listed(entry: Entry | None) -> list[Entry]:
    return [] if entry is None else [entry]


def _named(
    rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Tensor, bool]]:
    """Every tensor with its argument's name, and whether it is written into."""
    for place, value in enumerate(args):
        name = rule.argument_names[place] if place < len(rule.argument_names) else str(place)
        for tensor in _tensors([value], {}):
            yield name, tensor, place in rule.written
    for name, value in kwargs.items():
        for tensor in _tensors([value], {}):
            yield name, tensor, name in rule.written_names


def _is_list_of_tensors(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Tensor)


_POINTWISE = OpRule(
    name="aten._foreach",
    kind="plain",
    waits=None,
    takes_scalars=True,
    makes=True,
    is_view=False,
    resizes=False,
    written=(0,),
    written_names=(),
    host_names=frozenset(),
    argument_names=("self", "other", "weight", "third"),
)
