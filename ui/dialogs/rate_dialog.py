"""The question at which learning rate a longer run goes on."""

from collections.abc import Mapping
from typing import Any

from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import load_document, resolve, with_value
from onetrainer.rules.changes import rate_change
from onetrainer.run.decided_lengths import decided_lengths
from onetrainer.run.fork import state_at
from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog

_KEEP, _RISE = "keep rate", "rising rate"


def with_chosen_rate(
    context: Context, source: RunFolder, state: Mapping[str, Any], config: TrainConfig
) -> TrainConfig | None:
    """Return the config of a run that goes on, with the rate that a person chooses if it rises.

    source: The run that it goes on from. state: Of the checkpoint. Returns None if canceled.
    """
    decided, recorded = decided_lengths(source), state.get("config", {})
    rates = rate_change(recorded, config, step=state["step"], decided=decided)
    if rates is None:
        return config
    dialog = Dialog(context, "The learning rate rises")
    dialog.add_text(
        f"The last step was made at {rates.percent_before} of the full learning rate"
        f"{rates.remark}. The longer schedule goes on at {rates.percent_after}, which undoes a part"
        " of what the low rate has settled."
    )
    dialog.add_buttons(
        [
            Choice(_KEEP, "Keep the rate of the last step", "primary"),
            Choice(_RISE, "Follow the longer schedule"),
            Choice("", "Cancel"),
        ]
    )
    answer = dialog.wait()
    if answer != _KEEP:
        return config if answer else None
    return resolve(with_value(config.model_dump(mode="json"), "schedule", rates.kept), source="")


def changes_with_chosen_rate(
    context: Context, changes: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return changes of the displayed run, by path, with the schedule that a person chooses.

    Returns None if canceled.
    """
    folder = context.session.folder
    assert folder is not None, "there is a run to resume"
    document = load_document(folder.config, goes_on=True)
    for path, value in changes.items():
        document = with_value(document, path, value)
    config = resolve(document, source=str(folder.config))
    chosen = with_chosen_rate(context, folder, state_at(folder, None), config)
    if chosen is None or chosen.schedule == config.schedule:
        return None if chosen is None else changes
    return {**changes, "schedule": chosen.schedule.model_dump(mode="json")}
