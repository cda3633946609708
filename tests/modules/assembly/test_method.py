"""What is kept of a model besides what trains: its original weights, where something needs them."""

from modules.assembly.method import attach
from modules.methods.model_source import ModelSource
from onetrainer.presets.presets import resolve
from tests import tiny
from tests.each import each

OWN = {"prior": {"kind": "own_prediction"}}
MASK = {"mask": {"prior_weight": 0.5}}


@each(
    ("objective", "data", "is_kept"),
    [
        (OWN, {}, False),
        (OWN, {"class_folder": "class"}, True),
        (MASK, {}, False),
        (MASK, {"masks": "alpha"}, True),
        ({}, {"masks": "alpha", "class_folder": "class"}, False),
    ],
)
def test_original_weights_are_kept_only_where_something_is_compared_with_them(
    tmp_path, objective, data, is_kept
):
    document = {"method": {"kind": "full", "weights": "fp32"}, "objective": objective, "data": data}
    config = resolve(document, source="")
    base = config.model.model_copy(update={"path": str(tiny.write_folder(tmp_path / "base"))})
    method = attach(config, tiny.family(), ModelSource.of(base)).method
    assert (method.original is not None) == is_kept
