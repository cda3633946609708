"""Objectives, and what they compute a loss from: random draws and data, ready before the step."""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from modules.diffusion.masks import MaskWeights
from modules.interfaces import Batch, Conditioning, Loss, Microbatch, Probe, PromptBatch
from modules.memory.tensors import on_device


@dataclass(frozen=True)
class TextInputs:
    """The captions of a microbatch, encoded in advance or to be encoded in the step.

    Attributes:
        encoded, empty: The captions, and the empty one, as of `Batch`; None if they are encoded in
            the step.
        captions, step_captions: Those to encode, and what they are padded to; else empty.
        dropped: (encoders, B), bool, which encoders' outputs are replaced by those of the empty
            caption; None if no encoder has dropout.
    """

    encoded: Conditioning | None
    empty: Conditioning | None
    captions: tuple[str, ...]
    step_captions: tuple[str, ...]
    dropped: Tensor | None

    def rows(self, rows: tuple[int, ...], indices: Tensor) -> "TextInputs":
        """Return those of some images. indices: (n,), int64, the rows on the tensors' device."""
        return replace(
            self,
            encoded=None if self.encoded is None else self.encoded.rows(indices),
            captions=tuple(self.captions[row] for row in rows) if self.captions else (),
            dropped=None if self.dropped is None else self.dropped[:, indices],
        )


@dataclass(frozen=True)
class BaseInputs:
    """The images of a microbatch for which the base model predicts.

    Attributes:
        rows, indices: (n,), which of the images; as numbers and as int64.
        is_target: (B, 1, 1, 1), bool, whether the prediction is the image's target; None if it is
            no image's.
    """

    rows: tuple[int, ...]
    indices: Tensor
    is_target: Tensor | None


@dataclass(frozen=True)
class DenoisingInputs:
    """Inputs of the denoising objective.

    Attributes:
        latents, added: (B, C, h, w), float32, and the noise that is added to them.
        target_noise: The noise that the target is made of; None if it is what is added.
        timesteps: (B,), int64.
        time_ids, masked, weight: As of `Batch`.
        mask: The weights of the images' positions; None without masks.
        base: None if the base model predicts for no image.
        factors: (B,), float32, relative weights of the images; None if all are 1.
    """

    latents: Tensor
    added: Tensor
    target_noise: Tensor | None
    timesteps: Tensor
    text: TextInputs
    time_ids: Tensor
    weight: float
    masked: Tensor | None = None
    mask: MaskWeights | None = None
    base: BaseInputs | None = None
    factors: Tensor | None = None


@dataclass(frozen=True)
class ReconstructionInputs:
    """Inputs of the reconstruction objective.

    Attributes:
        latents: (B, C, h, w), float32.
        pixels: (B, 3, 8h, 8w), float32 in [-1, 1].
        factors: (B,), float32, relative weights of the images; None if all are 1.
        weight: As of `Batch`.
    """

    latents: Tensor
    pixels: Tensor
    factors: Tensor | None
    weight: float


@dataclass(frozen=True)
class PromptInputs:
    """Prompts whose random numbers are drawn within the step, where images are generated."""

    batch: PromptBatch
    seed: int
    step: int


Inputs = DenoisingInputs | ReconstructionInputs | PromptInputs


class Objective(Protocol):
    """Loss and validation loss of microbatches; only reward training has some of prompts."""

    def draw(self, batch: Microbatch, *, seed: int, step: int) -> Inputs:
        """Return all that a microbatch's loss is computed from, with its random numbers.

        For images in any thread: it takes time of the host alone, and may be made ahead. Its
        tensors are in host memory, except for latents that are encoded in the step.
        """
        ...

    def compute(self, inputs: Inputs) -> Loss:
        """Compute the loss of drawn inputs, which are on the device; call it under autocast."""
        ...

    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """Return the validation loss of one image under each noise of a probe, (K,), float32.

        batch: A single image with its own caption; masks apply. Called under the engine's autocast.
        """
        ...


def loss_of(
    objective: Objective, batch: Microbatch, *, seed: int, step: int, device: torch.device
) -> Loss:
    """Draw for a microbatch and compute its loss at once; call it under the engine's autocast."""
    return objective.compute(on_device(objective.draw(batch, seed=seed, step=step), device))
