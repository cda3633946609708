"""What a conversion tells a person."""

import pytest

from onetrainer.errors import UserError


@pytest.mark.parametrize(
    ("family", "added"), [("sd15", 0), ("sd2", 14), ("sdxl", 1)], ids=["sd15", "sd2", "sdxl"]
)
def test_what_single_files_have_besides_is_told_in_words(tmp_path, folders, run, family, added):
    notes = run(folders[family, "epsilon"], tmp_path / "one.safetensors")
    told = [note for note in notes if note.startswith("Added")]
    assert [int(note.split()[1]) for note in told] == [added] * bool(added)
    assert all("the model's weights are unchanged" in note for note in told)
    notes += run(tmp_path / "one.safetensors", tmp_path / "folder", prediction="epsilon")
    notes += run(tmp_path / "folder", tmp_path / "again.safetensors")
    assert "position_ids" not in " ".join(notes)
    assert "Made up" not in " ".join(notes)


def test_what_has_no_vae_is_told_for_what_it_is(tmp_path, folders, run):
    source = folders["sd15", "epsilon"]
    with pytest.raises(UserError, match="this is a UNet alone"):
        run(source, tmp_path / "one.safetensors", vae=str(source / "unet"))
