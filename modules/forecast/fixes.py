"""Settings that lower a run's peak memory, tried one by one and combined, the cheapest first.

The order follows measurements of public trainers and counts of operations: free ones; occasional
copies (offloaded components, EMA); optimizer state in fewer bits; recomputing cheap operations (up
to a tenth of a step); recomputing everything (a third more operations); moving activations and
layers in each step; quantized layers, which take two to three times as long in public trainers
(SimpleTuner, int8 and fp8 on an H100); and last what changes the results: smaller images.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from modules.forecast.forecast import Planner
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
from onetrainer.messages.memory import fits
from onetrainer.presets import presets
from onetrainer.rules.rules import check_rules
from onetrainer.run.events import Forecast

MAX_FITTING_FIXES = 2
"""Number of fitting fixes after which costlier ones are not tried."""
MIN_IMPROVEMENT = 0.99
"""Fixes must lower the peak below this fraction of it."""
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
SAMPLE_SIZE_STEP = 64
"""Sides of samples are multiples of this many pixels, since UNets halve the latent's sides three
times.
"""


@dataclass(frozen=True)
class Change:
    """Settings to change, with a description and their cost.

    Attributes:
        phases: Phases besides training whose compute changes, separated by spaces.
        peak: Bytes with the change, once they are known.
    """

    changes: Mapping[str, object]
    message: str
    cost: str
    phases: str = ""
    peak: int = 0


def add_fixes(plans: Planner, config: TrainConfig, known: Forecast) -> Forecast:
    """Return the forecast with fixes, the cheapest in time first.

    If no single change is enough, a combination comes first; if nothing fits, the lowest peak.

    plans: Forecasts changed configs. config: Of the forecast, with automatic choices resolved.
    known: The forecast without fixes.
    """
    available = plans.target.available

    def measured(change: Change) -> Change:
        changed = apply_changes(config, change.changes)
        assert changed is not None, "candidates are configs"
        affected = frozenset(change.phases.split())
        found = plans.forecast(changed, known=known.phases, affected_phases=affected)
        return replace(change, peak=found.peak_bytes)

    fixes: list[Change] = []
    for change in map(measured, candidates(config, on_card=plans.target.kind == "cuda")):
        if change.peak < known.peak_bytes * MIN_IMPROVEMENT:
            fixes.append(change)
        if sum(fits(fix.peak, available) for fix in fixes) == MAX_FITTING_FIXES:
            break
    if not any(fits(fix.peak, available) for fix in fixes):
        # The cheapest are added first; those that do not lower the peak any more are left out.
        chosen: list[Change] = []
        best = Change({}, "", "", peak=known.peak_bytes)
        for fix in fixes:
            combined = measured(combine([*chosen, fix])) if chosen else fix
            if combined.peak < best.peak * MIN_IMPROVEMENT:
                chosen, best = [*chosen, fix], combined
            if fits(best.peak, available):
                break
        fixes = [best, *fixes] if len(chosen) > 1 else fixes
    if not any(fix.peak <= available for fix in fixes):
        fixes.sort(key=lambda fix: fix.peak)
    return replace(
        known,
        fixes=[
            {
                "changes": dict(fix.changes),
                "message": fix.message,
                "cost": fix.cost,
                "peak_bytes": fix.peak,
            }
            for fix in fixes
        ],
    )


def candidates(config: TrainConfig, *, on_card: bool) -> list[Change]:
    """Return every change that the config allows, in the order of their cost in time.

    on_card: Whether the run is on a GPU, with RAM to offload to.
    """
    known = _errors(config)
    possible = []
    for change in _changes(config, on_card):
        changed = apply_changes(config, change.changes)
        if changed is None or changed == config or missing_package(changed.optimizer) is not None:
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


def _changes(config: TrainConfig, on_card: bool) -> Iterator[Change]:
    """Yield changes in the order of their cost; some leave the config as it is, or are invalid."""
    yield Change({"data.cache_latents": True}, "encode images once, before training", "faster")
    yield Change({"data.cache_text": True}, "encode captions once, before training", "faster")
    if on_card:
        message = "offload text encoders and VAE to RAM"
        yield Change({"hardware.offload_device": "cpu"}, message, "a moment around samples")
    if on_card and config.ema.use:
        yield Change({"ema.device": "host"}, "store the EMA in RAM", "little time in each step")
    if config.sampling.has_prompts:
        yield Change(
            {"hardware.vae_tiling": True},
            "decode samples in tiles",
            "a second a sample; seams may show",
            "decoding",
        )
    if isinstance(config.method, Full | Vae):
        yield from _for_own_weights(config)
    if isinstance(config.objective, AlignProp):
        yield from _for_reward_sampling(config)
    yield from _slower_steps(config, on_card)
    is_frozen = isinstance(config.method, Adapter | EmbeddingOnly)
    if is_frozen and config.hardware.quantization == "none" and missing_quantizer("int8") is None:
        yield Change(
            {"hardware.quantization": "int8"},
            "quantize frozen layers to int8",
            "two to three times the time; a little less exact",
            "validation encoding sampling",
        )
    yield from _smaller_images(config)


def _for_own_weights(config: TrainConfig) -> Iterator[Change]:
    """Yield what applies to training a model's own weights."""
    if config.hardware.precision == "bf16":
        yield Change(
            {"method.weights": "bf16"},
            "store trained weights in bf16 with stochastic rounding",
            "faster; a little less exact",
        )
    if config.training.accumulation == 1:
        yield Change(
            {"optimizer.fused_backward": True, "training.gradient_clipping": 0.0},
            "update weights in a fused backward pass",
            "no time; no gradient clipping",
        )
    kind = config.optimizer.kind
    if kind in EIGHT_BIT_VARIANTS:
        yield Change(
            {"optimizer.kind": EIGHT_BIT_VARIANTS[kind]},
            "store the optimizer state in 8 bits",
            "no time; a little less exact",
        )
    if kind in ("adam", "adamw", "adamw8bit", "adam8bit"):
        # With beta1 Adafactor would store the momentum as well.
        changes: dict[str, object] = {"optimizer.kind": "adafactor", "optimizer.beta1": None}
        yield Change(
            changes | {"training.gradient_clipping": 0.0},
            "Adafactor, which stores sums of rows and columns",
            "a slower optimizer",
        )


