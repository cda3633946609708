"""Several folders of images: what each says of its own, and what they make together."""

import json
import random
import unicodedata

import pytest
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings, concepts_of
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.dataset.caption_sampling import sample_caption
from onetrainer.dataset.dataset import read_dataset, select_validation, validation_count
from onetrainer.dataset.items import Item, index_concept
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve
from tests.each import each


def images(folder, *names, captions=True, color="black"):
    for name in names:
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64), color).save(path)
        if captions:
            path.with_suffix(".txt").write_text(path.stem)
    return folder


def concept(folder, **settings):
    return ConceptSettings("data.folder", "dogs", folder, **settings)


def said(folder, **settings):
    return {item.name: item.captions for item in index_concept(concept(folder, **settings)).items}


def config(*concepts, validation=None, **data):
    concepts = [{**each, "folder": str(each["folder"])} for each in concepts]
    document = {"data": {**data, "concepts": concepts}, "validation": validation or {}}
    return resolve(document, source="")


def test_captions_come_from_wherever_a_concept_says(tmp_path):
    images(tmp_path / "big dogs", "rex", "old/rex 2")
    found = tmp_path / "big dogs"
    assert said(found, recursive=True) == {"rex.png": ("rex",), "old/rex 2.png": ("rex 2",)}
    assert said(found, caption_source="names") == {"rex.png": ("rex",)}
    by_folder = said(found, recursive=True, caption_source="folders")
    assert by_folder == {"rex.png": ("big dogs",), "old/rex 2.png": ("old",)}
    one = said(found, caption_source="text", caption_text="a dog")
    assert one == {"rex.png": ("a dog",)}


@pytest.mark.parametrize("name", [".", "../dogs", "in/.."])
def test_a_folder_has_its_name_however_it_is_named(tmp_path, name, monkeypatch):
    images(tmp_path / "dogs", "rex", "in/rex")
    monkeypatch.chdir(tmp_path / "dogs")
    captions = {"template": "{concept}: {caption} in {folder}"}
    found = read_dataset(config(folder=name, caption_source="folders", captions=captions))
    shown = [sample_caption(item, found.concept_of(item), 0) for item in found.items]
    assert shown == ["dogs: dogs in dogs"]


def test_a_list_says_captions_and_where_to_cut_and_what_it_names_in_vain(tmp_path):
    images(tmp_path, "a", "b", captions=False)
    rows = [
        {"file": "a.png", "caption": ["one", "two"], "focus": [0.25, 0.75]},
        {"file": "c.png", "caption": "three"},
    ]
    listed = tmp_path / "list.jsonl"
    listed.write_text("\n".join(map(json.dumps, rows)))
    found = index_concept(concept(tmp_path, caption_source="list", caption_list=listed))
    assert [item.captions for item in found.items] == [("one", "two"), ("",)]
    assert [item.focus for item in found.items] == [(0.25, 0.75), None]
    assert found.uncaptioned == 1
    assert [one.what for one in found.findings if one.kind == "orphan"] == [
        'line 2 names "c.png", but there is no such image'
    ]


def test_a_list_that_names_no_image_is_refused_as_such(tmp_path):
    images(tmp_path, "a")
    listed = tmp_path / "list.csv"
    listed.write_text("file,caption\nb.png,b\n")
    made = concept(tmp_path, caption_source="list", caption_list=listed)
    with pytest.raises(UserError) as error:
        index_concept(made)
    assert f"{listed} has 1 entry, but none matches an image" in error.value.what
    assert '"b.png" (line 2), while an image here is called "a.png"' in error.value.expected


def test_images_to_paint_from_belong_to_their_image_and_are_none_to_train(tmp_path):
    images(tmp_path, "a", "b", captions=False)
    Image.new("RGB", (32, 32)).save(tmp_path / "a-condlabel.png")
    Image.new("RGB", (32, 32)).save(tmp_path / "B-CondLabel.PNG")
    for conditioning in ("blank", "masks", "files"):
        found = index_concept(
            concept(tmp_path, conditioning=conditioning, require_captions=False)
        ).items
        shown = tmp_path / "a-condlabel.png" if conditioning == "files" else None
        assert [(item.name, item.conditioning) for item in found] == [
            ("a.png", shown),
            ("b.png", None),
        ]


