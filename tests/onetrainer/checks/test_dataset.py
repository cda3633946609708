"""What is wrong with the images of several folders is reported at each folder's own place."""

from PIL import Image, ImageFile

from onetrainer.checks.dataset import check_images
from onetrainer.checks.preflight import all_problems
from onetrainer.dataset.dataset import read_dataset
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.errors import Fix
from onetrainer.images.image_index import recent_facts
from onetrainer.presets.presets import resolve, with_value
from tests.each import each


def images(folder, count=4, *, captions=True):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.new("RGB", (64, 64)).save(folder / f"{number}.png")
        if captions:
            (folder / f"{number}.txt").write_text(f"a dog in {number}")
    return folder


def config(*concepts, validation=None, model=None, **data):
    concepts = [{**each, "folder": str(each["folder"])} for each in concepts]
    document = {"data": {**data, "concepts": concepts}, "validation": validation or {}}
    return resolve({**document, "model": model or {}}, source="")


def reported(made):
    return [(found.path, found.severity) for found in check_images(made)]


def test_each_folder_is_reported_at_its_own_place(tmp_path):
    images(tmp_path / "a", captions=False)
    images(tmp_path / "b")
    (tmp_path / "b" / "broken.png").touch()
    made = config(
        {"folder": tmp_path / "a"},
        {"folder": tmp_path / "gone", "use": False},
        {"folder": tmp_path / "gone"},
        folder=str(tmp_path / "b"),
    )
    assert reported(made) == [
        ("data.concepts.0.folder", "error"),
        ("data.concepts.2.folder", "error"),
        ("data.folder", "warning"),
    ]


def test_images_that_are_known_to_be_damaged_are_reported_with_those_of_broken_headers(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)
    folder = images(tmp_path / "a")
    (folder / "broken.png").touch()
    for name in ("0.png", "1.png"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-20])
    made = config(folder=str(folder))
    for expected in ("1 image cannot be used", "3 images cannot be used"):
        (found,) = check_images(made)
        assert found.what.startswith(expected)
        PixelFacts(recent_facts()).examine(read_dataset(made).items)
    for name in ("2.png", "3.png"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-20])
    PixelFacts(recent_facts()).examine(read_dataset(made).items)
    (found,) = check_images(made)
    assert (found.path, found.severity) == ("data.folder", "error")
    assert "none of its 5 images can be used" in found.what


def test_images_in_folders_within_are_reported_unless_somebody_takes_them(tmp_path):
    folder = images(tmp_path / "a")
    images(folder / "more", 3)
    images(folder / "named", 2)
    (folder / "empty").mkdir()
    named = {"folder": folder / "named"}
    (found,) = check_images(config(named, folder=str(folder)))
    assert (found.path, found.severity) == ("data.folder", "warning")
    assert "3 more images are in a subfolder" in found.what
    assert found.fix == Fix("data.include_subfolders", True)
    recursive = config(folder=str(folder), include_subfolders=True)
    assert check_images(recursive) == []
    own = config({"folder": folder}, named, {"folder": folder / "more"})
    assert check_images(own) == []


def test_captions_with_unbalanced_braces_are_reported_if_wildcards_are_used(tmp_path):
    folder = images(tmp_path / "a")
    (folder / "1.txt").write_text("a {red|green flower")
    assert check_images(config(folder=str(folder))) == []
    made = config(folder=str(folder), captions={"wildcards": True})
    (found,) = check_images(made)
    assert (found.path, found.severity) == ("data.folder", "warning")
    assert found.what.startswith('1.png: its caption has a "{" without "}"')
    (note,) = read_dataset(made).notes
    assert note.startswith('1.png: its caption has a "{" without "}"')


@each("place", ["data.class_folder", "validation.folder", "data.concepts"])
def test_the_fix_takes_the_images_of_folders_within(tmp_path, place):
    folder = images(tmp_path / "a")
    images(folder / "more")
    first = str(images(tmp_path / "first"))
    value = [{"folder": str(folder)}] if place == "data.concepts" else str(folder)
    document = {"data": {"folder": first}, "validation": {"use": place == "validation.folder"}}
    document = with_value(document, place, value)
    (found,) = check_images(resolve(document, source=""))
    cured = with_value(document, found.fix.path, found.fix.value)
    assert check_images(resolve(cured, source="")) == []


def test_a_name_that_the_system_refuses_is_reported_at_its_place(tmp_path):
    made = config({"folder": tmp_path / ("x" * 5000)}, folder=str(images(tmp_path / "a")))
    (found,) = check_images(made)
    assert found.path == "data.concepts.0.folder"


def test_a_list_that_cannot_be_read_is_reported_next_to_the_list(tmp_path):
    (tmp_path / "list.csv").write_text("neither,nor\n1,2\n")
    folder = images(tmp_path / "a")
    for name in ("list.csv", "gone.jsonl"):
        listed = {"caption_source": "list", "caption_list": str(tmp_path / name)}
        own = config({"folder": folder, **listed})
        assert reported(own) == [("data.concepts.0.caption_list", "error")]
        assert reported(config(folder=str(folder), **listed)) == [("data.caption_list", "error")]
        validation = {"use": True, "folder": str(folder), "caption_list": listed["caption_list"]}
        made = config(folder=str(images(tmp_path / "b")), validation=validation)
        assert reported(made) == [("validation.caption_list", "error")]


