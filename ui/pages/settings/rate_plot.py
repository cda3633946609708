"""Plot of the learning rate over the run."""

from collections.abc import Mapping

from onetrainer.config.optimizers.optimizer_section import OptimizerSection
from onetrainer.config.run.schedule import Curve, CustomSchedule
from onetrainer.schedules.amounts import estimated
from onetrainer.schedules.learning_rate import lr_multiplier, warmup_steps
from ui.model.draft import Draft
from ui.model.form_fields import edit_text
from ui.model.variants import section_at
from ui.pages.settings.small_plot import PlotCurve

INPUTS = ("schedule", "training", "optimizer")
WIDTH = 236
_POINTS = 118  # one every two pixels


def rate_curve(draft: Draft, known: Mapping[str, int]) -> PlotCurve | str | None:
    """Return the learning rate over the run, or a message while the settings are wrong.

    None while these are not checked. known: Steps of lengths in other units, by their text; those
    of others are guessed.
    """
    if draft.is_held:
        return None
    if draft.setting("optimizer.lr") is None:
        return f"{_name(draft)} chooses its learning rate, without a schedule."
    config, run = draft.section_alone("schedule"), draft.section_alone("training")
    if config is None or run is None:
        return "Fix the numbers to see the learning rate over the run."
    steps = estimated(run, known).training.total_steps
    schedule = estimated(config, known).schedule
    if isinstance(schedule, CustomSchedule):
        return "Your function is run by training only, so that its curve is not shown here."
    points = rate_points(schedule, steps=steps)
    most = max(factor for _, factor in points)
    rate, highest = draft.value("optimizer.lr"), max(1.0, most)
    full = rate * most * run.training.lr_factor if isinstance(rate, int | float) else None
    curve = [(x, factor / highest) for x, factor in points]
    is_known = run.training.steps == steps or str(run.training.steps) in known
    last = f"step {steps:,}" if is_known else "last step"
    return PlotCurve(rate_title(draft, full), curve, ("first step", last))


def rate_title(draft: Draft, full: float | None) -> str:
    """Return the title of the plot. full: the highest rate; None if it is not a number."""
    up_to = f", up to {edit_text(full)}" if full is not None else ""
    optimizer = section_at("optimizer", draft.variants)
    if optimizer is not None and issubclass(optimizer, OptimizerSection) and optimizer.is_adaptive:
        return f"Factor on the learning rate that {_name(draft)} finds, over the run{up_to}"
    return f"Learning rate over the run{up_to}"


def rate_points(schedule: Curve, *, steps: int) -> list[tuple[float, float]]:
    """Return points of the learning rate: fraction of the run, and factor on the full rate."""
    last = steps - 1
    if last == 0:
        fraction = lr_multiplier(schedule, step=0, steps=steps)
        return [(0.0, fraction), (1.0, fraction)]
    # Keep the corner at the end of the warm-up.
    shown = {round(index * last / _POINTS) for index in range(_POINTS + 1)}
    shown |= {min(last, warmup_steps(schedule, steps=steps))}
    return [
        (step / last, lr_multiplier(schedule, step=step, steps=steps)) for step in sorted(shown)
    ]


def _name(draft: Draft) -> str:
    setting = draft.setting("optimizer.kind")
    return setting.choice_label(draft.value("optimizer.kind")) if setting is not None else ""
