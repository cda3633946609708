"""Rules of folders, their roles and captions."""

from onetrainer.errors import Fix
from onetrainer.presets.presets import resolve
from onetrainer.rules.data import has_images, problems
from onetrainer.rules.rules import check_rules
from tests.each import each


def config(*concepts, **sections):
    data = {"concepts": list(concepts), **sections.pop("data", {})}
    return resolve({"data": data, "model": {"path": "m"}, **sections}, source="")


def reported(made):
    return {(found.path, found.severity) for found in problems(made)}


def test_one_more_folder_is_enough_to_train():
    made = config({"folder": "/a"})
    assert has_images(made)
    assert check_rules(made) == []


def test_no_folder_at_all_is_reported_at_the_first():
    assert reported(config()) == {("data.folder", "error")}
    assert reported(config({"folder": "/a", "use": False})) == {("data.folder", "error")}


def test_a_concept_in_use_needs_a_folder():
    made = config({}, {"use": False}, data={"folder": "/a"})
    assert reported(made) == {("data.concepts.0.folder", "error")}
    assert reported(config({})) == {("data.concepts.0.folder", "error")}


@each("role", ["validation", "prior", "own_prediction"])
def test_training_images_are_always_needed(role):
    made = config({"folder": "/a", "role": role}, validation={"use": True})
    assert reported(made) == {("data.folder", "error")}


@each(
    ("first", "second", "place", "severity"),
    [
        ("train", "train", "data.concepts.1.folder", "warning"),
        ("prior", "train", "data.concepts.0.folder", "error"),
        ("train", "own_prediction", "data.concepts.1.folder", "error"),
        ("validation", "train", "data.concepts.0.folder", "error"),
        ("prior", "validation", "data.concepts.1.folder", "error"),
        ("prior", "own_prediction", None, None),
    ],
)
def test_one_folder_cannot_serve_twice(first, second, place, severity):
    made = config(
        {"folder": "/a/", "role": first},
        {"folder": "/b/../a", "role": second},
        data={"folder": "/c"},
        validation={"use": True},
    )
    assert reported(made) == ({(place, severity)} if place else set())


@each("place", ["folder", "class_folder"])
def test_validation_folder_that_is_trained_or_kept_can_be_emptied(place):
    data = {"folder": "/c", place: "/a"}
    (found,) = problems(config(data=data, validation={"use": True, "folder": "/b/../a"}))
    assert (found.path, found.severity) == ("validation.folder", "error")
    assert found.fix == Fix("validation.folder", "")
    assert list(problems(config(data={"folder": "/a"}, validation={"folder": "/a"}))) == []


def test_images_that_are_validation_and_kept_are_reported_where_they_are_validation():
    held = {"folder": "/a", "role": "validation"}
    data = {"folder": "/c", "class_folder": "/a"}
    assert reported(config(held, data=data, validation={"use": True})) == {
        ("data.concepts.0.folder", "error")
    }


def test_validation_images_without_validation_are_reported():
    made = config({"folder": "/b", "role": "validation"}, data={"folder": "/a"})
    (found,) = problems(made)
    assert (found.path, found.fix) == ("data.concepts.0.role", Fix("validation.use", value=True))


def test_a_vae_has_no_use_for_class_images():
    concepts = [{"folder": "/b", "role": "prior"}, {"folder": "/c", "loss_weight": 0}]
    made = config(*concepts, data={"folder": "/a"}, objective={"kind": "reconstruction"})
    assert reported(made) == {
        ("data.concepts.0.role", "warning"),
        ("data.concepts.1.loss_weight", "warning"),
    }


@each(("source", "missing"), [("text", "caption_text"), ("list", "caption_list"), ("names", None)])
def test_captions_from_nowhere_are_reported_at_their_setting(source, missing):
    concept = {"folder": "/a", "caption_source": source}
    paths = {"data.folder": config(data=concept), "data.concepts.0": config(concept)}
    for place, made in paths.items():
        wanted = f"{place.removesuffix('.folder')}.{missing}"
        assert reported(made) == ({(wanted, "error")} if missing else set())


def test_trigger_words_of_one_folder_are_caption_enough():
    concept = {"folder": "/a", "caption_source": "text", "trigger": "sks dog"}
    assert reported(config(concept)) == reported(config(data=concept)) == set()


def test_own_captions_are_checked_and_unused_ones_are_not():
    bad = {"folder": "/a", "captions": {"template": "a photo"}}
    assert reported(config(bad)) == set()
    paths = [found.path for found in problems(config({**bad, "own_captions": True}))]
    assert paths == ["data.concepts.0.captions.template"]


def test_masks_are_needed_where_they_say_what_is_shown():
    data = {"folder": "/a", "conditioning": "masks"}
    assert reported(config(data=data)) == set()
    inpainting = {"path": "m", "family": "sd15-inpainting"}
    assert reported(config(data=data, model=inpainting)) == {("data.conditioning", "warning")}
    assert reported(config(data={**data, "masks": "files"}, model=inpainting)) == set()


def test_fixed_sizes_and_more_resolutions_are_reported():
    buckets = {"sizes": [{}], "resolutions": [{}]}
    made = config(data={"folder": "/a", "buckets": buckets})
    assert reported(made) == {("data.buckets.resolutions", "warning")}


@each(("resolution", "is_reported"), [(0, False), (8, True), (56, True), (64, False)])
def test_a_folders_own_resolution_is_as_large_as_that_of_all_may_be(resolution, is_reported):
    made = config({"folder": "/b", "resolution": resolution})
    assert reported(made) == ({("data.concepts.0.resolution", "error")} if is_reported else set())


def test_fixed_sizes_and_a_folders_own_resolution_are_reported():
    sizes = {"buckets": {"sizes": [{"width": 512, "height": 512}]}}
    made = config({"folder": "/a", "resolution": 768}, data=sizes)
    (found,) = problems(made)
    assert (found.path, found.severity) == ("data.concepts.0.resolution", "warning")
    assert found.fix == Fix("data.concepts.0.resolution", 0)
