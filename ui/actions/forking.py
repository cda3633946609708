"""What is asked and checked before a run is forked, and the copying of its history."""

from collections.abc import Callable
from pathlib import Path

from onetrainer.checks.preflight import require_startable
from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths, with_value
from onetrainer.rules.changes import changes_since
from onetrainer.run.fork import copy_history, state_at
from onetrainer.run.run_folder import RunFolder, create_run
from ui.actions.file_check import check_files
from ui.context import Context
from ui.dialogs.rate_dialog import with_chosen_rate
from ui.dialogs.trust_dialog import confirm_run


def prepared_fork(
    context: Context, source: RunFolder, step: int, config: TrainConfig | None
) -> Callable[[], RunFolder] | None:
    """Return what makes the fork of a run from a step, in any thread; None if it is canceled.

    config: None for the run's own. Raises UserError if the config does not fit the checkpoint, as
    what is returned does if the fork could not be started.
    """
    state = state_at(source, step)
    if config is None:
        document = load_document(source.config, goes_on=True)
        document = with_value(document, "output.folder", str(source.path.parent))
        config = resolve(document, source=str(source.config))
    config = with_absolute_paths(config)
    changes_since(state.get("config", {}), config, step=step)
    chosen = with_chosen_rate(context, source, state, config)
    if chosen is None or not confirm_run(context, source, chosen, is_new=True):
        return None

    def copy() -> RunFolder:
        require_startable(check_files(chosen))
        values = chosen.model_dump(mode="json")
        fork = create_run(Path(chosen.output.folder), name=chosen.output.name, config=values)
        copy_history(source, state, fork)
        return fork

    return copy
