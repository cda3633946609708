"""Gradient checkpointing: saving only a forward pass's inputs, and recomputing it in backward.

Source: Chen et al. 2016, arXiv:1604.06174; in torch's non-reentrant form.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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
    draws: bool = True,
) -> Callable[P, T]:
    """Return a forward that saves little for the backward pass and recomputes the rest.

    Takes any arguments that `forward` takes. Without gradient recording `forward` is called
    directly. The recomputation restores autocast and random state, so that dropout drops the same
    numbers. Gradients reach all parameters that `forward` uses, even where no input requires one.

    Args:
        forward: A module or any other callable.
        train_device: The device that `forward` computes on.
        offload_device: The device that saved inputs are offloaded to.
        policy: "block" saves nothing but the inputs; "selective" also what is costly to compute.
        saved: Offloads the inputs that are on the train device; None leaves them there, as does
            an offload device that is the train device.
        draws: Whether `forward` may draw random numbers; keeping random state takes time otherwise.

    Raises:
        TypeError: `forward` is not callable, or a device is not a torch.device.
        ValueError: The policy is unknown.
    """
    _check(forward, train_device, offload_device, policy)
    device = resolve_device(train_device)
    offload = None if saved is None or device == resolve_device(offload_device) else saved
    options: dict[str, Any] = {
        "context_fn": _CONTEXTS[policy],
        "preserve_rng_state": draws,
        "use_reentrant": False,
    }

    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> T:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        # Flattened, because checkpoints pass keyword arguments by no hook but hold on to them.
        leaves, form = tree_flatten((args, kwargs))
        positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        others = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

        def run(*tensors: Tensor) -> T:
            inputs = list(others)
            for position, tensor in zip(positions, tensors, strict=True):
                inputs[position] = tensor
            forward_args, forward_kwargs = tree_unflatten(inputs, form)
            with _without_autocast_cache():
                return forward(*forward_args, **forward_kwargs)

        tensors = [leaves[position] for position in positions]
        del leaves
        with nullcontext() if offload is None else offload.hooks(device):
            output: T = checkpoint(run, *tensors, **options)
            return output

    return checkpointed


def resolve_device(device: torch.device) -> torch.device:
    """Return the device with its index, as tensors on it report it: "cuda" becomes "cuda:0"."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


@contextmanager
def _without_autocast_cache() -> Iterator[None]:
    """Make autocast cast weights at each use, as it does in the recomputation.

    Its cache holds the casts of trainable weights until its context ends. That would be a second
    copy of all of them, and a second use of a layer would run fewer operations than its
    recomputation, which selective checkpoints refuse.
    """
    was_enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_enabled)


def _check(forward: object, train_device: object, offload_device: object, policy: object) -> None:
    if not callable(forward):
        raise TypeError(f"forward must be callable, such as a module: {forward!r}")
    for name, device in (("train_device", train_device), ("offload_device", offload_device)):
        if not isinstance(device, torch.device):
            raise TypeError(f"{name} must be a torch.device: {device!r}")
    if policy not in _CONTEXTS:
        raise ValueError(f"policy must be one of {', '.join(_CONTEXTS)}: {policy!r}")
