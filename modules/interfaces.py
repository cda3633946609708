"""The whole vocabulary of the engine: what its parts say to each other, with shapes.

B pictures in a batch; h, w the latent's sides (1/8 of the picture's); T text tokens; D their width.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from modules.diffusion.schedule import NoiseSchedule
from modules.formats.embeddings.embedding_file import Embedding
from modules.memory.to_device import sent
from onetrainer.config.run.model import FamilyName, Prediction
from onetrainer.config.run.output import LoraNaming, ModelFormat


@dataclass(frozen=True)
class Conditioning:
    """What the UNet is told about each picture's text.

    hidden: (B, T, D), the text encoders' output, in their own dtype; of two, side by side.
    pooled: (B, P), the whole text as one vector; None for families without.
    """

    hidden: Tensor
    pooled: Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> "Conditioning":
        """The same conditioning on another device, in another dtype."""
        pooled = None if self.pooled is None else sent(self.pooled, device, dtype)
        return Conditioning(sent(self.hidden, device, dtype), pooled)

    def repeated(self, count: int) -> "Conditioning":
        """That of a single picture, so many times."""
        pooled = None if self.pooled is None else self.pooled.repeat(count, 1)
        return Conditioning(self.hidden.repeat(count, 1, 1), pooled)


@dataclass(frozen=True)
class LatentMoments:
    """The VAE's posterior of a picture, already scaled to the UNet's units.

    mean, std: (B, 4, h, w), float32; a latent is mean + std * noise.
    """

    mean: Tensor
    std: Tensor

    def drawn(self, noise: Tensor) -> Tensor:
        """Latents of the posterior, where it is: on the CPU, or where the VAE has just made it.

        noise: (B, 4, h, w), float32, standard normal; on any device.
        """
        mean, std, spread = (sent(each, self.mean.device) for each in (self.mean, self.std, noise))
        return mean + std * spread


@dataclass(frozen=True)
class Batch:
    """One microbatch: pictures of one bucket that are computed at once.

    conditioning: the captions encoded beforehand; None means that `captions` are to be encoded
    now, because the text encoder trains.
    step_captions: those of the whole step. Encodings are as long as the longest of them needs, so
    that they do not change with the size of the microbatches either.
    frames: (B, 6), float32; see `Family.predict`.
    positions: each picture's place within its step, from 0; random draws depend on it, so that
    they do not change with the size of the microbatches.
    weight: each picture's share of the step's loss, 1 / (pictures of a full step).
    pixels: (B, 3, 8h, 8w), float32 in [-1, 1], the pictures themselves; None where the objective
    does not ask for them.
    mask: (B, 1, h, w), float32 in [0, 1], where each picture counts: 1 fully; None if no picture
    of the microbatch has a mask, which means 1 everywhere.
    is_prior: (B,), whether each picture stands for what the model is to keep (prior preservation)
    rather than for what it is to learn; empty means that none does.
    own_prediction: (B,), whether each picture holds the model to what it predicted before training;
    empty means that none does.
    loss_weights: (B,), how much each picture counts beside others; empty means that all count 1.
    masked: (B, 5, h, w), float32, what inpainting families are shown; see `Family.predict`. None
    means that all of each picture is to be painted.
    """

    moments: LatentMoments
    captions: tuple[str, ...]
    step_captions: tuple[str, ...]
    conditioning: Conditioning | None
    frames: Tensor
    positions: tuple[int, ...]
    weight: float
    pixels: Tensor | None = None
    mask: Tensor | None = None
    is_prior: tuple[bool, ...] = ()
    own_prediction: tuple[bool, ...] = ()
    loss_weights: tuple[float, ...] = ()
    masked: Tensor | None = None


@dataclass(frozen=True)
class PromptBatch:
    """One microbatch of pictures that are to be drawn and scored; all of one size.

    conditioning: the prompts encoded beforehand; empty: that of no prompt, (1, T, D), as long as
    they are. Both None where prompts are to be encoded now, because a text encoder or a word
    trains. step_prompts: those of the whole step. frames, positions, weight: as of `Batch`.
    size: width and height in pixels.
    """

    prompts: tuple[str, ...]
    step_prompts: tuple[str, ...]
    conditioning: Conditioning | None
    empty: Conditioning | None
    frames: Tensor
    positions: tuple[int, ...]
    weight: float
    size: tuple[int, int]


class Vocabulary(Protocol):
    """What the text encoders know of words; everything by the encoder's name."""

    def token_vectors(self, text: str) -> Mapping[str, Tensor]:
        """The vectors of a text's tokens, (n, D), float32; n is 0 for ""."""
        ...

    def outputs_of(self, vectors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What an encoder says where it reads these vectors, (n, D), alone; (n, D), float32."""
        ...

    def token_norms(self) -> Mapping[str, float]:
        """The median length of the vectors of tokens."""
        ...


class Family(Protocol):
    """A loaded model: its parts, and what each of them does.

    Parts are placed and cast by whoever loads the family; methods cast their inputs to the part's
    dtype and say so.
    """

    @property
    def name(self) -> FamilyName: ...
    @property
    def unet(self) -> nn.Module: ...
    @property
    def vae(self) -> nn.Module: ...
    @property
    def text_encoders(self) -> Mapping[str, nn.Module]:
        """By the name they have in LoRA files: "te", or "te1" and "te2" for SDXL."""
        ...

    @property
    def schedule(self) -> NoiseSchedule: ...
    @property
    def prediction(self) -> Prediction: ...

    def encode_text(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        """Captions encoded by the text encoders; gradients flow where they are enabled.

        among: captions that the encodings have to be as long as.
        """
        ...

    def encode_images(self, pixels: Tensor) -> LatentMoments:
        """pixels: (B, 3, 8h, 8w), float32 in [-1, 1]."""
        ...

    def decode_latents(self, latents: Tensor) -> Tensor:
        """latents: (B, 4, h, w), scaled, float32. Returns (B, 3, 8h, 8w), float32 in [-1, 1]."""
        ...

    def decode_unclamped(self, latents: Tensor) -> Tensor:
        """As `decode_latents`, but where numbers may leave [-1, 1], so that gradients flow."""
        ...

    @property
    def vocabulary(self) -> Vocabulary: ...
    def with_embeddings(self, embeddings: Mapping[str, Embedding]) -> "Family":
        """The same model, which also knows these words; their vectors are read at every encoding.

        Raises UserError where a word is known already, or its vectors do not fit.
        """
        ...

    def count_tokens(self, caption: str) -> int:
        """How many tokens a caption has, without start and end."""
        ...

    def predict(
        self,
        noisy: Tensor,
        timesteps: Tensor,
        conditioning: Conditioning,
        *,
        frames: Tensor,
        masked: Tensor | None = None,
    ) -> Tensor:
        """The UNet's prediction, (B, 4, h, w), float32.

        timesteps: (B,), int64, or float32 where a sampler goes between two of them.
        frames: (B, 6), float32, in pixels: height and width of the original picture, top and left
        of the crop in the scaled one, height and width of what the latent shows; families that
        were not trained with them pay no heed.
        masked: (B, 5, h, w), for inpainting families: 1 where the picture is to be painted, and the
        latents of what is left of it; None means that all of it is to be painted.
        """
        ...

    def encoder_settings(self) -> tuple[str, str]:
        """What besides weights decides encodings, as text: of pictures, of captions."""
        ...


@dataclass(frozen=True)
class ParameterGroup:
    """Trainable parameters that share a learning rate and an end.

    part: "unet", an encoder's name ("te", "te1", "te2"), "vae" or "embeddings".
    parameters: by the names that they have in `Method.state_dict`.
    lr: None means the optimizer's. lr_ratio: multiplies either (LoRA+). stop_after: the step from
    which they stay as they are; 0 means never.
    """

    part: str
    parameters: Mapping[str, nn.Parameter]
    lr: float | None = None
    lr_ratio: float = 1.0
    stop_after: int = 0


@dataclass(frozen=True)
class ExportOptions:
    """How a finished file is to be written.

    dtype: of its tensors. metadata: what it tells about itself, by key. naming: of a LoRA's layers.
    fold_alpha: a LoRA's alpha as its rank, at the same effect. model_format: of a whole model.
    bundle: embeddings that a LoRA's file is to hold, too.
    """

    dtype: torch.dtype
    metadata: Mapping[str, str]
    naming: LoraNaming = "kohya"
    fold_alpha: bool = False
    model_format: ModelFormat = "single-file"
    bundle: tuple[Embedding, ...] = ()


class Method(Protocol):
    """What is trained: its parameters, what of it a checkpoint holds, and the file it becomes."""

    def parameter_groups(self) -> list[ParameterGroup]: ...
    def own_modules(self) -> nn.Module:
        """What of it is no network of the model, so that it can be moved: adapters, vectors."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Every trainable tensor, by a name that is the same in every run of the config."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...
    def train(self, mode: bool) -> None:
        """Training mode (dropout on) or evaluation mode of everything that trains."""
        ...

    def untouched(self) -> AbstractContextManager[None]:
        """Meanwhile the family computes as it did before training; without gradients only."""
        ...

    def merged(self) -> AbstractContextManager[None]:
        """Meanwhile the family computes the same without gradients, faster where it can.

        In evaluation mode: without any dropout. Adapters are added to their layers' weights, as a
        file that is merged would be, so that results differ by rounding; afterwards the weights are
        what they were, bit for bit. To be entered anew after each step of the optimizer.
        """
        ...

    def after_step(self) -> None:
        """What is to be done to the weights after each step, such as keeping their norm."""
        ...

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Writes what other programs load, each file complete or not at all.

        path: without an ending, which the method adds; where it writes several, their names begin
        with it. Gives the files, or folders, that were written, the main one first.
        """
        ...


@dataclass(frozen=True)
class Loss:
    """A microbatch's loss.

    value: scalar, weighted, to be differentiated; the microbatches of a step add up.
    per_item: (B,), detached, unweighted. scores: what else there is to tell of each picture, (B,),
    detached, by name: rewards, and what belongs to them, under the names below.
    """

    value: Tensor
    per_item: Tensor
    scores: Mapping[str, Tensor] = field(default_factory=dict)


REWARD, LAST_STEPS, ANCHOR = "reward", "last steps", "anchor"
"""Scores beside the rewards' own, which begin with "reward ": what they amount to together; through
how many steps the gradient went; the mean squared distance to the base's noise predictions."""
REWARD_PREFIX = "reward "


class Reward(Protocol):
    """What pictures are scored by."""

    @property
    def has_gradient(self) -> bool:
        """Whether the score can be differentiated by the pictures."""
        ...

    def own_modules(self) -> nn.Module:
        """Its network, so that it can be moved; an empty one where it has none."""
        ...

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        """The score of each picture, (B,), float32; more is better.

        pictures: (B, 3, H, W), float32 in [0, 1]. Each picture's score is the same, up to rounding,
        whatever else is in the batch. Never under autocast.
        """
        ...


@dataclass(frozen=True)
class Probe:
    """Under which noise a held-out picture is measured; K measurements at once.

    levels: (K,), how far on the way from no noise to nothing but noise, in [0, 1); as fractions,
    so that each becomes the same timestep everywhere. noise: (K, 4, h, w), float32, on the CPU.
    """

    levels: tuple[Fraction, ...]
    noise: Tensor


Given = TypeVar("Given", contravariant=True)


class Objective(Protocol[Given]):
    """What training minimises, of the microbatches that it is given."""

    def loss(self, batch: Given, *, seed: int, step: int) -> Loss: ...
    def validation(self, batch: Batch, probe: Probe) -> Tensor:
        """How far off the model is with a picture under each of a probe's noises, (K,), float32.

        Draws nothing at random: the same weights give the same numbers. batch: a single picture,
        with its own caption; a mask counts. To be called under the engine's autocast.
        """
        ...
