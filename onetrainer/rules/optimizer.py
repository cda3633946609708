"""Rules of the optimizer."""

from collections.abc import Iterator, Mapping

from onetrainer.config.base.numbers import number_text
from onetrainer.config.base.section import Section
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full
from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative
from onetrainer.config.optimizers.adam import AdamW, Sgd
from onetrainer.config.optimizers.adaptive import Prodigy
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.run.schedule import Constant, Points
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.rules.lengths import in_likely_steps
from onetrainer.rules.schedule import custom_problems
from onetrainer.schedules.learning_rate import warmup_steps

USUAL_WARMUP = 100
# Embeddings, a few vectors of normal length, tolerate higher learning rates than weights.
EMBEDDING_LR_FACTOR = 10
# Usual multipliers of the rate that Prodigy and D-Adaptation find.
MIN_MULTIPLIER, MAX_MULTIPLIER = 0.1, 2.0


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of the optimizer."""
    yield from _rate_problems(config)
    yield from _component_rate_problems(config)
    yield from _gradient_problems(config)
    yield from _adafactor_problems(config)
    yield from _scaling_problems(config)
    yield from _option_problems(config)


def _rate_problems(config: TrainConfig) -> Iterator[Problem]:
    section = config.optimizer
    if section.is_adaptive:
        if not MIN_MULTIPLIER <= section.lr <= MAX_MULTIPLIER:
            yield warning(
                "optimizer.lr",
                f"{section.title} finds its own learning rate, and {number_text(section.lr)}"
                " multiplies it",
                "Expected a value near 1",
                "Set it to 1.",
                to=1.0,
            )
        return
    # Full fine-tuning has lower limits, see rules/full.py.
    is_checked = isinstance(config.method, Full) and section.high_lr <= AdamW.high_lr
    factor = EMBEDDING_LR_FACTOR if isinstance(config.method, EmbeddingOnly) else 1
    if section.lr > section.high_lr * factor and not is_checked:
        usual = type(section).model_fields["lr"].default * factor
        yield warning(
            "optimizer.lr",
            f"{number_text(section.lr)} is a very high learning rate for {section.title}",
            f"About {number_text(usual)} is usual",
            "Lower it if the loss jumps or samples turn to noise.",
        )


def _component_rate_problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of learning rates of components, layers or tokens that have no effect."""
    section = config.optimizer
    rates = [
        *_component_rates(config.method, "method"),
        *(_component_rates(config.embeddings, "embeddings") if config.embeddings.tokens else ()),
    ]
    for path, rate in rates:
        if isinstance(section, AdafactorRelative):
            yield Problem(
                path,
                "Adafactor's relative step depends only on the step number",
                "Expected no learning rate with it",
                'Remove it, or choose "adafactor" as the optimizer.',
            )
        elif section.has_one_rate:
            yield Problem(
                path,
                f"{section.title} uses a single rate for everything and would ignore"
                f" {number_text(rate)}",
                "Expected no learning rates of components with it",
                'Remove it, or choose another optimizer; "prodigy_schedulefree" supports them.',
            )
        elif section.is_adaptive and not MIN_MULTIPLIER <= rate <= MAX_MULTIPLIER:
            yield warning(
                path,
                f"{section.title} finds its own learning rate, and {number_text(rate)} multiplies"
                " it",
                "Expected a value near 1",
                "Set it to 1, or remove it.",
            )


def _component_rates(section: Section, path: str) -> Iterator[tuple[str, float]]:
    """Yield the paths and values of learning rates in a section, and of LoRA+'s ratio.

    Without those of components that are not trained.
    """
    fields = dict(section)
    if not fields.get("train", True):
        return
    for name, value in fields.items():
        inner_path = f"{path}.{name}"
        if (name == "lr" and value is not None) or (name == "plus_ratio" and value != 1):
            yield inner_path, float(value)
        elif isinstance(value, Section):
            yield from _component_rates(value, inner_path)
        elif isinstance(value, tuple | Mapping):
            entries = value.items() if isinstance(value, Mapping) else enumerate(value)
            for key, entry in entries:
                if isinstance(entry, Section):
                    yield from _component_rates(entry, f"{inner_path}.{key}")


