"""Files that may be meant as captions are named before a run trains without them."""

import pytest

from onetrainer.captions.missed_captions import missed_captions
from onetrainer.checks.dataset import check_images
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.config.data.data import Data
from onetrainer.config.train import TrainConfig
from tests.onetrainer.generated_images import leaves


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b", "c"):
        leaves(0, 32).save(tmp_path / f"{name}.png")
    return tmp_path


def missed(folder):
    return missed_captions(list_folder(folder, recursive=False).images)


def test_caption_files_of_kohyas_trainer_are_read_unless_there_is_a_text_file(folder):
    for name in ("a.caption", "b.caption", "b.txt", "d.caption"):
        (folder / name).touch()
    listing = list_folder(folder, recursive=False)
    assert [image.caption and image.caption.name for image in listing.images] == [
        "a.caption",
        "b.txt",
        None,
    ]
    assert [path.name for path in listing.captions] == ["d.caption"]


def test_files_that_may_be_captions_are_named_and_others_are_not(folder):
    for name in ("a.npz", "a-masklabel.png", "notes.md", "b.txt", "b.tags"):
        (folder / name).touch()
    assert missed(folder) == ""
    (folder / "metadata.jsonl").touch()
    assert missed(folder).startswith("metadata.jsonl may be meant")
    (folder / "a.tags").touch()
    (folder / "c.png.txt").touch()
    assert (
        missed(folder)
        == "a.tags, c.png.txt may be meant, but only .txt and .caption files are read"
    )


def test_check_names_them_whether_all_captions_are_missing_or_some(folder):
    (folder / "a.tags").touch()
    config = TrainConfig(data=Data(folder=str(folder)))
    for severity in ("error", "warning"):
        problem = next(p for p in check_images(config) if "caption" in p.what)
        assert problem.severity == severity
        assert "a.tags may be meant" in str(problem)
        (folder / "b.txt").write_text("b")
