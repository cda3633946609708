"""Where masks may be written: never in place of an image."""

from onetrainer.concepts.mask_folder import RealPaths


def test_an_image_is_met_by_links_and_in_other_case(tmp_path):
    """Windows and macOS take x.png and X.png for one file."""
    images = tmp_path / "images"
    images.mkdir()
    (tmp_path / "link").symlink_to(images)
    sources = RealPaths([images / "X.png"])
    assert images / "X.png" in sources
    assert tmp_path / "link" / "x.PNG" in sources
    assert images / "y.png" not in sources
    assert tmp_path / "X.png" not in sources
