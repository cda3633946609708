"""What lowers the peak of a run's memory: settings to change, those first that cost the least time.

The order is that of cost in time, from measurements of public trainers and counts of operations:
what a run is given back for nothing; moves that happen now and then (waiting parts, the average);
statistics in fewer bits; repeating cheap operations (up to a tenth of a step); repeating everything
(a third more operations); moving saved inputs and layers in each step; quantized layers, which take
two to three times as long in public trainers (SimpleTuner, int8 and fp8 on an H100); and last what
trains something else: smaller pictures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modules.families.stable_diffusion import LATENT_SIDE
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
from onetrainer.presets import presets
from onetrainer.rules.rules import broken_rules

EIGHT_BITS = {
    "adamw": "adamw8bit",
    "adam": "adam8bit",
    "lion": "lion8bit",
    "ademamix": "ademamix8bit",
    "sgd": "sgd8bit",
}
_RATES = ("lr", "weight_decay", "fused_backward")
_OF_METHOD = ("beta1", "beta2", "beta3", "eps", "momentum", "nesterov")
SMALLER = 3 / 4
"""Of the resolution: a little more than half the pixels."""
SHARES = (0.5, 0.9)
DRAWN_IN = 64
"""Pixels that a drawing's sides are multiples of: what a latent's side is halved by three times."""


@dataclass(frozen=True)
class Change:
    """Settings to change, in words, with their cost.

    touches: the phases whose computing becomes another.
    """

    changes: Mapping[str, object]
    words: str
    cost: str
    touches: frozenset[str] = field(default=frozenset({"training"}))


def candidates(config: TrainConfig, *, on_card: bool) -> list[Change]:
    """Every change that the config allows, in the order of their cost in time.

    on_card: whether the run is on a graphics card, beside which there is main memory.
    """
    known = {(one.path, one.what) for one in broken_rules(config) if one.severity == "error"}
    found = []
    for change in (
        *_for_nothing(config, on_card),
        *_of_method(config),
        *_of_drawing(config),
        *_of_steps(config, on_card),
    ):
        changed = applied(config, change.changes)
        if changed is None or missing_package(changed.optimizer) is not None:
            continue
        errors = {(one.path, one.what) for one in broken_rules(changed) if one.severity == "error"}
        if errors <= known:
            found.append(change)
    return found


def applied(config: TrainConfig, changes: Mapping[str, object]) -> TrainConfig | None:
    """The config with settings changed; None where that is none."""
    document: dict[str, Any] = config.model_dump(mode="json")
    for path, value in changes.items():
        if path == "optimizer.kind":
            document["optimizer"] = _other_kind(document["optimizer"], str(value))
        else:
            document = presets.with_value(document, path, value)
    try:
        return presets.resolve(document, source="")
    except ProblemsError:
        return None


def _other_kind(section: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Another optimizer with the rates of this one; the same in fewer bits with all the rest."""
    is_same = EIGHT_BITS.get(str(section["kind"])) == kind
    kept = [name for name in (*_RATES, *(_OF_METHOD if is_same else ())) if name in section]
    known = {setting.path for setting in settings(TrainConfig, kinds={"optimizer": kind})}
    return {"kind": kind} | {name: section[name] for name in kept if f"optimizer.{name}" in known}


def _for_nothing(config: TrainConfig, on_card: bool) -> Iterator[Change]:
    """What costs no time, or some now and then."""
    if not config.data.cache_latents:
        yield Change(
            {"data.cache_latents": True}, "encode pictures once, before training", "faster"
        )
    if not config.data.cache_text:
        words = "encode captions once, before training"
        yield Change({"data.cache_text": True}, words, "faster")
    if on_card and config.hardware.offload_device == "same":
        yield Change(
            {"hardware.offload_device": "cpu"},
            "let text encoders and VAE wait in main memory",
            "a moment around samples",
            frozenset(),
        )
    if on_card and config.ema.use and config.ema.device == "device":
        yield Change(
            {"ema.device": "host"}, "keep the average in main memory", "little time in each step"
        )
    if config.sampling.prompts and not config.hardware.vae_tiling:
        yield Change(
            {"hardware.vae_tiling": True},
            "decode samples in tiles",
            "a second a sample; seams may show",
            frozenset({"decoding"}),
        )


