"""The record of a run's returns: what it changes of which steps, and when it is damaged."""

import pytest

from modules.broken_steps.retries import Retries, Retry
from onetrainer.errors import UserError
from onetrainer.run.events import BrokenStep
from tests.each import each


def test_rates_are_lower_from_each_checkpoint_on_and_seeds_differ_with_each_return(tmp_path):
    path, kept = tmp_path / "retries.json", Retries()
    event = BrokenStep(12, ["a.png"], [7], [None, 0.1], None, "loss", "broken", went_back=True)
    for entry in (Retry(8, 5, 0.5), Retry(12, 10, 0.1, event)):
        kept = kept.with_entry(entry, path)
    assert Retries.read(path) == kept
    assert [kept.lr_factor(step) for step in (4, 5, 9, 10)] == [1, 0.5, 0.5, 0.05]
    assert [kept.seed(3, step) == 3 for step in (6, 7, 8, 11)] == [True, False, True, False]
    again = kept.with_entry(Retry(8, 5, 0.5), path)
    assert len({3, kept.seed(3, 7), again.seed(3, 7)}) == 3


@each(
    "content",
    [b"", b"{}x", b"[1]", b'[{"broken": 1}]', b'[{"broken": "1", "since": 0, "lr_factor": 0.5}]'],
)
def test_a_damaged_record_is_named_with_what_deleting_it_means(tmp_path, content):
    path = tmp_path / "retries.json"
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"retries\.json: .*the record of a run's returns"
    ) as caught:
        Retries.read(path)
    assert "full learning rate" in caught.value.remedy