def test_files_of_no_image_are_reported(tmp_path):
    images(tmp_path, "a", "in/b")
    for name in ("gone.txt", "gone-masklabel.png", "in/gone-condlabel.png", "in/a.txt"):
        (tmp_path / name).touch()
    found = {path.relative_to(tmp_path).as_posix() for path in orphans(tmp_path, "files")}
    assert found == {"gone.txt", "gone-masklabel.png", "in/gone-condlabel.png", "in/a.txt"}
    # Whose captions come from elsewhere may have any text files.
    named = {path.name for path in orphans(tmp_path, "names")}
    assert named == {"gone-masklabel.png", "gone-condlabel.png"}


def orphans(folder, source):
    found = index_concept(concept(folder, recursive=True, caption_source=source)).findings
    return [one.path for one in found if one.kind == "orphan"]


def test_names_are_spelled_alike_on_every_system(tmp_path):
    decomposed, composed = (unicodedata.normalize(form, "schön/ü") for form in ("NFD", "NFC"))
    images(tmp_path, decomposed, captions=False)
    (tmp_path / f"{decomposed.partition('/')[0]}" / f"{composed.partition('/')[2]}.txt").write_text(
        "x"
    )
    (item,) = index_concept(concept(tmp_path, recursive=True)).items
    assert (item.name, item.group, item.caption) == (f"{composed}.png", "schön", "x")
    assert item.path.is_file()


def test_order_is_that_of_paths_part_by_part(tmp_path):
    names = ["10", "9", "a/2", "a/10", "a b/1", "B", "a/2/x"]
    images(tmp_path, *names, captions=False)
    found = [each.name for each in list_folder(tmp_path, recursive=True).images]
    assert found == [f"{name}.png" for name in ("9", "10", "a/2/x", "a/2", "a/10", "a b/1", "B")]


class Remembered:
    """An index of headers that counts what it is asked to read."""

    def __init__(self):
        self.headers, self.trained = {}, []

    def cached_header(self, path):
        return self.headers.get(path)

    def store_header(self, path, header):
        self.headers[path] = header
        self.trained.append(path.name)


def test_headers_that_are_known_are_not_read_again(tmp_path):
    images(tmp_path, "a", "b")
    memory = Remembered()
    first = index_concept(concept(tmp_path), headers=memory)
    (tmp_path / "a.png").write_bytes(b"broken, which nobody looks at")
    assert index_concept(concept(tmp_path), headers=memory) == first
    assert memory.trained == ["a.png", "b.png"]


def test_concepts_stand_in_their_order_with_what_counts_for_each(tmp_path):
    for name in ("first", "second", "class", "own"):
        images(tmp_path / name, name)
    made = config(
        {"folder": tmp_path / "second", "repeats": 0.1, "trigger": "sks", "name": "two"},
        {"folder": tmp_path / "own", "role": "own_prediction"},
        {"folder": tmp_path / "gone", "use": False},
        folder=str(tmp_path / "first"),
        class_folder=str(tmp_path / "class"),
    )
    found = read_dataset(made)
    roles = [(item.caption, item.role, found.concept_of(item).name) for item in found.items]
    assert roles == [
        ("first", "train", "first"),
        ("second", "train", "two"),
        ("own", "own_prediction", "own"),
        ("class", "prior", "class"),
    ]
    assert [item.is_prior for item in found.items] == [False, False, True, True]
    assert str(found.concept_of(found.items[1]).repeats) == "1/10"


def test_without_validation_validation_folders_are_neither_trained_nor_measured(tmp_path):
    images(tmp_path / "a", "1")
    made = config({"folder": tmp_path / "gone", "role": "validation"}, folder=str(tmp_path / "a"))
    found = read_dataset(made)
    assert (len(found.items), found.validation) == (1, None)


def test_validation_images_of_several_folders_have_names_of_their_own(tmp_path):
    for name in ("a", "b", "c"):
        images(tmp_path / name, "1", f"{name} 2")
    validation = [{"folder": tmp_path / name, "role": "validation"} for name in ("b", "c", "b")]
    made = config(*validation, folder=str(tmp_path / "a"), validation={"use": True})
    found = read_dataset(made)
    assert len(found.items) == 2
    assert [found.name_of(item) for item in found.validation[:4]] == [
        *("b/1.png", "b/b 2.png"),
        *("c/1.png", "c 2.png"),
    ]


