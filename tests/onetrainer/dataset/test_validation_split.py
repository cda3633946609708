"""The validation split: chosen by the images' names alone."""

import shutil
from types import SimpleNamespace

import pytest
from PIL import Image

from onetrainer.dataset.dataset import read_dataset, select_validation, validation_count
from onetrainer.dataset.items import Item
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve
from tests.each import each


def config(root, /, *, deep=False, **validation):
    data = {"folder": str(root), "resolution": 64, "include_subfolders": deep}
    return resolve({"data": data, "validation": {"use": True, **validation}}, source="")


def images(folder, names):
    for name in names:
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64)).save(path)
        path.with_suffix(".txt").write_text(name)
    return folder


def validation(made):
    found = read_dataset(made)
    return {found.name_of(item) for item in found.validation}


def trained(made):
    return {item.path.name for item in read_dataset(made).items}


@pytest.fixture(scope="module")
def forty(tmp_path_factory):
    return images(tmp_path_factory.mktemp("forty"), [f"{n}" for n in range(40)])


def test_without_validation_every_image_is_trained(forty):
    found = read_dataset(config(forty, use=False))
    assert found.validation is None
    assert len(found.items) == 40


@each(("split", "count"), [(0, 1), (0.01, 1), (0.1, 4), (0.26, 10), (0.5, 20)])
def test_the_split_is_validation_and_the_rest_is_trained(forty, split, count):
    made = config(forty, split=split, split_by="folders")
    assert len(validation(made)) == count
    assert validation(made).isdisjoint(trained(made))
    assert len(validation(made) | trained(made)) == 40


@each(("images", "count"), [(1, 1), (2, 1), (3, 1), (5, 2), (7, 3), (8, 4)])
def test_never_more_than_half_is_validation(images, count):
    """Half of 3 or 7 rounds up."""
    assert validation_count(config(".", split=0.5).validation, images) == count


def test_another_seed_holds_out_others_and_the_same_seed_the_same(forty, tmp_path):
    elsewhere = shutil.copytree(forty, tmp_path / "elsewhere")
    assert validation(config(elsewhere, split=0.2)) == validation(config(forty, split=0.2))
    assert validation(config(forty, split=0.2, seed=1)) != validation(config(forty, split=0.2))


def test_images_that_come_or_go_move_no_other_to_the_other_side(forty, tmp_path):
    before = validation(config(forty, split=0.3))
    images(tmp_path, [f"{number}" for number in (*range(5, 40), *range(50, 70))])
    after = validation(config(tmp_path, split=0.3))
    both = {f"{number}.png" for number in range(5, 40)}
    assert before & both == after & both
    assert before & both and after - both


def test_about_the_split_is_held_out_of_any_number_of_images_and_each_stays_on_its_side():
    section = config(".", split=0.1, max_images=50).validation
    concept, sides = SimpleNamespace(identity=""), []
    for count in (500, 501, 1000, 2000):
        items = [Item(None, ("",), 64, 64, name=f"{number}.png") for number in range(count)]
        held_out = select_validation(items, section, range(count), concepts=[concept])
        sides.append({item.name for item in held_out} & {f"{n}.png" for n in range(500)})
        assert 0.06 < len(held_out) / count < 0.14  # four deviations of 500
    assert sides == sides[:1] * 4


def test_a_near_duplicate_that_comes_never_takes_its_group_out_of_validation():
    section = config(".", split=0.3).validation
    concept = SimpleNamespace(identity="")
    for number in range(40):
        names = [f"{number}-{kind}.png" for kind in ("b", "a", *range(6))]
        items = [Item(None, ("",), 64, 64, name=name) for name in names]
        groups = [0, 0, *range(1, 7)]
        few, more = (
            {item.name for item in select_validation(some, section, of, concepts=[concept])}
            for some, of in ((items[1:], groups[1:]), (items, groups))
        )
        assert names[1] not in few or names[1] in more


