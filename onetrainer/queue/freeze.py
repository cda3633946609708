"""Run folders of a config, before their runs begin."""

from collections.abc import Callable, Sequence
from pathlib import Path

from onetrainer.config.train import TrainConfig
from onetrainer.json_file import Document
from onetrainer.presets.presets import resolve, with_absolute_paths
from onetrainer.queue.sweep import swept
from onetrainer.run.run_folder import RunFolder, create_run


def _resolved(document: Document) -> TrainConfig:
    return resolve(document, source="the queue")


def freeze(
    config: TrainConfig,
    sweeps: Sequence[str] = (),
    *,
    check: Callable[[Document], TrainConfig] = _resolved,
) -> list[RunFolder]:
    """Create a run folder with a config, or one for each value that is swept over; see `swept`.

    check: Returns the config of a document that a run can start with; raises UserError otherwise.
    No folder is made unless all can start.
    """
    document = with_absolute_paths(config).model_dump(mode="json")
    configs = [with_absolute_paths(check(one)) for one in swept(document, sweeps)]
    return [
        create_run(
            Path(one.output.folder), name=one.output.name, config=one.model_dump(mode="json")
        )
        for one in configs
    ]
