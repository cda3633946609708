"""What the page of captioning knows of how its folder is trained, and of what was found."""

from PIL import Image

from onetrainer.captioning.results import JobFolder, Result, stamp_of
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.jobs.caption_request import CaptionRequest, CaptionWriting
from ui.model.captioning import mask_folder_of, review, trained_as, unread_note
from ui.model.draft import Draft


def test_what_training_would_not_read_is_said_and_masks_go_to_its_folder(tmp_path):
    draft = Draft()
    (tmp_path / "link").symlink_to(tmp_path)
    draft.set("data.folder", str(tmp_path / "link"))
    draft.set("data.masks", "files")
    draft.set("data.mask_folder", str(tmp_path / "masks"))

    def concept(images: str = str(tmp_path)) -> ConceptSettings | None:
        return trained_as(draft.section_alone("data"), images)

    assert mask_folder_of(concept()) == str(tmp_path / "masks")
    assert unread_note(concept(), "tagger") == unread_note(concept(), "background") == ""
    for images in ("", str(tmp_path / "another")):
        assert concept(images) is None
    draft.set("data.caption_source", "names")
    draft.set("data.masks", "alpha")
    assert "“file names”" in unread_note(concept(), "tagger")
    assert "“transparency”" in unread_note(concept(), "background")
    assert mask_folder_of(concept()) == ""
    draft.set("data.masks", "off")
    assert "turned off" in unread_note(concept(), "clipseg")
    assert unread_note(None, "tagger") == mask_folder_of(None) == ""


class AtWork(JobFolder):
    """A job whose model describes another image each time that the images are listed."""

    def listed(self):
        found = super().listed()
        image = found[len(self.read())]
        with self.adding() as results:
            results.add([Result(image.name, stamp_of(image.path), f"found in {image.name}")])
        return found


def test_what_a_model_finds_while_it_is_reviewed_is_reviewed(home, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for name in "abc":
        Image.new("RGB", (8, 8)).save(images / f"{name}.png")
    job = AtWork(CaptionRequest(images=str(images), model="model"))
    found = review(job, CaptionWriting())
    assert [row.text for row in found.rows] == ["found in a.png"]