@each(
    ("outer", "inner", "place", "severity"),
    [
        ("train", "train", "data.concepts.1.folder", "warning"),
        ("prior", "train", "data.concepts.1.folder", "error"),
        ("train", "own_prediction", "data.concepts.0.folder", "error"),
        ("prior", "validation", "data.concepts.0.folder", "error"),
    ],
)
def test_files_that_two_folders_have_are_reported(tmp_path, outer, inner, place, severity):
    roles = {tmp_path / "all" / "some": inner, tmp_path / "all": outer}
    concepts = [
        {"folder": images(folder), "role": role, "include_subfolders": True}
        for folder, role in roles.items()
    ]
    concepts.append({"folder": images(tmp_path / "else")})
    made = config(*concepts, validation={"use": True, "every": 1})
    assert [each for each in reported(made) if each[0] == place] == [(place, severity)]


def test_validation_images_among_those_to_train_are_no_problem(tmp_path):
    images(tmp_path / "all" / "some")
    images(tmp_path / "all")
    made = config(
        {"folder": tmp_path / "all" / "some", "role": "validation"},
        {"folder": tmp_path / "all", "include_subfolders": True},
        validation={"use": True},
    )
    assert reported(made) == []


def test_masks_are_missed_where_they_are_asked_for(tmp_path):
    with_mask, without = images(tmp_path / "a"), images(tmp_path / "b")
    for number in range(4):
        Image.linear_gradient("L").save(with_mask / f"{number}-masklabel.png")
    both = [{"folder": with_mask}, {"folder": without}]
    assert reported(config(*both, masks="files")) == []
    own = [{"folder": with_mask}, {"folder": without, "masks": "files"}]
    unused, found = check_images(config(*own))
    assert "4 images have a mask (0-masklabel.png" in unused.what
    assert found.fix == Fix("data.concepts.1.masks", "off")


def test_masks_are_not_missed_while_a_folder_cannot_be_read(tmp_path):
    without = images(tmp_path / "b")
    made = config({"folder": without}, folder=str(tmp_path / "gone"), masks="files")
    assert reported(made) == [("data.folder", "error")]


@each("place", ["data", "data.concepts.0"])
def test_an_empty_text_for_all_is_reported_once(tmp_path, place):
    with_mask, without = images(tmp_path / "a"), images(tmp_path / "b")
    for number in range(4):
        Image.linear_gradient("L").save(with_mask / f"{number}-masklabel.png")
    said = {"caption_source": "text", "caption_text": " "}
    first, data = ({}, said) if place == "data" else (said, {})
    made = config({"folder": with_mask, **first}, folder=str(without), masks="files", **data)
    found = [one for one in all_problems(made) if one.path.startswith("data.")]
    assert [(one.path, one.severity) for one in found] == [(f"{place}.caption_text", "error")]


def test_an_empty_text_is_reported_at_the_validation_folder_where_that_alone_uses_it(tmp_path):
    trained, apart = images(tmp_path / "a"), images(tmp_path / "b")
    validation = {"use": True, "folder": str(apart)}
    made = config({"folder": trained}, validation=validation, caption_source="text")
    found = [one for one in all_problems(made) if one.severity == "error"]
    assert "validation.folder" in [one.path for one in found]


def test_trigger_words_that_are_blank_leave_an_empty_text_to_be_reported(tmp_path):
    folder = images(tmp_path / "a")
    said = {"caption_source": "text", "caption_text": "", "trigger": " "}
    found = [
        one for one in all_problems(config(folder=str(folder), **said)) if one.path[:4] == "data"
    ]
    assert [(one.path, one.severity) for one in found] == [("data.folder", "error")]


def test_images_to_paint_from_are_missed_by_inpainting_models_alone(tmp_path):
    folder = images(tmp_path / "a")
    assert reported(config({"folder": folder}, conditioning="files")) == []
    made = config({"folder": folder}, conditioning="files", model={"family": "sd15-inpainting"})
    assert reported(made) == [("data.conditioning", "warning")]
    Image.new("RGB", (64, 64)).save(folder / "0-condlabel.png")
    assert reported(made) == []


def test_a_token_may_come_from_trigger_words(tmp_path):
    folder = images(tmp_path / "a")
    document = {"embeddings": {"tokens": [{"token": "sksdog"}]}}
    paths = {}
    for trigger in ("", "sksdog"):
        concepts = [{"folder": str(folder), "trigger": trigger}]
        made = resolve({**document, "data": {"concepts": concepts}}, source="")
        paths[trigger] = [found.path for found in check_images(made)]
    assert paths == {"": ["embeddings.tokens.0.token"], "sksdog": []}


def test_no_pixel_is_decoded(tmp_path, monkeypatch):
    made = config(
        {"folder": images(tmp_path / "a")},
        {"folder": images(tmp_path / "b"), "role": "prior"},
        masks="files",
        validation={"use": True},
    )
    decoded = []
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: decoded.append(image))
    check_images(made)
    assert decoded == []
