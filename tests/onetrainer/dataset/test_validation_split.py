"""Which pictures are held out: by what they are called, whatever else there is."""

import shutil

import pytest
from PIL import Image

from onetrainer.dataset.dataset import read_dataset, share_count
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve


def config(root, /, *, deep=False, **validation):
    data = {"folder": str(root), "resolution": 64, "include_subfolders": deep}
    return resolve({"data": data, "validation": {"use": True, **validation}}, source="")


def pictures(folder, names):
    for name in names:
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64)).save(path)
        path.with_suffix(".txt").write_text(name)
    return folder


def held(made):
    found = read_dataset(made)
    return {found.name_of(item) for item in found.held_out}


def learnt(made):
    return {item.path.name for item in read_dataset(made).items}


@pytest.fixture(scope="module")
def forty(tmp_path_factory):
    return pictures(tmp_path_factory.mktemp("forty"), [f"{n}" for n in range(40)])


def test_without_validation_every_picture_is_learnt(forty):
    found = read_dataset(config(forty, use=False))
    assert found.held_out is None
    assert len(found.items) == 40


@pytest.mark.parametrize(("share", "count"), [(0, 1), (0.01, 1), (0.1, 4), (0.26, 10), (0.5, 20)])
def test_the_share_is_held_out_and_the_rest_is_learnt(forty, share, count):
    made = config(forty, share=share)
    assert len(held(made)) == count
    assert held(made).isdisjoint(learnt(made))
    assert len(held(made) | learnt(made)) == 40


def test_no_more_is_held_out_of_a_share_than_is_measured(forty):
    few, many = config(forty, share=0.5, most_pictures=3), config(forty, share=0.5)
    assert held(few) < held(many)
    assert (len(held(few)), len(learnt(few))) == (3, 37)


@pytest.mark.parametrize(("pictures", "count"), [(1, 1), (2, 1), (3, 1), (5, 2), (7, 3), (8, 4)])
def test_never_more_than_half_is_held_out(pictures, count):
    """Half of 3 or 7 rounds up."""
    assert share_count(config(".", share=0.5).validation, pictures) == count


def test_another_seed_holds_out_others_and_the_same_seed_the_same(forty, tmp_path):
    elsewhere = shutil.copytree(forty, tmp_path / "elsewhere")
    assert held(config(elsewhere, share=0.2)) == held(config(forty, share=0.2))
    assert held(config(forty, share=0.2, seed=1)) != held(config(forty, share=0.2))


def test_another_picture_moves_at_most_one_to_the_other_side(tmp_path):
    before = held(config(pictures(tmp_path, ["0", "1"]), share=0.3))
    moved = []
    for number in range(2, 30):
        made = config(pictures(tmp_path, [f"{number}"]), share=0.3)
        after = held(made)
        moved.append(len((before ^ after) - {f"{number}.png"}))
        before = after
    assert max(moved) == 1
    assert moved.count(0) > len(moved) / 2


def test_a_folder_of_its_own_is_held_out_with_its_groups(forty, tmp_path):
    apart = pictures(tmp_path, ["a", "cats/b", "cats/black/c"])
    made = config(forty, deep=True, folder=str(apart))
    groups = {item.path.stem: item.group for item in read_dataset(made).held_out}
    assert groups == {"a": "", "b": "cats", "c": "cats/black"}
    assert held(made) == {"a.png", "cats/b.png", "cats/black/c.png"}
    assert len(learnt(made)) == 40


def test_a_held_out_folder_within_the_pictures_is_not_learnt(tmp_path):
    root = pictures(tmp_path, ["a", "b", "apart/c"])
    made = config(root, deep=True, folder=str(root / "apart"))
    assert learnt(made) == {"a.png", "b.png"}
    assert held(made) == {"c.png"}


def test_of_a_large_folder_some_are_measured_and_none_is_learnt(forty, tmp_path):
    pictures(tmp_path, ["extra"])
    shutil.copytree(forty, tmp_path / "apart")
    made = config(tmp_path, deep=True, folder=str(tmp_path / "apart"), most_pictures=5)
    assert len(held(made)) == 5
    assert learnt(made) == {"extra.png"}


@pytest.mark.parametrize("names", [["only"], ["one", "two"]])
def test_nothing_left_to_learn_is_told(tmp_path, names):
    pictures(tmp_path, names)
    folder = str(tmp_path) if len(names) > 1 else ""
    with pytest.raises(UserError, match="none is left to learn"):
        read_dataset(config(tmp_path, folder=folder))


def test_one_of_two_pictures_may_be_held_out(tmp_path):
    made = config(pictures(tmp_path, ["one", "two"]))
    assert (len(held(made)), len(learnt(made))) == (1, 1)


def test_a_held_out_file_is_not_learned_by_a_link_beside_it(tmp_path):
    pictures(tmp_path, map(str, range(8)))
    for number in range(8):
        (tmp_path / f"link {number}.png").symlink_to(tmp_path / f"{number}.png")
    found = read_dataset(config(tmp_path, share=0.3, keep_similar=False))
    learned, apart = (
        {each.path.resolve() for each in some} for some in (found.items, found.held_out)
    )
    assert len(learned) + len(apart) == 8
    assert learned.isdisjoint(apart)


def held_of(folders, **validation):
    """By folder, the pictures that a fifth of folders holds out."""
    concepts = [{"folder": str(folder)} for folder in folders]
    validation = {"use": True, "share": 0.2, **validation}
    made = resolve({"data": {"concepts": concepts}, "validation": validation}, source="")
    found = {folder: set() for folder in folders}
    for item in read_dataset(made).held_out:
        found[item.path.parent].add(item.name)
    return [*found.values()]


@pytest.mark.parametrize("name", ["{}", "{}/images"])
def test_folders_with_pictures_of_the_same_names_hold_out_different_ones(tmp_path, name):
    ten = [pictures(tmp_path / name.format(n), map(str, range(5))) for n in range(10)]
    held = held_of(ten)
    assert sum(map(len, held)) == 10
    assert len(set().union(*held)) > 2
    by_names = held_of(ten, turns="names")
    assert len({*map(frozenset, by_names)}) == 1


def test_what_folders_hold_out_does_not_depend_on_where_they_are(tmp_path):
    five = [pictures(tmp_path / "a" / f"{n}", map(str, range(5))) for n in range(5)]
    shutil.copytree(tmp_path / "a", tmp_path / "b" / "c")
    moved = [tmp_path / "b" / "c" / folder.name for folder in five]
    assert held_of(moved[::-1]) == held_of(five)[::-1]


def test_problems_of_the_held_out_folder_are_told(forty, tmp_path):
    pictures(tmp_path, ["a"])
    (tmp_path / "broken.png").write_bytes(b"nothing")
    found = read_dataset(config(forty, folder=str(tmp_path)))
    assert [one.path for one in found.skipped] == [tmp_path / "broken.png"]