def test_a_validation_file_is_not_trained_from_another_folder(tmp_path):
    images(tmp_path / "a", *map(str, range(8)))
    (tmp_path / "links").mkdir()
    for path in (tmp_path / "a").glob("*.png"):
        (tmp_path / "links" / f"linked {path.name}").symlink_to(path)
    made = config(
        {"folder": tmp_path / "links", "caption_source": "names"},
        folder=str(tmp_path / "a"),
        validation={"use": True, "split": 0.25, "split_by": "folders"},
    )
    found = read_dataset(made)
    trained = {item.path.resolve() for item in found.items}
    validation = {item.path.resolve() for item in found.validation}
    assert trained.isdisjoint(validation)
    assert (len(trained), len(validation)) == (6, 2)


def items_of(count):
    return [Item(None, ("",), 64, 64, name=f"{number}.png") for number in range(count)]


def test_likes_stay_on_one_side_for_any_groups():
    """Random groups, fractions and seeds: whole groups, never more than asked unless none fits."""
    section, dice = config(validation={"use": True}).validation, random.Random(7)
    for _ in range(300):
        items = items_of(dice.randrange(2, 60))
        groups = [dice.randrange(dice.randrange(1, 40)) + 1 for _ in items]
        chosen = section.model_copy(
            update={
                "split": dice.random() / 2,
                "seed": dice.randrange(9),
                "max_images": 9,
                "split_by": dice.choice(["images", "folders"]),
            }
        )
        try:
            validation = select_validation(items, chosen, groups, concepts=[concept(None)])
        except UserError:
            assert len({*groups}) == 1
            continue
        apart = {groups[items.index(item)] for item in validation}
        kept = {group for item, group in zip(items, groups, strict=True) if item not in validation}
        assert apart.isdisjoint(kept)
        most = validation_count(chosen, len(items))
        if chosen.split_by == "folders":
            assert len(validation) <= most or len(apart) == 1
        assert 0 < len(validation) <= len(items) / 2


