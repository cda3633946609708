"""The page Images in a window: captions, tags and masks, by pointer and keys."""

import pytest
from PIL import Image

from onetrainer.concepts.folder_listing import list_folder


def images_of(desk):
    return desk.state["images"]


def wait(desk, **wanted):
    desk.wait(
        lambda: {key: images_of(desk)[key] for key in wanted} == wanted, f"the page with {wanted}"
    )


def choose(desk, name, way):
    """Chooses in a combo box by keys: opens the list, goes some lines down or up, takes one."""
    desk.click(name)
    desk.wait(lambda: desk.state["focus"] == "None", "the list")
    desk.key(*(["Down"] * way if way > 0 else ["Up"] * -way), "Return")
    desk.wait(lambda: desk.state["focus"] != "None", "the end of the list")


@pytest.fixture
def folder(project):
    """Twelve images of which one has two captions and one has none, and a broken one."""
    folder = project.parent / "pictures"
    (folder / "paper-02.txt").write_text("a red thing, watercolor, star\nsecond\n")
    (folder / "paper-03.txt").unlink()
    (folder / "broken.png").write_bytes(b"no image")
    return folder


@pytest.fixture
def desk(begin, project, folder):
    desk = begin(project)
    desk.key("shift+F6")
    desk.wait_state(page="images")
    wait(desk, is_read=True, count="13 images", name="broken.png")
    return desk


def test_captions_are_edited_saved_undone_and_changed_in_batches(desk, folder):
    edit_one(desk, folder)
    change_tags(desk, folder)
    replace_text(desk, folder)


def edit_one(desk, folder):
    """Types, undoes by keys, saves by going on, and takes back from the history."""
    desk.wait(lambda: "Not used: not a PNG" in images_of(desk)["about"], "why it is not used")
    desk.key("Right")
    wait(desk, name="paper-00.png", tokens="Text encoder: 5 of 75 tokens")
    desk.click("caption")
    desk.key("ctrl+End")
    desk.type(", new")
    wait(desk, caption="a paper thing, watercolor, new", tokens="Text encoder: 7 of 75 tokens")
    desk.key("ctrl+z")
    wait(desk, caption="a paper thing, watercolor")
    desk.type(", mine")
    desk.click("images")
    desk.wait(lambda: (folder / "paper-00.txt").read_text().endswith(", mine"), "the saving")
    wait(desk, undo="Save paper-00.txt")
    desk.key("ctrl+z")
    wait(desk, undo="", redo="Take back: Save paper-00.txt")
    assert (folder / "paper-00.txt").read_text() == "a paper thing, watercolor"
    resize_while_typing(desk, folder)


def resize_while_typing(desk, folder):
    """Saves by the key that saves presets elsewhere, and goes on with all at another size."""
    half = {"find text": "re", "replacement": "blu", "tag text": "fre"}
    desk.key("ctrl+space", "Right", "ctrl+space", "Left")
    wait(desk, marked=["paper-09.png", "paper-10.png"])
    for tab, *names in (("replace", "find text", "replacement"), ("tags", "tag text")):
        desk.click(f"images {tab}")
        for name in names:
            desk.replace(name, half[name])
    desk.click("images caption")
    desk.click("caption")
    desk.key("ctrl+End")
    desk.type(", half")
    desk.key("ctrl+s")
    saved = folder / "paper-09.txt"
    desk.wait(lambda: saved.read_text().endswith(", half"), "the caption by the preset's key")
    desk.key("Left", "Left")
    desk.key("ctrl+minus")
    desk.wait_state(resizing=False, scale=0.9, focus="caption")
    desk.type("-")
    wait(desk, is_read=True, name="paper-09.png", caption="a paper thing, watercolor, ha-lf")
    desk.key("ctrl+a")
    desk.type("a paper thing, watercolor")
    desk.key("ctrl+s", "ctrl+plus")
    desk.wait_state(resizing=False, scale=1.0, focus="caption")
    assert saved.read_text() == "a paper thing, watercolor"
    desk.click("images replace")
    wait(desk, is_read=True, scope="Applies to 2 marked images.")
    desk.click("images tags")
    assert {name: desk.widget(name)["text"] for name in half} == half
    desk.key("Escape")
    wait(desk, marked=[])


