from onetrainer.edits.saving import Change, read_content
from ui.editing.mask_painting import IGNORED, MaskPainting
from ui.editing.open_mask import OpenMask


def test_a_mask_is_known_while_its_file_holds_what_was_read_or_saved_last(tmp_path):
    path, mask = tmp_path / "a-masklabel.png", OpenMask()
    assert not mask.is_known(path, read_content)
    mask.open(path)
    mask.take(None, MaskPainting(path, (8, 8), None))
    assert mask.is_known(path, read_content) and not mask.has_file and mask.saving() is None
    mask.painting.fill_all(IGNORED)
    change = mask.saving()()
    assert (change.path, change.before) == (path, None) and mask.saving() is None
    assert not mask.is_known(path, read_content)
    path.write_bytes(change.after)
    assert mask.is_known(path, read_content) and mask.painting.can_undo
    assert not mask.is_known(path.with_name("b-masklabel.png"), read_content)
    assert mask.removing()() == Change(path, change.after, None)
    assert mask.removing() is None and not mask.is_known(path, read_content)
