"""ModelSpec fields, compared with the specification."""

import base64
import re

import pytest

from modules.formats.embeddings.modelspec import ModelSpec, architecture, embedding_metadata
from modules.formats.lora.lora_metadata import layout_of
from tests.each import each

# The keys of version 1.0.1 for image models, by how much the specification demands them.
MUST = {"sai_model_spec", "architecture", "implementation", "title", "resolution"}
SHOULD = {"description", "author", "date", "hash_sha256"}
CAN = {
    "implementation_version", "license", "usage_hint", "thumbnail", "tags", "merged_from",
    "trigger_phrase", "prediction_type", "timestep_range", "encoder_layer", "preprocessor",
    "is_negative_embedding", "unet_dtype", "vae_dtype",
}  # fmt: skip


def spec(**changes):
    least = {
        "family": "sdxl",
        "prediction": "epsilon",
        "kind": "lora",
        "title": "Étude № 5 — 墨",
        "resolution": (1024, 768),
    }
    return ModelSpec(**{**least, **changes})


FULL = spec(
    encoder_layer=2,
    author="A. Painter",
    description="# Ink\nwashes",
    license="CC0",
    tags=" style ,, ink ",
    trigger_words="sumi ink ,wash",
    usage_hint="0.8",
    thumbnail=b"\xff\xd8jpeg",
    date="2031-02-03",
    is_negative_embedding=True,
)


@pytest.mark.parametrize("made", [spec(), FULL], ids=["least", "full"])
def test_every_key_is_one_of_the_specification_and_none_it_demands_is_missing(made):
    keys = {key.removeprefix("modelspec.") for key in made.fields()}
    assert keys >= MUST
    assert keys <= MUST | SHOULD | CAN
    assert all(isinstance(text, str) and text for text in made.fields().values())


def test_only_what_is_given_is_written():
    assert {key.removeprefix("modelspec.") for key in spec().fields()} == MUST | {"prediction_type"}


def test_values_have_the_forms_that_the_specification_asks_for():
    fields = {key.removeprefix("modelspec."): text for key, text in FULL.fields().items()}
    assert fields["sai_model_spec"] == "1.0.1"
    assert fields["title"] == "Étude № 5 — 墨"
    assert re.fullmatch(r"\d+x\d+", fields["resolution"])
    assert fields["resolution"] == "1024x768"
    assert fields["tags"] == "style, ink"
    assert fields["trigger_phrase"] == "sumi ink, wash"
    assert fields["encoder_layer"] == "2"
    assert fields["is_negative_embedding"] == "true"
    kind, _, data = fields["thumbnail"].partition(",")
    assert kind == "data:image/jpeg;base64"
    assert base64.b64decode(data, validate=True) == b"\xff\xd8jpeg"


@each(
    ("family", "prediction", "kind", "expected"),
    [
        ("sd15", "epsilon", "lora", "stable-diffusion-v1/lora"),
        ("sd15", "v_prediction", "model", "stable-diffusion-v1"),
        ("sd2", "epsilon", "lora", "stable-diffusion-v2-512/lora"),
        ("sd2", "v_prediction", "lora", "stable-diffusion-v2-768-v/lora"),
        ("sdxl", "v_prediction", "model", "stable-diffusion-xl-v1-base"),
        ("sdxl", "epsilon", "textual-inversion", "stable-diffusion-xl-v1-base/textual-inversion"),
        ("sd15-inpainting", "epsilon", "model", "stable-diffusion-v1-inpainting"),
        ("sd2-inpainting", "epsilon", "lora", "stable-diffusion-v2-inpainting/lora"),
        ("sdxl-inpainting", "epsilon", "lora", "stable-diffusion-xl-v1-inpainting/lora"),
        ("sd15-inpainting", "epsilon", "vae", "stable-diffusion-v1/vae"),
        ("sd2", "v_prediction", "vae", "stable-diffusion-v1/vae"),
        ("sdxl", "epsilon", "vae", "stable-diffusion-xl-v1-base/vae"),
    ],
)
def test_the_architecture_is_reported_by_its_published_name(family, prediction, kind, expected):
    assert architecture(family, prediction, kind) == expected


@pytest.mark.parametrize(("prediction", "word"), [("epsilon", "epsilon"), ("v_prediction", "v")])
def test_the_prediction_is_reported_by_the_specifications_names(prediction, word):
    assert spec(prediction=prediction).fields()["modelspec.prediction_type"] == word


@each(
    ("family", "naming", "code"),
    [
        ("sd15", "kohya", "diffusers"),
        ("sd15", "comfyui", "sgm"),
        ("sd2", "comfyui", "sgm"),
        ("sd2", "diffusers", "diffusers"),
        ("sdxl", "kohya", "sgm"),
        ("sdxl", "comfyui", "sgm"),
        ("sdxl", "diffusers", "diffusers"),
    ],
)
def test_the_implementation_is_the_one_whose_names_the_layers_have(family, naming, code):
    made = spec(family=family, layout=layout_of(family, naming))
    assert made.fields()["modelspec.implementation"] == code


def test_a_vae_alone_reports_nothing_of_predictions_and_prompts():
    keys = {key.removeprefix("modelspec.") for key in spec(kind="vae", encoder_layer=2).fields()}
    assert keys == MUST


def test_an_embeddings_file_has_the_original_programs_names_next_to_any_other_file():
    fields = embedding_metadata(spec(layout="diffusers", trigger_words="other").fields(), "<w>")
    assert fields["modelspec.architecture"] == "stable-diffusion-xl-v1-base/textual-inversion"
    assert fields["modelspec.implementation"] == "sgm"
    assert fields["modelspec.trigger_phrase"] == fields["name"] == "<w>"
    assert embedding_metadata({}, "<w>") == {"name": "<w>"}


def test_the_implementation_of_a_whole_model_is_its_layouts():
    made = spec(family="sd2", kind="model", layout="original")
    assert made.fields()["modelspec.implementation"] == "sgm"
