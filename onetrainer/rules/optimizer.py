"""What is wrong between the optimizer and the other settings."""

from collections.abc import Iterator

from onetrainer.config.base.section import Section
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full
from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative
from onetrainer.config.optimizers.adam import AdamW, Sgd
from onetrainer.config.optimizers.adaptive import Prodigy
from onetrainer.config.run.schedule import Constant, Points
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem
from onetrainer.schedules.learning_rate import warmup_steps

USUAL_WARMUP = 100
# How much more words bear than weights do: they are a few vectors, as long as any other's.
WORDS_BEAR = 10
# Prodigy and D-Adaptation find the rate; people who multiply it stay within these.
LOWEST_MULTIPLIER, HIGHEST_MULTIPLIER = 0.1, 2.0


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of the optimizer."""
    return [
        *_rate_problems(config),
        *_own_rate_problems(config),
        *_clipping_problems(config),
        *_backward_problems(config),
        *_adafactor_problems(config),
        *_schedule_free_problems(config),
        *_choice_problems(config),
    ]


def _rate_problems(config: TrainConfig) -> Iterator[Problem]:
    section = config.optimizer
    if section.is_adaptive:
        if not LOWEST_MULTIPLIER <= section.lr <= HIGHEST_MULTIPLIER:
            yield Problem(
                "optimizer.lr",
                f"{section.title} finds its own learning rate, and {section.lr:g} multiplies it",
                "Expected 1, or something near it",
                "Set it to 1.",
                "warning",
                Fix("optimizer.lr", 1.0),
            )
        return
    # Own weights of a model have lower bounds, which `rules_full` knows.
    is_known = isinstance(config.method, Full) and section.high_lr <= AdamW.high_lr
    is_word = isinstance(config.method, EmbeddingOnly)
    high = section.high_lr * (WORDS_BEAR if is_word else 1)
    if section.lr > high and not is_known:
        usual = type(section).model_fields["lr"].default * (WORDS_BEAR if is_word else 1)
        yield Problem(
            "optimizer.lr",
            f"{section.lr:g} is a very high learning rate for {section.title}",
            f"Runs with it usually begin at about {usual:g}",
            "Lower it if the loss jumps or samples turn to noise.",
            "warning",
        )


def _own_rate_problems(config: TrainConfig) -> Iterator[Problem]:
    """Rates of single networks, layers or words, where the optimizer has no use for them."""
    section = config.optimizer
    rates = [
        *_own_rates(config.method, "method"),
        *(_own_rates(config.embeddings, "embeddings") if config.embeddings.tokens else ()),
    ]
    for path, rate in rates:
        if isinstance(section, AdafactorRelative):
            yield Problem(
                path,
                "Adafactor's relative step follows from the step's number alone",
                "Expected no learning rate beside it",
                'Remove it, or choose "adafactor" as the optimizer.',
            )
        elif section.has_one_rate:
            yield Problem(
                path,
                f"{section.title} finds one rate for everything, and would pass {rate:g} over",
                "Expected no rates of single parts with it",
                'Remove it, or choose another optimizer; "prodigy_schedulefree" heeds them.',
            )
        elif section.is_adaptive and not LOWEST_MULTIPLIER <= rate <= HIGHEST_MULTIPLIER:
            yield Problem(
                path,
                f"{section.title} finds its own learning rate, and {rate:g} multiplies it",
                "Expected 1, or something near it",
                "Set it to 1, or remove it.",
                "warning",
            )


def _own_rates(section: Section, path: str) -> Iterator[tuple[str, float]]:
    """The learning rates inside a section, by their paths; of LoRA+ its ratio.

    What is not trained has none.
    """
    fields = dict(section)
    if not fields.get("train", True):
        return
    for name, value in fields.items():
        place = f"{path}.{name}"
        if (name == "lr" and value is not None) or (name == "plus_ratio" and value != 1):
            yield place, float(value)
        elif isinstance(value, Section):
            yield from _own_rates(value, place)
        elif isinstance(value, tuple):
            for number, entry in enumerate(value):
                if isinstance(entry, Section):
                    yield from _own_rates(entry, f"{place}.{number}")


def _clipping_problems(config: TrainConfig) -> Iterator[Problem]:
    section = config.optimizer
    # With a step in backward it is no matter of taste, and told of there.
    is_unwise = section.clips_itself and not _steps_in_backward(section)
    if is_unwise and config.training.gradient_clipping > 0:
        yield Problem(
            "training.gradient_clipping",
            f"{section.title} bounds its own steps, and learns worse from shortened gradients",
            "Expected 0 with it, which is off",
            "Set it to 0.",
            "warning",
            Fix("training.gradient_clipping", 0.0),
        )


def _backward_problems(config: TrainConfig) -> Iterator[Problem]:
    if not _steps_in_backward(config.optimizer):
        return
    training = config.training
    if training.accumulation > 1:
        yield Problem(
            "training.accumulation",
            "a step in backward cannot wait for several batches: it moves each weight at once",
            "Expected 1 with optimizer.fused_backward",
            "Set it to 1, or turn optimizer.fused_backward off.",
            choices=(
                Fix("training.accumulation", 1),
                Fix("optimizer.fused_backward", False),
            ),
        )
    if training.gradient_clipping > 0:
        yield Problem(
            "training.gradient_clipping",
            "a step in backward cannot know the norm of the whole gradient, which it never holds",
            "Expected 0 with optimizer.fused_backward, which is off",
            "Set it to 0, or turn optimizer.fused_backward off.",
            choices=(
                Fix("training.gradient_clipping", 0.0),
                Fix("optimizer.fused_backward", False),
            ),
        )


def _steps_in_backward(section: Section) -> bool:
    return bool(dict(section).get("fused_backward", False))


def _adafactor_problems(config: TrainConfig) -> Iterator[Problem]:
    steps = config.training.steps
    warmup = warmup_steps(config.schedule, steps=steps)
    is_curve = isinstance(config.schedule, Points)  # drawn by hand, warm-up and all
    match config.optimizer:
        case Adafactor() if warmup == 0 and steps > USUAL_WARMUP and not is_curve:
            yield Problem(
                "schedule.warmup_steps",
                "Adafactor knows nothing of the gradients' sizes at first, and its first steps can"
                " do harm",
                f"It is usually given about {USUAL_WARMUP} steps of warm-up",
                f"Set it to {USUAL_WARMUP}.",
                "warning",
                Fix("schedule.warmup_steps", USUAL_WARMUP),
            )
        case AdafactorRelative():
            what = "Adafactor's relative step follows from the step's number alone"
            if not isinstance(config.schedule, Constant):
                yield Problem(
                    "schedule.kind",
                    f"{what}, and pays no heed to a schedule",
                    'Expected "constant" with it',
                    'Choose "constant", or "adafactor" as the optimizer.',
                    choices=(
                        Fix("schedule.kind", "constant"),
                        Fix("optimizer.kind", "adafactor"),
                    ),
                )
            elif warmup > 0:
                name = "warmup_steps" if config.schedule.warmup_steps else "warmup_fraction"
                yield Problem(
                    f"schedule.{name}",
                    f"{what}, and pays no heed to the schedule's warm-up",
                    "Expected 0 with it; it has a warm-up of its own, optimizer.warmup_init",
                    "Set it to 0.",
                    fix=Fix(f"schedule.{name}", 0),
                )


def _schedule_free_problems(config: TrainConfig) -> Iterator[Problem]:
    section = config.optimizer
    if not section.is_schedule_free:
        return
    if not isinstance(config.schedule, Constant):
        yield Problem(
            "schedule.kind",
            f"{section.title} averages the weights in place of a falling rate; both together stop"
            " learning too early",
            'Expected "constant" with it, with or without a warm-up',
            'Choose "constant".',
            "warning",
            Fix("schedule.kind", "constant"),
        )


def _choice_problems(config: TrainConfig) -> Iterator[Problem]:
    """Settings of an optimizer that do not go together."""
    match config.optimizer:
        case Sgd(nesterov=True, momentum=0):
            yield Problem(
                "optimizer.nesterov",
                "there is no momentum to look ahead along",
                "Expected a momentum above 0 with it",
                "Turn it off, or raise optimizer.momentum.",
                fix=Fix("optimizer.nesterov", False),
            )
        case Prodigy(safeguard_warmup=False):
            if warmup_steps(config.schedule, steps=config.training.steps) > 0:
                yield Problem(
                    "optimizer.safeguard_warmup",
                    "the schedule's warm-up makes Prodigy find a rate that is too large",
                    "Expected the safeguard with a warm-up",
                    "Turn it on, or do without the warm-up.",
                    "warning",
                    Fix("optimizer.safeguard_warmup", True),
                )
