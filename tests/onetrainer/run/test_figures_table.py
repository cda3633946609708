"""The figures of runs as CSV."""

import csv
import io

from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Measured, Phase, Progress, Validated
from onetrainer.run.figures_table import figures_table
from onetrainer.run.run_folder import create_run


def test_each_step_is_a_row_with_all_that_was_reported_of_it(tmp_path):
    runs = []
    for name in ("cats", "dogs"):
        runs.append(create_run(tmp_path, name=name, config={}))
        events = EventWriter(runs[-1].events)
        events.write(Phase("training"))
        for step in (1, 2):
            events.write(Progress(step, 2, 0, 0.5 / step, 1e-4, gradient_norm=None))
        if name == "dogs":
            events.write(Measured(2, 4, 99, learning_rates={"unet, slow": 3e-5}))
            events.write(Validated(2, 0.25, 0.01, 9, 2, True, "first", ""))
        events.close()
    rows = list(csv.DictReader(io.StringIO(figures_table(runs))))
    assert [(row["run"], row["step"], row["loss"]) for row in rows] == [
        *(("cats-001", "1", "0.5"), ("cats-001", "2", "0.25")),
        *(("dogs-001", "1", "0.5"), ("dogs-001", "2", "0.25")),
    ]
    assert rows[3]["learning rate of unet, slow"] == "3e-05"
    assert (rows[3]["RAM, bytes"], rows[3]["validation loss"]) == ("99", "0.25")
    assert rows[0]["validation loss"] == "" and "gradient norm" not in rows[0]