def _of_method(config: TrainConfig) -> Iterator[Change]:
    """What a model's own weights take beside themselves."""
    method = config.method
    if not isinstance(method, Full | Vae):
        return
    if method.weights == "fp32" and config.hardware.precision == "bf16":
        yield Change(
            {"method.weights": "bf16"},
            "keep trained weights in bf16, rounded by chance",
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
                changes, "move each weight in the backward pass", "no time; no gradient clipping"
            )
    kind = str(document["kind"])
    if kind in EIGHT_BITS:
        yield Change(
            {"optimizer.kind": EIGHT_BITS[kind]},
            "keep the optimizer's statistics in 8 bits",
            "no time; a little less exact",
        )
    if kind in ("adam", "adamw", "adamw8bit", "adam8bit"):
        # Whoever has set beta1 would else keep it, and with it the statistics that it is for.
        changes = {
            "optimizer.kind": "adafactor",
            "optimizer.beta1": None,
            "training.gradient_clipping": 0.0,
        }
        yield Change(
            changes, "Adafactor, which keeps sums of rows and columns", "a slower optimizer"
        )


def _of_drawing(config: TrainConfig) -> Iterator[Change]:
    """What reward training keeps while it draws."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return
    if section.rollout.merge:
        yield Change(
            {"objective.rollout.merge": False},
            "do not merge adapters while drawing, which copies their layers",
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
            "keep the inputs of each drawing step alone (checkpointing)",
            "up to a third more time",
        )


def _of_steps(config: TrainConfig, on_card: bool) -> Iterator[Change]:
    """What makes each step take longer."""
    hardware, training = config.hardware, config.training
    if hardware.gradient_checkpointing == "off":
        yield Change(
            {"hardware.gradient_checkpointing": "selective"},
            "repeat cheap operations (checkpointing)",
            "up to a tenth more time",
        )
    if training.batch_size > 1:
        smaller = {
            "training.batch_size": 1,
            "training.accumulation": training.accumulation * training.batch_size,
        }
        yield Change(
            smaller,
            "batches of one picture, accumulated",
            "the same steps take longer: pictures one after the other",
            frozenset({"training", "validation"}),
        )
    if hardware.gradient_checkpointing in ("off", "selective"):
        yield Change(
            {"hardware.gradient_checkpointing": "block"},
            "repeat whole blocks (checkpointing)",
            "about a third more time",
        )
    if on_card and hardware.offload_activations < 1:
        yield Change(
            {"hardware.offload_activations": 1.0, "hardware.offload_device": "cpu"},
            "let what blocks save wait in main memory",
            "half as much time again, or more",
        )
    for share in SHARES if on_card else ():
        if hardware.offload_layers < share:
            words = "half" if share == SHARES[0] else "nine tenths"
            yield Change(
                {"hardware.offload_layers": share, "hardware.offload_device": "cpu"},
                f"let {words} of the layers wait in main memory",
                "up to twice the time" if share == SHARES[0] else "two to three times the time",
                frozenset({"training", "validation", "encoding", "drawing"}),
            )
    yield from _of_quality(config)


def _of_quality(config: TrainConfig) -> Iterator[Change]:
    """What also changes what is learned."""
    is_beside = isinstance(config.method, Adapter | EmbeddingOnly)
    if is_beside and config.hardware.quantization == "none" and missing_quantizer("int8") is None:
        yield Change(
            {"hardware.quantization": "int8"},
            "keep frozen layers in int8",
            "two to three times the time; a little less exact",
            frozenset({"training", "validation", "encoding", "drawing"}),
        )
    if isinstance(config.objective, AlignProp):
        yield from _smaller_drawings(config.objective)
    resolution = config.data.resolution
    step = max(LATENT_SIDE, bucket_step(config.model.family, config.data.buckets.step, resolution))
    smaller = int(resolution * SMALLER) // step * step
    if step < smaller < resolution:
        yield Change(
            {"data.resolution": smaller},
            f"learn smaller pictures, of {smaller} px",
            "faster; less detail is learned",
            frozenset({"caching", "training", "validation"}),
        )


def _smaller_drawings(section: AlignProp) -> Iterator[Change]:
    """The decoder keeps most, and as much more as there are pixels."""
    sides = {
        side: int(length * SMALLER) // DRAWN_IN * DRAWN_IN
        for side, length in (("width", section.rollout.width), ("height", section.rollout.height))
    }
    if min(sides.values()) >= DRAWN_IN:
        yield Change(
            {f"objective.rollout.{side}": length for side, length in sides.items()},
            f"draw smaller pictures, of {sides['width']} × {sides['height']} px",
            "faster; models draw worse than at the size that they were made for",
            frozenset({"training"}),
        )


def joined(changes: Sequence[Change]) -> Change:
    """Several changes as one; of the same setting the last one counts.

    Those of which nothing is left, because later ones set all of it again, are not told.
    """
    together: dict[str, object] = {}
    told: list[Change] = []
    for change in changes:
        together |= change.changes
        told = [one for one in told if not one.changes.keys() <= change.changes.keys()]
        told.append(change)
    return Change(
        together,
        "all of these: " + "; ".join(change.words for change in told),
        "; ".join(dict.fromkeys(change.cost for change in told)),
        frozenset().union(*(change.touches for change in changes)),
    )