def test_by_an_exact_number_another_image_moves_at_most_one_to_the_other_side(tmp_path):
    exact = {"split": 0.3, "split_by": "folders"}
    before = validation(config(images(tmp_path, ["0", "1"]), **exact))
    moved = []
    for number in range(2, 30):
        made = config(images(tmp_path, [f"{number}"]), **exact)
        after = validation(made)
        moved.append(len((before ^ after) - {f"{number}.png"}))
        before = after
    assert max(moved) == 1
    assert moved.count(0) > len(moved) / 2


def test_a_folder_of_its_own_is_validation_with_its_groups(forty, tmp_path):
    apart = images(tmp_path, ["a", "cats/b", "cats/black/c"])
    made = config(forty, deep=True, folder=str(apart))
    groups = {item.path.stem: item.group for item in read_dataset(made).validation}
    assert groups == {"a": "", "b": "cats", "c": "cats/black"}
    assert validation(made) == {"a.png", "cats/b.png", "cats/black/c.png"}
    assert len(trained(made)) == 40


def test_a_validation_folder_within_the_images_is_not_trained(tmp_path):
    root = images(tmp_path, ["a", "b", "apart/c"])
    made = config(root, deep=True, folder=str(root / "apart"))
    assert trained(made) == {"a.png", "b.png"}
    assert validation(made) == {"c.png"}


def test_of_a_large_folder_some_are_measured_and_none_is_trained(forty, tmp_path):
    images(tmp_path, ["extra"])
    shutil.copytree(forty, tmp_path / "apart")
    made = config(tmp_path, deep=True, folder=str(tmp_path / "apart"), max_images=5)
    assert len(validation(made)) == 5
    assert trained(made) == {"extra.png"}


@each("names", [["only"], ["one", "two"]])
def test_nothing_left_to_train_is_reported(tmp_path, names):
    images(tmp_path, names)
    folder = str(tmp_path) if len(names) > 1 else ""
    with pytest.raises(UserError, match="none is left for training"):
        read_dataset(config(tmp_path, folder=folder))


def test_a_validation_file_is_not_trained_by_a_link_next_to_it(tmp_path):
    images(tmp_path, map(str, range(8)))
    for number in range(8):
        (tmp_path / f"link {number}.png").symlink_to(tmp_path / f"{number}.png")
    found = read_dataset(config(tmp_path, split=0.3, keep_similar=False))
    trained, apart = (
        {each.path.resolve() for each in some} for some in (found.items, found.validation)
    )
    assert len(trained) + len(apart) == 8
    assert trained.isdisjoint(apart)


def validation_by_folder(folders, **validation):
    """By folder, the validation images of a fifth of folders."""
    concepts = [{"folder": str(folder)} for folder in folders]
    validation = {"use": True, "split": 0.2, "split_by": "folders", **validation}
    made = resolve({"data": {"concepts": concepts}, "validation": validation}, source="")
    found = {folder: set() for folder in folders}
    for item in read_dataset(made).validation:
        found[item.path.parent].add(item.name)
    return [*found.values()]


@each("name", ["{}", "{}/images"])
def test_folders_with_images_of_the_same_names_hold_out_different_ones(tmp_path, name):
    ten = [images(tmp_path / name.format(n), map(str, range(5))) for n in range(10)]
    validation = validation_by_folder(ten)
    assert sum(map(len, validation)) == 10
    assert len(set().union(*validation)) > 2
    by_names = validation_by_folder(ten, split_by="names")
    assert len({*map(frozenset, by_names)}) == 1


def test_what_folders_hold_out_does_not_depend_on_where_they_are(tmp_path):
    five = [images(tmp_path / "a" / f"{n}", map(str, range(5))) for n in range(5)]
    shutil.copytree(tmp_path / "a", tmp_path / "b" / "c")
    moved = [tmp_path / "b" / "c" / folder.name for folder in five]
    assert validation_by_folder(moved[::-1]) == validation_by_folder(five)[::-1]