def _for_reward_sampling(config: TrainConfig) -> Iterator[Change]:
    """Yield what applies to the rollouts of reward training."""
    yield Change(
        {"objective.rollout.merge": False},
        "do not merge adapters while sampling, which copies their layers",
        "up to a fifth more time",
    )
    if config.hardware.precision == "bf16":
        yield Change(
            {"hardware.vae_precision": "bf16"},
            "decode in bf16, with a gradient of half the size",
            "faster; colors a little less exact",
            "caching decoding",
        )
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
    accumulation = training.accumulation * training.batch_size
    yield Change(
        {"training.batch_size": 1, "training.accumulation": accumulation},
        "batches of one image, accumulated",
        "each step takes longer: one image at a time",
        "validation",
    )
    yield Change(
        {"hardware.gradient_checkpointing": "block"},
        "recompute whole blocks (full gradient checkpointing)",
        "about a third more time",
    )
    if not on_card:
        return
    to_ram: dict[str, object] = {"hardware.offload_device": "cpu"}
    if hardware.offload_activations < 1:
        yield Change(
            {"hardware.offload_activations": 1.0, **to_ram},
            "offload activations to RAM",
            "half as much time again, or more",
        )
    for fraction, name, cost in (
        (0.5, "half", "up to twice the time"),
        (0.9, "nine tenths", "two to three times the time"),
    ):
        if hardware.offload_layers < fraction:
            yield Change(
                {"hardware.offload_layers": fraction, **to_ram},
                f"offload {name} of the layers to RAM",
                cost,
                "validation encoding sampling",
            )


def _smaller_images(config: TrainConfig) -> Iterator[Change]:
    """Yield what changes the training result most: smaller rollouts and training images."""
    if isinstance(config.objective, AlignProp):
        # The decoder takes most memory, in proportion to the pixels.
        rollout, step = config.objective.rollout, SAMPLE_SIZE_STEP
        width, height = (
            int(side * RESOLUTION_FACTOR) // step * step for side in (rollout.width, rollout.height)
        )
        if min(width, height) >= step:
            yield Change(
                {"objective.rollout.width": width, "objective.rollout.height": height},
                f"generate smaller images, of {width} × {height} px",
                "faster; models are worse at sizes that they were not trained for",
            )
    side = config.data.resolution
    spec = family_spec(config.model.family)
    step = max(spec.latent_side, bucket_step(config.model.family, config.data.buckets.step, side))
    smaller = int(side * RESOLUTION_FACTOR) // step * step
    if step < smaller < side:
        yield Change(
            {"data.resolution": smaller},
            f"train on smaller images, of {smaller} px",
            "faster; less detail is trained",
            "caching validation",
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
        "all of these: " + "; ".join(change.message for change in remaining),
        "; ".join(dict.fromkeys(change.cost for change in remaining)),
        " ".join(change.phases for change in changes),
    )
