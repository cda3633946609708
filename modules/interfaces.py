"""Data and protocols that the engine's modules exchange, with tensor shapes.

B images in a batch; h, w the latent's height and width (1/8 of the image's); T text tokens; D their
width.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from modules.memory.to_device import load_tensors, to_device

if TYPE_CHECKING:
    from modules.diffusion.sampling_steps import SamplingStep
    from modules.diffusion.schedule import NoiseLevels
    from modules.diffusion.schedulers import Scheduler
    from modules.formats.embeddings.embedding_file import Embedding
    from onetrainer.config.base.prompt_weights import PromptWeights
    from onetrainer.config.run.model import FamilyName
    from onetrainer.config.run.output import LoraNaming, ModelFormat
    from onetrainer.config.run.sampling import SamplerName
    from onetrainer.families.spec import FamilySpec, Prediction


@dataclass(frozen=True)
class Conditioning:
    """Text conditioning of the UNet.

    hidden: (B, T, D), output of the text encoders in their own dtype, concatenated along D.
    pooled: (B, P), the whole text as one vector; None for families without.
    """

    hidden: Tensor
    pooled: Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> "Conditioning":
        """Return the conditioning on a device, in a dtype if one is given."""
        pooled = None if self.pooled is None else to_device(self.pooled, device, dtype)
        return Conditioning(to_device(self.hidden, device, dtype), pooled)

    def rows(self, rows: slice | list[int] | Tensor) -> "Conditioning":
        """Return the conditioning of some images."""
        return Conditioning(self.hidden[rows], None if self.pooled is None else self.pooled[rows])

    @staticmethod
    def joined(parts: Sequence["Conditioning"]) -> "Conditioning":
        """Concatenate conditioning of one length T along B."""
        pooled = [part.pooled for part in parts if part.pooled is not None]
        return Conditioning(
            torch.cat([part.hidden for part in parts]), torch.cat(pooled) if pooled else None
        )

    def repeated(self, count: int) -> "Conditioning":
        """Return the conditioning of a single image `count` times."""
        pooled = None if self.pooled is None else self.pooled.repeat(count, 1)
        return Conditioning(self.hidden.repeat(count, 1, 1), pooled)


@dataclass(frozen=True)
class LatentMoments:
    """Posterior of the VAE, scaled to the UNet's units; mean, std: (B, C, h, w), float32."""

    mean: Tensor
    std: Tensor

    def drawn(self, noise: Tensor) -> Tensor:
        """Sample latents on the posterior's device; noise: (B, C, h, w), standard normal."""
        return self.mean + self.std * to_device(noise, self.mean.device)


@dataclass(frozen=True)
class Batch:
    """One microbatch of images of one bucket.

    Attributes:
        conditioning, empty: Encoded captions, and the empty one as long; None if the text encoder
            is trained and `captions` must be encoded now.
        step_captions: Captions of the whole step. Encodings are padded to the longest of them, so
            that results do not depend on the size of the microbatches.
        time_ids, masked: See `Family.predict`.
        positions: Index of each image within its step. Random draws depend on it rather than on the
            index within the microbatch.
        weight: Fraction of each image in the step's loss, 1 / (images of a full step).
        pixels: (B, 3, 8h, 8w), float32 in [-1, 1]; None if the objective does not use pixels.
        mask: (B, 1, h, w), float32 in [0, 1], weight of each place; None means 1 everywhere.
        is_prior, own_prediction: (B,), whether each image is for prior preservation, and whether
            its target is the base model's prediction; empty means none.
        loss_weights: (B,), relative weights of the images; empty means 1 for all.
    """

    moments: LatentMoments
    captions: tuple[str, ...]
    step_captions: tuple[str, ...]
    conditioning: Conditioning | None
    time_ids: Tensor
    positions: tuple[int, ...]
    weight: float
    pixels: Tensor | None = None
    mask: Tensor | None = None
    is_prior: tuple[bool, ...] = ()
    own_prediction: tuple[bool, ...] = ()
    loss_weights: tuple[float, ...] = ()
    masked: Tensor | None = None
    empty: Conditioning | None = None


@dataclass(frozen=True)
class PromptBatch:
    """One microbatch of prompts whose images are generated and scored, all of one size.

    Attributes:
        conditioning: Encoded prompts; None if text encoders or embeddings are trained and prompts
            must be encoded now.
        empty: (1, T, D), encoding of the empty prompt, as long as the others; None as
            `conditioning`.
        step_prompts: Prompts of the whole step.
        time_ids, positions, weight: As in `Batch`.
        size: Width and height in pixels.
    """

    prompts: tuple[str, ...]
    step_prompts: tuple[str, ...]
    conditioning: Conditioning | None
    empty: Conditioning | None
    time_ids: Tensor
    positions: tuple[int, ...]
    weight: float
    size: tuple[int, int]


