"""A network in an .onnx file, on a device."""

import importlib
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
_CPU = "CPUExecutionProvider"


class OnnxModel:
    """A network with one image as input.

    Attributes:
        shape: Of the input, without its first dimension; None where any size fits.
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
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if len(inputs) == 1 else []
        if len(shape) != 4:
            raise UserError(
                f"{path}: this network does not take one image",
                "Expected a single input of four dimensions",
                "Choose another model",
            )
        self._input = inputs[0].name
        self.shape = tuple(size if isinstance(size, int) else None for size in shape[1:])
        self._takes_batches = not isinstance(shape[0], int)

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the first output for a batch of inputs."""
        batches = [images] if self._takes_batches else list(images[:, None])
        outputs = [self._session.run(None, {self._input: batch})[0] for batch in batches]
        return np.concatenate(outputs).astype(np.float32)


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
