"""What the page of captioning knows of how its folder is trained."""

from onetrainer.concepts.concepts import ConceptSettings
from ui.model.captioning import mask_folder_of, trained_as, unread_note
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
