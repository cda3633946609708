"""Gradient checkpointing: a forward pass that saves its inputs, and is computed again in backward.

Source: Chen et al. 2016, arXiv:1604.06174; in torch's non-reentrant form.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint, noop_context_fn

from modules.memory.layers.activations import SavedInputs
from modules.memory.layers.selective import selective_contexts

Policy = Literal["block", "selective"]
_CONTEXTS = {"block": noop_context_fn, "selective": selective_contexts}

P = ParamSpec("P")
T = TypeVar("T")


def create_checkpointed_forward(
    forward: Callable[P, T],
    train_device: torch.device,
    offload_device: torch.device,
    *,
    policy: Policy = "block",
    saved: SavedInputs | None = None,
) -> Callable[P, T]:
    """The same forward, which keeps little for the backward pass and computes the rest again.

    forward: a module, or whatever else can be called; given anything, with any names. Where no
    gradient is recorded it is called as it is. The second time finds the random numbers and the
    autocast of the first, so that dropout drops the same. Gradients reach everything that forward
    uses, also where none of what it is given requires any.
    train_device: where forward computes. temp_device: where saved inputs wait.
    policy: "block" keeps nothing but the inputs; "selective" also what costs much to compute.
    saved: sends the inputs that are on the train device to the temporary one meanwhile; None
    leaves them where they are, and so do devices that are the same.
    Raises TypeError and ValueError for arguments that are no such things.
    """
    _check(forward, train_device, offload_device, policy)
    home = resolved(train_device)
    sender = None if saved is None or home == resolved(offload_device) else saved

    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> T:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        # As positions, because checkpoints save no named inputs but hold on to them.
        given, form = tree_flatten((args, kwargs))
        places = [place for place, each in enumerate(given) if isinstance(each, Tensor)]
        others = [None if isinstance(each, Tensor) else each for each in given]

        def run(*tensors: Tensor) -> T:
            inputs = list(others)
            for place, tensor in zip(places, tensors, strict=True):
                inputs[place] = tensor
            own_args, own_kwargs = tree_unflatten(inputs, form)
            with _without_remembered_casts():
                return forward(*own_args, **own_kwargs)

        tensors = [given[place] for place in places]
        del given
        with _sending(sender, home):
            return _checkpoint(run, tensors, policy)

    return checkpointed


def resolved(device: torch.device) -> torch.device:
    """The device as tensors on it tell it: "cuda" is the card in use, such as "cuda:0"."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _checkpoint(run: Callable[..., T], tensors: list[Any], policy: Policy) -> T:
    output: T = checkpoint(run, *tensors, use_reentrant=False, context_fn=_CONTEXTS[policy])
    return output


def _sending(sender: SavedInputs | None, home: torch.device) -> AbstractContextManager[object]:
    return nullcontext() if sender is None else sender.hooks(home)


@contextmanager
def _without_remembered_casts() -> Iterator[None]:
    """Autocast casts weights anew at each use, as it does in the second forward.

    It remembers the casts of weights that train until its context ends. That would hold a second
    copy of all of them, and a second use of a layer would have fewer operations than are computed
    again, which selective checkpoints refuse.
    """
    is_remembering = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(is_remembering)


def _check(forward: object, train_device: object, offload_device: object, policy: object) -> None:
    if not callable(forward):
        raise TypeError(f"forward has to be callable, such as a module: {forward!r}")
    for name, device in (("train_device", train_device), ("offload_device", offload_device)):
        if not isinstance(device, torch.device):
            raise TypeError(f"{name} has to be a torch.device: {device!r}")
    if policy not in _CONTEXTS:
        raise ValueError(f"policy has to be one of {', '.join(_CONTEXTS)}: {policy!r}")
