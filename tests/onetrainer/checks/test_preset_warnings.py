"""What comes with the program starts without a warning."""

import shutil

from PIL import Image

from onetrainer.checks.preflight import document_problems
from onetrainer.presets.find import BUILT_IN, find_presets
from onetrainer.presets.presets import (
    load_document,
    resolve,
    value_at,
    with_value,
)
from onetrainer.rules.rules import check_rules
from tests import tiny

PRESETS = [preset for preset in find_presets() if preset.path.is_relative_to(BUILT_IN)]


def test_built_in_presets_start_without_a_warning(tmp_path):
    """Those of one family with a model and images, the others as far as the rules say."""
    tiny.write_folder(tmp_path / "base")
    tiny.write_images(tmp_path / "images", ("<my-token> on grass", "a photo of <my-token>"))
    tiny.write_images(tmp_path / "many", [f"a photo of {number}" for number in range(20)])
    shutil.copytree(tmp_path / "images", tmp_path / "masked")
    for number in (0, 1):
        Image.linear_gradient("L").save(tmp_path / f"masked/picture-{number}-masklabel.png")
    for preset in PRESETS:
        document = with_value(load_document(preset.path), "model.path", str(tmp_path / "base"))
        images = "masked" if value_at(document, "data.masks") else "images"
        images = "many" if value_at(document, "validation.use") else images
        document = with_value(document, "data.folder", str(tmp_path / images))
        document = with_value(document, "output.folder", str(tmp_path / "runs"))
        if value_at(document, "model.family") in ("sd15", None):
            problems = document_problems(document, source="")[1]
        else:
            problems = check_rules(resolve(document, source=""))
        assert list(map(str, problems)) == [], preset.name
