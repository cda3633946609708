"""Very many items take little memory, and are the same when they are asked for."""

import pickle
import tracemalloc
from pathlib import Path

from onetrainer.captions.texts import Texts
from onetrainer.dataset.item_table import ItemTable, Paths, in_few_bytes
from onetrainer.dataset.items import Item

MOST_BYTES = 130
"""Of an item with the name and caption of `many`: these take 100 of them."""


def many(count):
    """Items as of a folder with two subfolders."""
    return [
        Item(
            Path(f"/home/me/pictures/set {n % 2}/image {n}.png"),
            (f"image {n}, a red thing on a table, watercolor, best quality, highly detailed",),
            512,
            768,
            group=f"set {n % 2}",
            name=f"set {n % 2}/image {n}.png",
        )
        for n in range(count)
    ]


def test_items_are_what_they_were_also_odd_ones():
    folder = Path("/a/ü b")
    path = folder / "1.png"
    items = [
        *many(3),
        Item(path, ("one", "", "ünö\ntwo"), 1, 2, path, None, "prior", 3, "", "1.png"),
        Item(
            folder / "u\u0308.png",  # as some systems spell it
            ("",),
            70_000,
            16,
            Path("/masks/ü.png"),
            folder / "2-condlabel.png",
            concept=1,
            group="x/y",
            name="x/y/ü.png",
            focus=(0.25, 0.5),
        ),
        Item(Path("relative/\udcff.png"), ("a\udcff",), 20, 20, name="\udcff.png"),
    ]
    table = pickle.loads(pickle.dumps(ItemTable(items)))
    assert list(table) == items and len(table) == 6
    assert (table[-1], table[1:3]) == (items[-1], tuple(items[1:3]))
    assert [table.captions(index) for index in range(6)] == [item.captions for item in items]
    paths = Paths([path, None, Path("b")])
    assert [paths[index] for index in range(3)] == [path, None, Path("b")]
    texts = Texts(["ab", "", "b", "", "xab", "ab", ""])
    assert [[*texts.indices_of(text)] for text in ("ab", "b", "a")] == [[0, 5], [2], []]
    assert texts == Texts(["ab", "", "b", "", "xab", "ab", ""]) and Texts(["a"]) == Texts(["a"])
    assert texts != Texts(["a", "b", "b", "", "xab", "ab", ""])  # the same letters
    assert paths == Paths([path, None, Path("b")]) != Paths([path, None, Path("c/b")])
    nowhere = Paths([None, None])
    assert (nowhere[0], nowhere[1]) == (None, None) and list(nowhere.names.indices_of("b")) == []
    for largest in (255, 256, 65_535, 65_536):
        assert list(in_few_bytes([0, largest])) == [0, largest]
    assert len(Texts([])) == len(ItemTable([])) == 0


def test_an_item_takes_little_more_than_its_name_and_caption():
    tracemalloc.start()
    try:
        items = many(10_000)
        assert all(str(item.path).endswith(item.path.name) for item in items)  # which paths keep
        before = tracemalloc.get_traced_memory()[0]
        table = ItemTable(items)
        taken = (tracemalloc.get_traced_memory()[0] - before) / len(table)
        tracemalloc.reset_peak()
        assert table[5000] == items[5000]
    finally:
        tracemalloc.stop()
    assert taken < MOST_BYTES