def test_near_duplicates_are_only_searched_where_it_matters(tmp_path):
    images(tmp_path, *map(str, range(6)))

    def halves(items):
        return [int(item.name[0]) // 3 for item in items]

    use = {"use": True, "split": 0.1}
    found = read_dataset(config(folder=str(tmp_path), validation=use), group_similar=halves)
    assert {item.name for item in found.validation} in [
        {"0.png", "1.png", "2.png"},
        {"3.png", "4.png", "5.png"},
    ]
    off = config(folder=str(tmp_path), validation={**use, "keep_similar": False})
    assert len(read_dataset(off, group_similar=halves).validation) == 1


def test_images_that_are_all_near_duplicates_cannot_be_split(tmp_path):
    images(tmp_path, "a", "b", "c")
    made = config(folder=str(tmp_path), validation={"use": True})
    with pytest.raises(UserError, match="look nearly the same"):
        read_dataset(made, group_similar=lambda items: [0] * len(items))


def test_a_folder_says_what_is_its_own_and_has_the_rest_from_all():
    own = {"folder": "/b", "own_captions": True, "captions": {"shuffle": True}, "resolution": 768}
    plain = {"folder": "/c", "captions": {"shuffle": True}, "own_augmentation": True}
    made = config(
        {**own, "seed": 7, "masks": "off"},
        plain,
        captions={"keep": 2},
        augmentation={"flip": "random"},
        masks="alpha",
        buckets={"resolutions": [{"resolution": 640}]},
    )
    first, second = concepts_of(made)
    assert (first.captions.shuffle, first.captions.keep) == (True, 0)
    assert (second.captions.shuffle, second.captions.keep) == (False, 2)
    assert (first.augmentation.flip, second.augmentation.flip) == ("random", "off")
    assert (first.masks, second.masks) == ("off", "alpha")
    assert (first.resolutions, second.resolutions) == ((768,), (512, 640))
    assert first.seed == 7


def test_folders_have_seeds_of_their_own_in_any_order():
    def seeds(*folders, run=0):
        made = config(*folders)
        training = made.training.model_copy(update={"seed": run})
        return [one.seed for one in concepts_of(made.model_copy(update={"training": training}))]

    one, other = seeds({"folder": "/a"}, {"folder": "/b"})
    assert one != other
    assert seeds({"folder": "/b"}, {"folder": "/a"}) == [other, one]
    assert seeds({"folder": "/a"}, run=1) != [one]


@each("use", [True, False])
def test_folders_of_one_name_have_seeds_of_their_own_and_keep_them_without_the_other(use):
    twice = [{"folder": "/a/images"}, {"folder": "/b/images"}]
    both = [one.seed for one in concepts_of(config(*twice))]
    assert len({*both}) == 2
    twice[0]["use"] = use
    assert [one.seed for one in concepts_of(config(*twice))] == both[0 if use else 1 :]


@each(
    ("source", "validation_source", "kept"),
    [
        ("files", "files", "files"),
        ("names", "names", "names"),
        ("folders", "folders", "folders"),
        ("text", "text", "files"),
        ("list", "files", "files"),
    ],
)
def test_validation_images_are_captioned_as_trained_ones(source, validation_source, kept):
    data = {"folder": "/a", "class_folder": "/c", "caption_source": source, "caption_text": "x"}
    validation = {"use": True, "folder": "/v"}
    made = resolve({"data": data, "validation": validation}, source="test")
    assert [one.caption_source for one in concepts_of(made)] == [source, kept, validation_source]


@each("source", ["files", "names", "folders", "text", "list"])
def test_class_and_validation_images_may_have_captions_of_their_own(source, tmp_path):
    for name in ("a", "c", "v"):
        images(tmp_path / name, "1", captions=False)
    listed = tmp_path / "list.csv"
    listed.write_text("file,caption\n1.png,held out\n")
    data = {"folder": tmp_path / "a", "class_folder": tmp_path / "c", "class_text": " a  dog "}
    data |= {"caption_source": source, "caption_text": "x", "caption_list": listed}
    validation = {"use": True, "folder": str(tmp_path / "v"), "caption_list": str(listed)}
    data = {name: str(value) for name, value in data.items()}
    found = concepts_of(resolve({"data": data, "validation": validation}, source=""))
    said = [index_concept(one).items[0].caption for one in found[1:]]
    assert said == ["a dog", "held out"]


def test_quick_ways_are_concepts_too_and_come_first_and_last():
    made = config(
        {"folder": "/b", "name": "more"},
        folder="/a",
        class_folder="/k",
        masks="files",
        trigger="sks",
        validation={"use": True, "folder": "/v"},
    )
    found = concepts_of(made)
    assert [each.name for each in found] == ["a", "more", "k", "v"]
    assert [each.role for each in found] == ["train", "train", "prior", "validation"]
    assert [each.masks for each in found] == ["files", "files", "off", "files"]
    assert [each.trigger for each in found] == ["sks", "", "", "sks"]
    assert [each.matches_training for each in found] == [False, False, True, False]


def test_captions_that_a_vae_does_not_train_take_no_image_away(tmp_path):
    images(tmp_path, "a", "b")
    (tmp_path / "a.txt").write_bytes(b"\0")
    for data in ({}, {"caption_source": "list", "caption_list": str(tmp_path / "gone.csv")}):
        document = {"data": {"folder": str(tmp_path), **data}}
        document["objective"] = {"kind": "reconstruction"}
        found = read_dataset(resolve(document, source=""))
        assert [item.name for item in found.items] == ["a.png", "b.png"]
        assert (found.skipped, found.notes) == ((), ())


def test_a_vae_cuts_around_the_points_of_a_list(tmp_path):
    images(tmp_path, "a")
    listed = tmp_path / "list.jsonl"
    listed.write_text(json.dumps({"file": "a.png", "caption": "x", "focus": [0.25, 0.75]}))
    data = {"folder": str(tmp_path), "caption_source": "list", "caption_list": str(listed)}
    data["buckets"] = {"crop": "focus"}
    made = resolve({"data": data, "objective": {"kind": "reconstruction"}}, source="")
    assert read_dataset(made).items[0].focus == (0.25, 0.75)


def test_a_vae_trains_on_images_alone():
    document = {
        "data": {"folder": "/a", "class_folder": "/k", "masks": "files"},
        "objective": {"kind": "reconstruction"},
    }
    (only,) = concepts_of(resolve(document, source=""))
    assert (only.folder.name, only.masks, only.require_captions) == ("a", "off", False)