def _gradient_problems(config: TrainConfig) -> Iterator[Problem]:
    section, training = config.optimizer, config.training
    if not section.is_fused:
        if section.clips_itself and training.gradient_clipping > 0:
            yield warning(
                "training.gradient_clipping",
                f"{section.title} limits its own updates and trains worse with gradient clipping",
                "Expected 0 (off) with it",
                "Set it to 0.",
                to=0.0,
            )
        return
    unfused = Fix("optimizer.fused_backward", False)
    if training.accumulation > 1:
        yield Problem(
            "training.accumulation",
            "a fused backward pass updates weights at once and cannot accumulate gradients",
            "Expected 1 with optimizer.fused_backward",
            "Set it to 1, or turn optimizer.fused_backward off.",
            choices=(Fix("training.accumulation", 1), unfused),
        )
    if training.gradient_clipping > 0:
        yield Problem(
            "training.gradient_clipping",
            "a fused backward pass never has the whole gradient and cannot compute its norm",
            "Expected 0 (off) with optimizer.fused_backward",
            "Set it to 0, or turn optimizer.fused_backward off.",
            choices=(
                Fix("training.gradient_clipping", 0.0),
                Fix("optimizer.fused_backward", False),
            ),
        )


def _adafactor_problems(config: TrainConfig) -> Iterator[Problem]:
    config = in_likely_steps(config)
    steps = config.training.total_steps
    warmup = warmup_steps(config.schedule, steps=steps)
    is_curve = isinstance(config.schedule, Points)  # contains its own warm-up
    match config.optimizer:
        case Adafactor() if warmup == 0 and steps > USUAL_WARMUP and not is_curve:
            yield warning(
                "schedule.warmup_steps",
                "Adafactor does not know the gradients' sizes at first, and its first steps can do"
                " harm",
                f"About {USUAL_WARMUP} steps of warm-up are usual",
                f"Set it to {USUAL_WARMUP}.",
                to=USUAL_WARMUP,
            )
        case AdafactorRelative():
            what = "Adafactor's relative step depends only on the step number"
            if not isinstance(config.schedule, Constant):
                yield Problem(
                    "schedule.kind",
                    f"{what} and ignores the schedule",
                    'Expected "constant" with it',
                    'Choose "constant", or "adafactor" as the optimizer.',
                    choices=(Fix("schedule.kind", "constant"), Fix("optimizer.kind", "adafactor")),
                )
            elif warmup > 0:
                name = "warmup_steps" if config.schedule.warmup_steps else "warmup_fraction"
                yield Problem(
                    f"schedule.{name}",
                    f"{what} and ignores the schedule's warm-up",
                    "Expected 0 with it; it has its own warm-up, optimizer.warmup_init",
                    "Set it to 0.",
                    fix=Fix(f"schedule.{name}", 0),
                )


def _scaling_problems(config: TrainConfig) -> Iterator[Problem]:
    section = config.optimizer
    if config.training.lr_scaling == "off":
        return
    if section.is_adaptive or isinstance(section, AdafactorRelative):
        yield Problem(
            "training.lr_scaling",
            f"{section.title} finds its own learning rate, which the batch must not scale",
            'Expected "off" with it',
            "Turn it off, or choose another optimizer.",
            choices=(Fix("training.lr_scaling", "off"), Fix("optimizer.kind", "adamw")),
        )


def _option_problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of an optimizer's settings that do not work together."""
    config = in_likely_steps(config)
    section = config.optimizer
    if section.is_schedule_free and not isinstance(config.schedule, Constant):
        yield warning(
            "schedule.kind",
            f"{section.title} averages the weights in place of a falling rate; both together stop"
            " training too early",
            'Expected "constant" with it, with or without a warm-up',
            'Choose "constant".',
            to="constant",
        )
    if section.is_schedule_free and dict(config.method).get("max_norm"):
        yield Problem(
            "method.max_norm",
            f"{section.title} saves an average of internal matrices, which cannot be limited",
            "Expected 0 (off), or another optimizer",
            "Set it to 0, or choose another optimizer.",
            choices=(Fix("method.max_norm", 0.0), Fix("optimizer.kind", "adamw")),
        )
    if isinstance(section, CustomOptimizer):
        yield from custom_problems(section, "optimizer", "a class", given=("lr", "params"))
    match section:
        case Sgd(nesterov=True, momentum=0):
            yield Problem(
                "optimizer.nesterov",
                "there is no momentum to look ahead along",
                "Expected a momentum above 0 with it",
                "Turn it off, or raise optimizer.momentum.",
                fix=Fix("optimizer.nesterov", False),
            )
        case Prodigy(safeguard_warmup=False):
            if warmup_steps(config.schedule, steps=config.training.total_steps) > 0:
                yield warning(
                    "optimizer.safeguard_warmup",
                    "the schedule's warm-up makes Prodigy find a rate that is too large",
                    "Expected the safeguard to be on with a warm-up",
                    "Turn it on, or remove the warm-up.",
                    to=True,
                )
