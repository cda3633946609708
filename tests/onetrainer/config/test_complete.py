"""A document is completed as its config has it, which pydantic fills and writes."""

from onetrainer import ROOT
from onetrainer.config.base.variants import KIND, variant_paths, variants
from onetrainer.config.complete import completed
from onetrainer.config.train import TrainConfig
from onetrainer.presets import presets

# The section around one of these exists in one of its variants only.
AROUND = {"objective.algorithm": presets.with_value({}, "objective.kind", "alignprop")}


def documents():
    """Every variant of every section with its defaults, then every shipped config."""
    for path, field in variant_paths(TrainConfig):
        for name in variants(field):
            yield presets.with_value(AROUND.get(path, {}), f"{path}.{KIND}", name)
    configs = ROOT / "configs"
    for path in (*(configs / "presets").rglob("*.json"), *(configs / "demo").glob("*.json")):
        yield presets.load_document(path)


def test_a_completed_document_is_the_dump_of_its_config():
    found = list(documents())
    assert len(found) > 100
    for document in found:
        whole = presets.resolve(document, source="").model_dump(mode="json")
        assert completed(document) == whole
        assert [*completed(document)] == [*whole]


def test_wrong_values_stay_and_what_is_no_setting_is_left_out():
    document = {
        "description": "words",
        "training": {"steps": "many", "stepz": 1},
        "data": 7,
        "method": {"kind": "magic", "rank": 3},
        "sampling": {"prompts": [{"prompt": "a cat"}, 5]},
    }
    made, plain = completed(document), completed({})
    assert made.keys() == plain.keys()
    assert made["training"] == plain["training"] | {"steps": "many"}
    assert made["data"] == plain["data"]
    assert (made["method"]["kind"], made["method"]["rank"]) == ("magic", 3)
    first, second = made["sampling"]["prompts"]
    assert (first["prompt"], second) == ("a cat", 5) and len(first) > 5
