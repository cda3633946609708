"""Settings that lower a run's peak memory, the cheapest in time first.

The order follows measurements of public trainers and counts of operations: free ones; occasional
copies (offloaded components, EMA); optimizer state in fewer bits; recomputing cheap operations (up
to a tenth of a step); recomputing everything (a third more operations); moving activations and
layers in each step; quantized layers, which take two to three times as long in public trainers
(SimpleTuner, int8 and fp8 on an H100); and last what changes the results: smaller images.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onetrainer.checks.packages import missing_quantizer
from onetrainer.concepts.concepts import bucket_step
from onetrainer.config.fields import settings
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.optimizers.optimizer import missing_package
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.errors import ProblemsError
from onetrainer.families.registry import family_spec
from onetrainer.presets import presets
from onetrainer.rules.rules import check_rules

EIGHT_BIT_VARIANTS = {
    "adamw": "adamw8bit",
    "adam": "adam8bit",
    "lion": "lion8bit",
    "ademamix": "ademamix8bit",
    "sgd": "sgd8bit",
}
_KEPT_SETTINGS = ("lr", "weight_decay", "fused_backward")
_ALGORITHM_SETTINGS = ("beta1", "beta2", "beta3", "eps", "momentum", "nesterov")
RESOLUTION_FACTOR = 3 / 4
"""Factor of a smaller resolution: a little more than half the pixels."""
FRACTIONS = (0.5, 0.9)
SAMPLE_SIZE_STEP = 64
"""Sides of samples are multiples of this many pixels, since UNets halve the latent's sides three
times.
"""


@dataclass(frozen=True)
class Change:
    """Settings to change, with a description and their cost.

    Attributes:
        affected_phases: Phases whose compute changes.
    """

    changes: Mapping[str, object]
    words: str
    cost: str
    affected_phases: frozenset[str] = field(default=frozenset({"training"}))


def candidates(config: TrainConfig, *, on_card: bool) -> list[Change]:
    """Return every change that the config allows, in the order of their cost in time.

    Args:
        config: Of the run.
        on_card: Whether the run is on a GPU, with RAM to offload to.
    """
    known = _errors(config)
    possible = []
    for change in (
        *_almost_free(config, on_card),
        *_for_full_training(config),
        *_for_reward_sampling(config),
        *_slower_steps(config, on_card),
    ):
        changed = apply_changes(config, change.changes)
        if changed is None or missing_package(changed.optimizer) is not None:
            continue
        if _errors(changed) <= known:
            possible.append(change)
    return possible


def _errors(config: TrainConfig) -> set[tuple[object, object]]:
    problems = check_rules(config)
    return {(each.path, each.what) for each in problems if each.severity == "error"}


def apply_changes(config: TrainConfig, changes: Mapping[str, object]) -> TrainConfig | None:
    """Return the config with settings changed; None if that is not a valid config."""
    document: dict[str, Any] = config.model_dump(mode="json")
    for path, value in changes.items():
        if path == "optimizer.kind":
            document["optimizer"] = _converted_optimizer(document["optimizer"], str(value))
        else:
            document = presets.with_value(document, path, value)
    try:
        return presets.resolve(document, source="")
    except ProblemsError:
        return None


def _converted_optimizer(section: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return another optimizer with this one's rates; all settings for its 8-bit variant."""
    is_same = EIGHT_BIT_VARIANTS.get(str(section["kind"])) == kind
    names = _KEPT_SETTINGS + _ALGORITHM_SETTINGS if is_same else _KEPT_SETTINGS
    kept = [name for name in names if name in section]
    known = {setting.path for setting in settings(TrainConfig, selected={"optimizer": kind})}
    return {"kind": kind} | {name: section[name] for name in kept if f"optimizer.{name}" in known}


def _almost_free(config: TrainConfig, on_card: bool) -> Iterator[Change]:
    """Yield what costs no time, or only now and then."""
    if not config.data.cache_latents:
        yield Change({"data.cache_latents": True}, "encode images once, before training", "faster")
    if not config.data.cache_text:
        words = "encode captions once, before training"
        yield Change({"data.cache_text": True}, words, "faster")
    if on_card and config.hardware.offload_device == "same":
        yield Change(
            {"hardware.offload_device": "cpu"},
            "offload text encoders and VAE to RAM",
            "a moment around samples",
            frozenset(),
        )
    if on_card and config.ema.use and config.ema.device == "device":
        yield Change({"ema.device": "host"}, "store the EMA in RAM", "little time in each step")
    if config.sampling.prompts and not config.hardware.vae_tiling:
        yield Change(
            {"hardware.vae_tiling": True},
            "decode samples in tiles",
            "a second a sample; seams may show",
            frozenset({"decoding"}),
        )


def _for_full_training(config: TrainConfig) -> Iterator[Change]:
    """Yield what applies to training a model's own weights."""
    method = config.method
    if not isinstance(method, Full | Vae):
        return
    if method.weights == "fp32" and config.hardware.precision == "bf16":
        yield Change(
            {"method.weights": "bf16"},
            "store trained weights in bf16 with stochastic rounding",
            "faster; a little less exact",
        )
    document = config.optimizer.model_dump()
    is_off = document.get("fused_backward") is False
    if is_off:
        changes: dict[str, object] = {
            "optimizer.fused_backward": True,
            "training.gradient_clipping": 0.0,
        }
        if config.training.accumulation == 1:
            yield Change(
                changes, "update weights in a fused backward pass", "no time; no gradient clipping"
            )
    kind = str(document["kind"])
    if kind in EIGHT_BIT_VARIANTS:
        yield Change(
            {"optimizer.kind": EIGHT_BIT_VARIANTS[kind]},
            "store the optimizer state in 8 bits",
            "no time; a little less exact",
        )
    if kind in ("adam", "adamw", "adamw8bit", "adam8bit"):
        # With beta1 Adafactor would store the momentum as well.
        changes = {
            "optimizer.kind": "adafactor",
            "optimizer.beta1": None,
            "training.gradient_clipping": 0.0,
        }
        yield Change(
            changes, "Adafactor, which stores sums of rows and columns", "a slower optimizer"
        )


