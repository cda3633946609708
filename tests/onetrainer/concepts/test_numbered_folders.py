"""Folders named "10_sks dog", as kohya's trainer reads them."""

import json

import pytest

from onetrainer.__main__ import main
from onetrainer.checks.dataset import check_images
from onetrainer.concepts.numbered_folders import numbered_concepts
from onetrainer.config.data.data import Data
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.dataset import used_concepts
from onetrainer.dataset.items import index_concept
from onetrainer.errors import Offer
from tests.onetrainer.generated_images import leaves


def images(folder, count, *, captions=0, ending=".txt"):
    folder.mkdir(parents=True)
    for number in range(count):
        leaves(number, 32).save(folder / f"{number}.png")
        if number < captions:
            (folder / f"{number}{ending}").write_text("a photo")


@pytest.fixture
def root(tmp_path):
    """Training images without, with and with some captions; class images; kohya's other folders."""
    root = tmp_path / "project"
    images(root / "img" / "10_sks dog", 2)
    images(root / "img" / "5_ohwx_cat", 3, captions=3, ending=".caption")
    images(root / "img" / "2_a hat", 2, captions=1)
    images(root / "reg" / "1_dog", 4)
    images(root / "reg" / "2_cat", 1, captions=1)
    (root / "log").mkdir()
    return root


def test_captions_and_counts_are_those_of_kohyas_trainer(root):
    config = TrainConfig(data=Data(concepts=numbered_concepts(root)))
    found = {}
    for concept in used_concepts(config):
        items = index_concept(concept).items
        texts = {item.caption or concept.trigger for item in items}
        amount = concept.images or concept.repeats * len(items)
        found[concept.name] = (concept.role, float(amount), texts, concept.trigger)
    assert found == {  # class images: 2 · 10 + 3 · 5 + 2 · 2 = 39, divided as 4 : 2
        "a hat": ("train", 4.0, {"a photo", "a hat"}, "a hat"),
        "ohwx_cat": ("train", 15.0, {"a photo"}, ""),
        "sks dog": ("train", 20.0, {"sks dog"}, "sks dog"),
        "dog": ("prior", 26.0, {"dog"}, ""),
        "cat": ("prior", 13.0, {"a photo"}, ""),
    }


def test_nothing_is_offered_where_images_would_be_lost_or_names_mean_something_else(tmp_path):
    for number, names in enumerate(
        [["10_a", "other"], ["2023_a"], ["01_a"], ["10_"], ["10_a", ""]]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in filter(None, names):
            images(folder / name, 1)
        if "" in names:  # an image in the folder itself
            leaves(0, 32).save(folder / "own.png")
        assert numbered_concepts(folder) == (), names
    assert numbered_concepts(tmp_path / "missing") == ()


def test_check_offers_concepts_in_place_of_the_folder(root):
    known = Data(folder=str(root / "img"), concepts=({"folder": str(root / "reg" / "1_dog")},))
    problem = next(p for p in check_images(TrainConfig(data=known)) if isinstance(p.fix, Offer))
    assert (problem.path, problem.severity) == ("data.folder", "warning")
    assert problem.fix.label == "Make 3 concepts from these folders"
    assert [entry["name"] for entry in problem.fix.value] == ["", "a hat", "ohwx_cat", "sks dog"]
    assert [(one.path, one.value) for one in problem.fix.also] == [("data.folder", "")]
    inner = Data(concepts=({"folder": str(root / "img")}, {"folder": str(root / "reg" / "1_dog")}))
    problem = next(p for p in check_images(TrainConfig(data=inner)) if isinstance(p.fix, Offer))
    assert [entry["repeats"] for entry in problem.fix.value] == [2.0, 5.0, 10.0, 1.0]
    assert problem.fix.also == ()


def test_command_writes_a_config_that_trains_them(root, tmp_path, capsys):
    base, out = tmp_path / "base.json", tmp_path / "data.json"
    base.write_text(json.dumps({"training": {"steps": 7}, "data": {"folder": "elsewhere"}}))
    assert main(["check-data", str(root / "img"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [one["kind"] for one in found if "concepts" in one["remedy"]] == ["repeats"]
    assert main(["concepts", str(root), "--extends", str(base), "--out", str(out)]) == 0
    assert main(["diff", str(base), str(out)]) == 0
    printed = capsys.readouterr().out
    assert "data.folder" in printed
    assert "data.concepts" in printed
    assert "training.steps" not in printed
    assert main(["concepts", str(root), "--out", str(out)]) == 2
    assert main(["concepts", str(root / "log")]) == 2
    assert 'named like "10_sks dog"' in capsys.readouterr().err
