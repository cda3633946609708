"""A network in an .onnx file, on a device."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from onetrainer.captioning.kinds import PACKAGE, missing_package
from onetrainer.errors import UserError

# ONNX Runtime's names of what runs on a GPU, for each kind of device.
_ON_GPU = {
    "cuda": ("CUDAExecutionProvider", "MIGraphXExecutionProvider", "ROCMExecutionProvider"),
    "mps": ("CoreMLExecutionProvider",),
}
_FLOATS, _NUMBERS = "tensor(float)", ("tensor(float)", "tensor(float16)", "tensor(double)")
_LONGEST = 4096  # pixels; four times what any published network takes
_CPU = "CPUExecutionProvider"


class OnnxModel:
    """A network with one image as input.

    Attributes:
        shape: Of the input, without its first dimension; None where any size fits.
        output_shape: The same of the output, with its first dimension; empty if it is not said.
        notes: What a person should know about where it runs.
    """

    def __init__(self, path: Path, device: torch.device) -> None:
        """Load it. Raises UserError if ONNX Runtime is missing, or cannot read the file."""
        try:
            runtime: Any = importlib.import_module(PACKAGE)
        except ImportError as error:
            raise missing_package() from error
        providers, self.notes = _providers(runtime, device)
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors
        try:
            self._session = runtime.InferenceSession(
                str(path), sess_options=options, providers=providers
            )
        except Exception as error:  # its classes derive from this one alone
            raise UserError(
                f"{path}: this .onnx file cannot be loaded ({_first_line(error)})",
                "Expected a network in ONNX format",
                "Download it again",
            ) from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._path = path
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type != _FLOATS:
            raise self.unfit("does not take one image", f"an input of 4 dimensions, {_FLOATS}")
        if not outputs or outputs[0].type not in _NUMBERS:
            raise self.unfit("gives no numbers", f"an output of {' or '.join(_NUMBERS)}")
        self._input, self._output = inputs[0].name, outputs[0].name
        count, *self.shape = _sizes(inputs[0].shape)
        self.output_shape = _sizes(outputs[0].shape or [])
        if count not in (1, None) or any(
            not 0 < size <= _LONGEST for size in self.shape if size is not None
        ):
            listed = " × ".join(str(size) for size in inputs[0].shape)
            raise self.unfit(f"takes {listed[:100]} numbers", f"images of up to {_LONGEST} pixels")
        self._takes_batches = count is None

    def __call__(self, images: NDArray[np.float32], *, dimensions: int) -> NDArray[np.float32]:
        """Return the first output for a batch of inputs, one entry for each.

        Raises UserError if it cannot be computed, or has not so many dimensions.
        """
        batches = [images] if self._takes_batches else list(images[:, None])
        try:
            found = [self._session.run([self._output], {self._input: each})[0] for each in batches]
        except Exception as error:  # its classes derive from this one alone
            raise self.unfit(f"cannot be computed ({_first_line(error)})", "") from error
        shapes = {each.shape for each in found}
        shape = (len(batches[0]), *found[0].shape[1:])
        if shapes != {shape} or len(shape) != dimensions or 0 in shape:
            raise self.unfit(f"gives {sorted(shapes)[0]} numbers", f"{dimensions} dimensions")
        values = np.concatenate(found).astype(np.float32)
        if not np.isfinite(values).all():
            raise self.unfit("gives values that are no finite numbers", "finite ones")
        return values

    def unfit(self, what: str, expected: str) -> UserError:
        """Return the error of a network that is none for this purpose."""
        return UserError(
            f"{self._path}: this network {what}",
            f"Expected {expected}" if expected else "",
            "Choose another model, or download it again",
        )


def _sizes(shape: Sequence[object]) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in shape]


def _providers(runtime: Any, device: torch.device) -> tuple[list[Any], tuple[str, ...]]:  # noqa: ANN401 # untyped
    available = runtime.get_available_providers()
    found = [name for name in _ON_GPU.get(device.type, ()) if name in available]
    if device.type == "cpu":
        return [_CPU], ()
    if not found:
        return [_CPU], (
            "The installed ONNX Runtime cannot use the GPU, so this model runs on the processor."
            " For an NVIDIA GPU, its package onnxruntime-gpu takes the place of onnxruntime.",
        )
    if hasattr(runtime, "preload_dlls"):
        runtime.preload_dlls()  # the CUDA libraries that torch has brought along
    return [(found[0], {"device_id": device.index or 0}), _CPU], ()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
