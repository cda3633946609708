import pytest

from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve
from onetrainer.queue.sweep import swept
from tests.each import each


def test_sweeps_make_every_combination_with_names_of_their_own():
    document = {"output": {"name": "cat"}}
    made = swept(document, ["training.seed=1,2", "optimizer.lr=1e-4,3e-4"])
    configs = [resolve(one, source="a test") for one in made]
    assert [(one.training.seed, one.optimizer.lr) for one in configs] == [
        (1, 1e-4), (1, 3e-4), (2, 1e-4), (2, 3e-4),
    ]  # fmt: skip
    assert [one.output.name for one in configs][:2] == ["cat-seed-1-lr-1e-4", "cat-seed-1-lr-3e-4"]
    assert swept(document, []) == [document]
    listed = swept(document, ['data.captions.trigger=["a, b", "c/d"]'])
    assert [one["output"]["name"] for one in listed] == ["cat-trigger-a-b", "cat-trigger-c-d"]


@each("text", ["training.seed", "training.seed=", "a=[1,", "training.seed=" + "1," * 201])
def test_a_sweep_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="--sweep"):
        swept({}, [text])
