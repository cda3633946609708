"""The table of images: of thousands it builds those that are visible."""

from PIL import Image

from tests.ui.pumping import pump_until, resize
from ui.background.image_cache import ImageCache
from ui.widgets.image_stage import ImageStage, Staged
from ui.widgets.image_table import Cell, Head, ImageTable, TableLook


def test_of_5000_images_the_visible_ones_are_built_wherever_it_is_scrolled(root, widgets, tmp_path):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    table = ImageTable(
        widgets, root, ImageCache(widgets.jobs), lambda *_: None, TableLook("t", 84, 6, 20)
    )
    resize(root, 500, 400)
    table.outer.pack(fill="both", expand=True)
    root.update()
    asked = []

    def cell(row, column):
        asked.append((row, column))
        return Cell(tmp_path / "a.png")

    rows, columns = [Head(str(n)) for n in range(10)], [Head(str(n)) for n in range(500)]
    table.show(rows, columns, cell, (0, 499))
    root.update()
    assert {column for _, column in asked} <= set(range(490, 500))
    for place in range(21):
        asked.clear()
        table._xview("moveto", str(place / 20))
        root.update()
        widgets.jobs.deliver()
        assert 0 < len(asked) <= 7 * 5 * 2  # twice: an image may have come meanwhile
        assert len(table.canvas.find_all()) < 100
    pump_until(root, lambda: (widgets.jobs.deliver(), len(table._images._cache) == 1)[1])


def test_two_images_are_wiped_zoomed_and_moved_alike(root, widgets, tmp_path):
    for name, color, size in (("a", "red", 200), ("b", "blue", 400)):
        Image.new("RGB", (size, size), color).save(tmp_path / f"{name}.png")
    shown = []
    stage = ImageStage(
        widgets,
        root,
        ImageCache(widgets.jobs),
        name="stage",
        shown=lambda: shown.append(1),
        held=lambda _: None,
    )
    resize(root, 400, 300)
    stage.canvas.pack(fill="both", expand=True)
    root.update()

    def colors(*points):
        """What is painted at some points."""
        pump_until(root, lambda: (widgets.jobs.deliver(), shown)[1])
        root.update()
        return [stage._photo._PhotoImage__photo.get(x, y) for x, y in points]

    two = [Staged(tmp_path / f"{name}.png", name) for name in "ab"]
    red, blue = (255, 0, 0), (0, 0, 255)
    stage.show(two, "wipe")
    assert colors((150, 150), (250, 150)) == [red, blue]
    stage.canvas.event_generate("<ButtonPress-1>", x=100, y=150)
    stage.canvas.event_generate("<B1-Motion>", x=300, y=150)
    stage.canvas.event_generate("<ButtonRelease-1>", x=300, y=150)
    assert stage.split == 0.75
    assert colors((150, 150), (250, 150)) == [red, red]
    shown.clear()
    stage.show(two, "beside")
    assert colors((100, 150), (300, 150)) == [red, blue]
    stage.zoom(4, (0.0, 0.0))
    shown.clear()
    stage.draw()
    assert colors((5, 5), (395, 295)) == [red, blue]  # both fill their rooms
    before = stage.sight
    stage._move(1, 1)
    assert stage.sight.x > before.x and stage.sight.y > before.y