def change_tags(desk, folder):
    """Adds a tag to all that is shown."""
    desk.click("images tags")
    rare = ["a red thing: 1", "at dusk: 1", "second: 1", "star: 1"]
    wait(desk, tags=["watercolor: 11", "a paper thing: 10", *rare])
    desk.replace("tag text", "fresh")
    desk.click("add tag first")
    desk.wait_question("answer write")
    desk.key("Return")
    desk.wait_end_of_question("answer write")
    desk.wait(lambda: (folder / "paper-03.txt").exists(), "captions where there were none")
    assert (
        folder / "paper-02.txt"
    ).read_text() == "fresh, a red thing, watercolor, star\nfresh, second\n"
    assert (folder / "paper-03.txt").read_text() == "fresh\n"
    wait(desk, undo="Add “fresh”")
    desk.click("undo saving")
    desk.wait(lambda: not (folder / "paper-03.txt").exists(), "the undoing")
    desk.wait_state(message="Undone: Add “fresh” (13 files).")
    wait(desk, redo="Take back: Add “fresh”")
    choose(desk, "filter images", 1)
    wait(desk, shown=["broken.png", "paper-03.png"], count="2 images of 13")


def replace_text(desk, folder):
    """Replaces what another program writes meanwhile, leaves while typing, and comes back."""
    choose(desk, "filter images", -1)
    wait(desk, count="13 images")
    desk.replace("find images", "red")
    wait(desk, shown=["paper-02.png"])
    desk.click("images replace")
    desk.replace("find text", "red")
    desk.replace("replacement", "blue")
    desk.click("replace")
    desk.wait_question("answer write")
    (folder / "paper-02.txt").write_text("theirs")
    desk.key("Return")
    desk.wait_question("answer mine")
    desk.key("Escape")
    desk.wait_end_of_question("answer mine")
    assert (folder / "paper-02.txt").read_text() == "theirs"
    desk.replace("find images", "")
    desk.key("BackSpace")
    wait(desk, count="13 images", name="paper-02.png")
    desk.click("images caption")
    wait(desk, caption="theirs")

    desk.click("caption")
    desk.key("ctrl+a")
    desk.type("last words")
    desk.page("data")
    desk.wait(lambda: (folder / "paper-02.txt").read_text() == "last words", "the saving")
    desk.rest()  # it has seen that this was its own

    Image.new("RGB", (96, 96)).save(folder / "new.png")
    desk.page("images")
    wait(desk, count="14 images", name="paper-02.png", caption="last words")


def test_a_mask_is_painted_and_undone_and_the_image_stays(desk, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    desk.key("Right")
    wait(desk, name="paper-00.png")
    desk.click("paint mask")
    desk.wait(lambda: images_of(desk)["ready"], "the image")
    desk.key("ctrl+minus")
    desk.wait_state(resizing=False, scale=0.9, focus="mask")
    wait(desk, name="paper-00.png", ready=True)
    assert "Masks are turned off" in images_of(desk)["mask"]
    place = desk.widget("mask")
    x, y = place["x"] + place["width"] // 2, place["y"] + place["height"] // 2
    desk.drag((x - 30, y), (x + 30, y), lambda: images_of(desk)["is_stroking"])
    desk.let_go()
    wait(desk, is_painted=True)
    desk.key("bracketright", "ctrl+plus")  # which saves it
    desk.wait_state(resizing=False, scale=1.0, focus="mask")
    wait(desk, ready=True, is_painted=False)
    assert desk.widget("mask size")["text"] == "5"
    desk.click("mask")  # the middle of it
    desk.key("ctrl+z", "ctrl+z")
    wait(desk, is_painted=True)
    desk.key("ctrl+y")
    wait(desk, is_painted=False)
    desk.key("Escape")
    mask = folder / "paper-00-masklabel.png"
    desk.wait(mask.exists, "the mask")
    with Image.open(mask) as painted:
        assert painted.size == (96, 96) and painted.mode == "L"
        assert painted.getpixel((48, 48)) == 0 and painted.getpixel((48, 5)) == 255
    assert {image.mask for image in list_folder(folder, recursive=False).images} == {None, mask}
    wait(desk, mask="", undo="Save paper-00-masklabel.png")
    desk.click("paint mask")
    desk.wait(lambda: desk.widget("mask remove")["enabled"], "the mask again")
    desk.click("mask remove")
    desk.wait(lambda: not mask.exists(), "the mask away")
    desk.wait(lambda: images_of(desk)["ready"], "the same image at the same size")
    desk.key("Escape")
    desk.click("undo saving")
    desk.wait(mask.exists, "the mask back")
    assert {path: path.read_bytes() for path in before} == before
    desk.click("undo saving")
    desk.wait(lambda: not mask.exists(), "the undoing")
