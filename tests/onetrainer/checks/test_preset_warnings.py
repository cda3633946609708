"""What comes with the program is told nothing about when it is begun with."""

import pytest

from onetrainer.checks.preflight import document_problems
from onetrainer.presets.presets import BUILT_IN, find_presets, load_document, value_at, with_value
from tests import tiny
from tests.each import each

PRESETS = [preset for preset in find_presets() if preset.path.is_relative_to(BUILT_IN)]


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """A tiny model and images for each family."""
    made = {}
    for family in {value_at(load_document(preset.path), "model.family") for preset in PRESETS}:
        name = family or "sd15"
        folder = made[family] = tmp_path_factory.mktemp(name)
        tiny.write_folder(folder / "base", name=name)
        captions = ("<my-token> on grass", "a photo of <my-token>")
        tiny.write_images(folder / "pictures", captions)
    return made


@each("preset", PRESETS, ids=lambda preset: preset.name)
def test_built_in_presets_start_without_a_word(projects, preset):
    document = load_document(preset.path)
    folder = projects[value_at(document, "model.family")]
    document = with_value(document, "model.path", str(folder / "base"))
    document = with_value(document, "data.folder", str(folder / "pictures"))
    document = with_value(document, "output.folder", str(folder / "runs"))
    assert list(map(str, document_problems(document, source="")[1])) == []