Microbatch = Batch | PromptBatch


class Vocabulary(Protocol):
    """Tokens of the text encoders; results are mappings by the encoder's name."""

    def token_vectors(self, text: str) -> Mapping[str, Tensor]:
        """Return the vectors of a text's tokens, (n, D), float32; n is 0 for ""."""
        ...

    def outputs_of(self, vectors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return an encoder's output, (n, D), float32, for these token vectors, (n, D), alone."""

    def token_norms(self) -> Mapping[str, float]:
        """Return the median norm of the token vectors."""


class NoiseProcess(Protocol):
    """How latents are noised, what is predicted from them, and how images are sampled by it."""

    @property
    def levels(self) -> "NoiseLevels": ...
    @property
    def prediction(self) -> "Prediction": ...
    @property
    def zero_terminal_snr(self) -> bool:
        """Whether levels are rescaled so that the last timestep is noise alone."""

    def to(self, device: torch.device) -> "NoiseProcess": ...
    def target(self, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Compute what is to be predicted, (B, C, h, w), from float32 ones; timesteps: (B,)."""

    def network_times(self, timesteps: Tensor) -> Tensor:
        """Return what the network is given for training timesteps, (B,)."""
        ...

    def scheduler(self, name: "SamplerName", steps: int) -> "Scheduler":
        """Return a sampler for people's images. Raises UserError if it cannot sample this."""
        ...

    def sampling_steps(self, steps: int, *, eta: float) -> tuple["SamplingStep", ...]:
        """Return the steps from noise alone to none; eta: 0 to 1, the fraction of new noise."""
        ...


class Family(Protocol):
    """A loaded model: its components, and what each of them computes.

    Components are placed and cast by the code that loads the family. Methods cast their inputs to
    the component's dtype and document it.
    """

    @property
    def spec(self) -> "FamilySpec": ...
    @property
    def name(self) -> "FamilyName": ...
    @property
    def unet(self) -> nn.Module: ...
    @property
    def vae(self) -> nn.Module: ...
    @property
    def text_encoders(self) -> Mapping[str, nn.Module]:
        """Text encoders by their name in LoRA files, in the order of the family's spec."""
        ...

    @property
    def process(self) -> "NoiseProcess": ...

    def encode_text(self, captions: Sequence[str], *, among: Sequence[str] = ()) -> Conditioning:
        """Encode captions; gradients flow where they are enabled.

        among: Captions that the encodings are padded to as well.
        """
        ...

    def encode_images(self, pixels: Tensor) -> LatentMoments:
        """Encode pixels, (B, 3, 8h, 8w), float32 in [-1, 1]."""
        ...

    def decode_latents(self, latents: Tensor) -> Tensor:
        """Decode scaled latents, (B, 4, h, w), float32, to (B, 3, 8h, 8w), float32 in [-1, 1]."""
        ...

    def decode_unclamped(self, latents: Tensor) -> Tensor:
        """Decode latents without clamping to [-1, 1], so that gradients flow everywhere."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    def with_embeddings(self, embeddings: Mapping[str, "Embedding"]) -> "Family":
        """Return the model with additional embeddings, whose vectors are read at every encoding.

        Raises UserError if a placeholder token exists already, or its vectors do not fit.
        """

    def with_prompt_weights(self, style: "PromptWeights") -> "Family": ...
    def with_process(self, process: NoiseProcess) -> "Family": ...
    def unread_modules(self) -> frozenset[nn.Module]: ...
    def with_tiling(self, *, is_on: bool) -> "Family": ...
    def layers(self) -> dict[str, list[nn.Module]]:
        """Return each component's layers that are checkpointed and offloaded, as computed."""
        ...

    def encode_blank_images(self, sizes: Iterable[tuple[int, int]]) -> None:
        """Encode blank images of each (width, height), if steps need them, before the VAE goes."""
        ...

    def count_tokens(self, caption: str) -> int:
        """Return the number of tokens of a caption, without start and end tokens."""

    def predict(
        self,
        noisy: Tensor,
        timesteps: Tensor,
        conditioning: Conditioning,
        *,
        time_ids: Tensor,
        masked: Tensor | None = None,
    ) -> Tensor:
        """Return the UNet's prediction, (B, C, h, w), float32.

        timesteps: (B,), of `NoiseProcess.network_times`, or between. time_ids: (B, 6), float32, of
        families with size conditioning, in pixels: height and width of the original, top and left
        of the crop, height and width of the target. masked: (B, 1 + C, h, w), of families that see
        a masked image: 1 where it is repainted, then the rest's latents; None is all of it.
        """
        ...

    def encoder_settings(self) -> tuple[str, str]:
        """Return the settings that affect encodings of images and of captions, as text."""
        ...


@dataclass(frozen=True)
class ParameterGroup:
    """Trainable parameters that share a learning rate and a freeze step.

    component: "unet", an encoder's name, "vae" or "embeddings". parameters: By their names in
    `Method.state_dict`. lr: None means the optimizer's; lr_ratio multiplies either (LoRA+).
    stop_after: Step from which the parameters are frozen; 0 means never.
    """

    component: str
    parameters: Mapping[str, nn.Parameter]
    lr: float | None = None
    lr_ratio: float = 1.0
    stop_after: int = 0


def named_parameters(groups: Iterable[ParameterGroup]) -> dict[str, nn.Parameter]:
    """Return everything trainable by its name in checkpoints."""
    return {name: weight for group in groups for name, weight in group.parameters.items()}


@dataclass(frozen=True)
class ExportOptions:
    """How an output file is written.

    metadata: Of the file's header. naming: Of a LoRA's layers. fold_alpha: Whether a LoRA is scaled
    so that alpha equals its rank. bundle: Embeddings to include in a LoRA's file.
    """

    dtype: torch.dtype
    metadata: Mapping[str, str]
    naming: "LoraNaming" = "kohya"
    fold_alpha: bool = False
    model_format: "ModelFormat" = "single-file"
    bundle: tuple["Embedding", ...] = ()


class Method(Protocol):
    """A training method: its parameters, its state in checkpoints, and its output files."""

    def parameter_groups(self) -> list[ParameterGroup]: ...
    def extra_modules(self) -> nn.Module:
        """Return adapters and embedding vectors: modules that are not components of the model."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return every trainable tensor by a name that is the same in every run of the config."""
        parameters = named_parameters(self.parameter_groups())
        return {name: weight.detach() for name, weight in parameters.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raise ValueError unless names and shapes are exactly those of `state_dict`."""
        load_tensors(self.state_dict(), state, "weights")

    def train(self, mode: bool) -> None:
        """Switch everything trainable to training mode (dropout on) or to evaluation mode."""
        ...

    def base_model(self) -> AbstractContextManager[None]:
        """Return a context in which the family is the base model; without gradients only."""

    def at_strength(self, strength: float) -> AbstractContextManager[None]:
        """Return a context with adapters at a strength, 1 as trained; none of other methods."""
        return nullcontext()

    def merged(self) -> AbstractContextManager[None]:
        """Return a context for faster inference, in evaluation mode and without gradients.

        Adapters are added to their layers' weights, so results differ by rounding. Afterwards the
        weights are bit for bit what they were. Enter it again after each optimizer step.
        """
        ...

    def begin_microbatch(self) -> None:
        """Prepare for a forward and backward pass, such as by casting weights once for all uses.

        `after_step` ends it, before anything else reads the weights.
        """
        return

    def after_step(self) -> None:
        """Constrain the weights after an optimizer step, such as to their norm, if needed."""
        return

    def trained_weights(self) -> Mapping[str, Mapping[str, Tensor]]:
        """Return the model's own weights that are trained, by component and by name there."""
        return {}

    def export(self, path: Path, options: ExportOptions) -> list[Path]:
        """Write files for other programs, each complete or not at all; return the main one first.

        path: Without suffix, which the method adds; several files share it as a prefix.
        """
        ...

    def reader_notes(self, naming: "LoraNaming") -> list[str]:
        """Return notes on files that some programs read otherwise, in a naming."""
        return []


@dataclass(frozen=True)
class Loss:
    """Loss of a microbatch.

    value: Scalar, weighted, to be differentiated; the microbatches of a step add up. per_item:
    (B,), detached, unweighted. scores: Further values per image, (B,), detached, by name: rewards
    and the names below. recomputation: The context in which backward recomputes, if it needs one.
    """

    value: Tensor
    per_item: Tensor
    scores: Mapping[str, Tensor] = field(default_factory=dict)
    recomputation: Callable[[], AbstractContextManager[None]] = nullcontext


REWARD, LAST_STEPS, ANCHOR = "reward", "last steps", "anchor"
"""Names of scores besides those of single rewards, which begin with `REWARD_PREFIX`: the weighted
total; the number of sampling steps with a gradient; the mean squared distance to the base model's
noise predictions."""
REWARD_PREFIX = "reward "


@dataclass(frozen=True)
class Probe:
    """Noise levels and noises of K validation measurements of one image, computed at once.

    levels: (K,), in [0, 1) from no noise to pure noise; as fractions, so that each becomes the same
    timestep everywhere. noise: (K, C, h, w), float32, on the CPU.
    """

    levels: tuple[Fraction, ...]
    noise: Tensor