def _for_reward_sampling(config: TrainConfig) -> Iterator[Change]:
    """Yield what applies to the rollouts of reward training."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return
    if section.rollout.merge:
        yield Change(
            {"objective.rollout.merge": False},
            "do not merge adapters while sampling, which copies their layers",
            "up to a fifth more time",
        )
    if config.hardware.precision == "bf16" and config.hardware.vae_precision in ("auto", "fp32"):
        yield Change(
            {"hardware.vae_precision": "bf16"},
            "decode in bf16, with a gradient of half the size",
            "faster; colors a little less exact",
            frozenset({"caching", "training", "decoding"}),
        )
    if not section.rollout.checkpoint:
        yield Change(
            {"objective.rollout.checkpoint": True},
            "store the inputs of each sampling step alone (checkpointing)",
            "up to a third more time",
        )


def _slower_steps(config: TrainConfig, on_card: bool) -> Iterator[Change]:
    """Yield what makes each step slower."""
    hardware, training = config.hardware, config.training
    if hardware.gradient_checkpointing == "off":
        yield Change(
            {"hardware.gradient_checkpointing": "selective"},
            "recompute cheap operations (selective gradient checkpointing)",
            "up to a tenth more time",
        )
    if training.batch_size > 1:
        smaller = {
            "training.batch_size": 1,
            "training.accumulation": training.accumulation * training.batch_size,
        }
        yield Change(
            smaller,
            "batches of one image, accumulated",
            "the same steps take longer: images one after the other",
            frozenset({"training", "validation"}),
        )
    if hardware.gradient_checkpointing in ("off", "selective"):
        yield Change(
            {"hardware.gradient_checkpointing": "block"},
            "recompute whole blocks (full gradient checkpointing)",
            "about a third more time",
        )
    if on_card and hardware.offload_activations < 1:
        yield Change(
            {"hardware.offload_activations": 1.0, "hardware.offload_device": "cpu"},
            "offload activations to RAM",
            "half as much time again, or more",
        )
    for fraction in FRACTIONS if on_card else ():
        if hardware.offload_layers < fraction:
            is_half = fraction == FRACTIONS[0]
            words = "half" if is_half else "nine tenths"
            cost = "up to twice the time" if is_half else "two to three times the time"
            yield Change(
                {"hardware.offload_layers": fraction, "hardware.offload_device": "cpu"},
                f"offload {words} of the layers to RAM",
                cost,
                frozenset({"training", "validation", "encoding", "drawing"}),
            )
    yield from _changing_results(config)


def _changing_results(config: TrainConfig) -> Iterator[Change]:
    """Yield the changes that save memory but also affect the training result."""
    is_adapter = isinstance(config.method, Adapter | EmbeddingOnly)
    if is_adapter and config.hardware.quantization == "none" and missing_quantizer("int8") is None:
        yield Change(
            {"hardware.quantization": "int8"},
            "quantize frozen layers to int8",
            "two to three times the time; a little less exact",
            frozenset({"training", "validation", "encoding", "drawing"}),
        )
    if isinstance(config.objective, AlignProp):
        yield from _smaller_samples(config.objective)
    resolution = config.data.resolution
    step = max(
        family_spec(config.model.family).latent_side,
        bucket_step(config.model.family, config.data.buckets.step, resolution),
    )
    smaller = int(resolution * RESOLUTION_FACTOR) // step * step
    if step < smaller < resolution:
        yield Change(
            {"data.resolution": smaller},
            f"train on smaller images, of {smaller} px",
            "faster; less detail is trained",
            frozenset({"caching", "training", "validation"}),
        )


def _smaller_samples(section: AlignProp) -> Iterator[Change]:
    """Yield smaller rollouts: the decoder takes most memory, in proportion to the pixels."""
    sides = {
        side: int(length * RESOLUTION_FACTOR) // SAMPLE_SIZE_STEP * SAMPLE_SIZE_STEP
        for side, length in (("width", section.rollout.width), ("height", section.rollout.height))
    }
    if min(sides.values()) >= SAMPLE_SIZE_STEP:
        yield Change(
            {f"objective.rollout.{side}": length for side, length in sides.items()},
            f"generate smaller images, of {sides['width']} × {sides['height']} px",
            "faster; models are worse at sizes that they were not trained for",
            frozenset({"training"}),
        )


def combine(changes: Sequence[Change]) -> Change:
    """Combine several changes; the last one wins where they change the same setting.

    Descriptions of changes that later ones replace completely are left out.
    """
    combined: dict[str, object] = {}
    remaining: list[Change] = []
    for change in changes:
        combined |= change.changes
        remaining = [each for each in remaining if not each.changes.keys() <= change.changes.keys()]
        remaining.append(change)
    return Change(
        combined,
        "all of these: " + "; ".join(change.words for change in remaining),
        "; ".join(dict.fromkeys(change.cost for change in remaining)),
        frozenset().union(*(change.affected_phases for change in changes)),
    )
