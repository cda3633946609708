"""What each kind of model finds, against its own classes used directly, or a closed form."""

import importlib
import json

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    AutoProcessor,
    AutoTokenizer,
    BlipForConditionalGeneration,
    CLIPSegForImageSegmentation,
    Florence2ForConditionalGeneration,
    LlavaForConditionalGeneration,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)

from modules.captioning.background import Normalization, normalization_of
from modules.captioning.load import load_describer
from modules.captioning.wd_tagger import tagger_pixels
from onetrainer.captioning.kinds import files_to_download, find_kind
from onetrainer.errors import UserError
from onetrainer.jobs.caption_request import CaptionRequest
from tests import tiny_describers

CPU = torch.device("cpu")
SAVERS = {
    "tagger": tiny_describers.save_tagger,
    "blip": tiny_describers.save_blip,
    "florence": tiny_describers.save_florence,
    "llava": tiny_describers.save_llava,
    "qwen": tiny_describers.save_qwen,
    "clipseg": tiny_describers.save_clipseg,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("describers")
    for name, save in SAVERS.items():
        save(root / name)
    tiny_describers.save_background(root / "u2net.onnx")
    return root


@pytest.fixture(scope="module")
def images():
    noise = np.random.default_rng(0).integers(0, 256, (3, 90, 60, 3), dtype=np.uint8)
    return [Image.fromarray(noise[0]), Image.fromarray(noise[1][:30]), Image.fromarray(noise[2])]


def describer(path, makes="captions", **more):
    values = {"images": "", "model": str(path), "makes": makes, "max_tokens": 8}
    request = CaptionRequest(**values | more)
    return load_describer(request, CPU, lambda _: None)


def test_a_tagger_scores_tags_and_one_rating(folders):
    image = Image.new("RGB", (60, 20), (255, 0, 0))
    (found,) = describer(folders / "tagger").describe([image])
    # A third of the square is red, and the rest white.
    shares = {"blue_sky": 2 / 3, "green_leaves": 2 / 3, "red_hair": 1.0, "^_^": 0.5}
    assert found.tags == pytest.approx(shares, abs=0.1)  # the filter blurs both edges of eight rows
    assert found.characters == pytest.approx({"someone_(series)": 0.9}, abs=1e-4)
    assert found.rating == "general"


def test_a_tagger_sees_blue_first_and_white_around():
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    assert (tagger_pixels(image, 4) == np.asarray(image)[:, :, ::-1]).all()
    wide = tagger_pixels(Image.new("RGB", (64, 16)), 64)
    assert (wide[:20] == 255).all()
    assert (wide[26:38] == 0).all()
    assert (wide[44:] == 255).all()


def test_the_subject_is_where_the_network_is_surest(folders):
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:, :8, 0], pixels[:, 8:12, 0] = 255, 128
    (found,) = describer(folders / "u2net.onnx", "masks").describe([Image.fromarray(pixels)])
    mask = np.asarray(found.mask)
    shares = 1 / (1 + np.exp(-(np.array([0, 128, 255]) / 255 - 0.485) / 0.229))
    gray = (shares[1] - shares[0]) / (shares[2] - shares[0]) * 255
    assert (mask[:, :8] == 255).all()
    assert (mask[:, 12:] == 0).all()
    assert abs(mask[:, 8:12] - gray).max() <= 0.5 + 1e-3  # rounding to 8 bits


def test_normalization_is_that_of_the_network(tmp_path):
    half, one = (0.5, 0.5, 0.5), (1.0, 1.0, 1.0)
    assert normalization_of(tmp_path / "u2net.onnx") == Normalization()
    assert normalization_of(tmp_path / "isnet-general-use.onnx") == Normalization(half, one)
    assert normalization_of(tmp_path / "isnet-anime.onnx") == Normalization(deviation=one)
    (tmp_path / "onnx").mkdir()
    settings = {"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    found = normalization_of(tmp_path / "onnx" / "model.onnx")
    assert found == Normalization((0.1, 0.2, 0.3), (1, 2, 3))


CLASSES = {
    "blip": (BlipForConditionalGeneration, "a cat"),
    "florence": (Florence2ForConditionalGeneration, "<MORE_DETAILED_CAPTION>"),
    "llava": (LlavaForConditionalGeneration, f"USER: <image> {tiny_describers.ASKED} ANSWER:"),
    "qwen": (Qwen2VLForConditionalGeneration, ""),
}


def directly(name, folder, images):
    """The texts of the real classes, one image at a time, without anything of ours."""
    model, prompt = CLASSES[name]
    network, tokenizer = model.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    processor = None if name == "qwen" else AutoProcessor.from_pretrained(folder)
    for image in images:
        if processor:
            inputs = processor(images=image, text=prompt, return_tensors="pt")
        else:
            inputs = qwen_inputs(folder, tokenizer, image)
        tokens = network.generate(**inputs, max_new_tokens=8, do_sample=False)[0]
        after = inputs["input_ids"].shape[1] if name in ("llava", "qwen") else 0
        yield " ".join(tokenizer.decode(tokens[after:], skip_special_tokens=True).split())


def qwen_inputs(folder, tokenizer, image):
    pixels = Qwen2VLImageProcessorPil.from_pretrained(folder)(image, return_tensors="pt")
    places = "<image>" * (int(pixels["image_grid_thw"].prod()) // 4)
    text = f"USER: <begin> {places} <end> {tiny_describers.ASKED} ANSWER:"
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    return {**pixels, "input_ids": ids, "mm_token_type_ids": (ids == 4).long()}


@pytest.mark.parametrize("name", ["blip", "florence", "llava", "qwen"])
def test_texts_are_those_of_the_models_own_classes_alone_and_in_a_batch(name, folders, images):
    prompts = {"blip": "a cat", "florence": ""}
    model = describer(folders / name, prompt=prompts.get(name, tiny_describers.ASKED))
    expected = list(directly(name, folders / name, images))
    assert [found.text for found in model.describe(images)] == expected
    assert model.describe(images[1:2])[0].text == expected[1]
    assert len(set(expected)) > 1  # they depend on the image


@pytest.mark.parametrize("name", ["blip", "florence", "llava"])
def test_a_text_ends_where_the_model_can_write_no_more(name, folders, images):
    # The small ones have 64 positions, or end by themselves; the real ones of BLIP have 512.
    prompts = {"blip": "a cat", "florence": ""}
    prompt = prompts.get(name, tiny_describers.ASKED)
    long = describer(folders / name, prompt=prompt, max_tokens=2048).describe(images)
    short = describer(folders / name, prompt=prompt).describe(images)
    for found, begun in zip(long, short, strict=True):
        assert found.text.startswith(begun.text)


def test_masks_are_of_everything_that_is_named(folders, images):
    masks = [
        np.asarray(found.mask, np.int32)
        for text in ("a cat", "sofa", "a cat, sofa")
        for found in describer(folders / "clipseg", "masks", prompt=text).describe(images[:1])
    ]
    assert (masks[2] == np.maximum(masks[0], masks[1])).all()
    assert (masks[0] != masks[1]).any()
    processor = AutoProcessor.from_pretrained(folders / "clipseg")
    inputs = processor(images=images[:1], text=["a cat"], return_tensors="pt")
    with torch.no_grad():
        logits = CLIPSegForImageSegmentation.from_pretrained(folders / "clipseg")(**inputs).logits
    expected = logits.reshape(32, 32).sigmoid().numpy() * 255
    assert abs(masks[0] - expected).max() <= 0.5 + 1e-3  # rounding to 8 bits


def test_models_are_recognized_by_their_files(folders, tmp_path):
    kinds = {name: find_kind(folders / name) for name in SAVERS}
    assert kinds == {**dict.fromkeys(SAVERS, "chat"), **{k: k for k in SAVERS if k[0] in "tbfc"}}
    assert find_kind(folders / "u2net.onnx") == "background"
    for wrong in (tmp_path, tmp_path / "none", folders / "blip" / "model.safetensors"):
        with pytest.raises(UserError):
            find_kind(wrong)
    with pytest.raises(UserError, match="onetrainer caption"):
        describer(folders / "tagger", "masks")
    with pytest.raises(UserError, match="a face, hair"):
        describer(folders / "clipseg", "masks")
    tiny_describers.save_llava(tmp_path / "base", chats=False)
    with pytest.raises(UserError, match="chat template"):
        describer(tmp_path / "base")


def test_nothing_that_comes_with_a_model_is_run(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers would ask
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    own = {"AutoConfig": "own.Config", "AutoModelForImageTextToText": "own.Model"}
    for name, config in {"own": {"model_type": "own"}, "blip": {}}.items():
        folder = tmp_path / name
        tiny_describers.save_blip(folder)
        (folder / "own.py").write_text(trap)
        values = json.loads((folder / "config.json").read_text()) | config | {"auto_map": own}
        (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="never run"):
        describer(tmp_path / "own")
    assert describer(tmp_path / "blip").describe([Image.new("RGB", (8, 8))])
    weights = tmp_path / "blip" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(UserError, match="safetensors"):
        describer(tmp_path / "blip")
    assert not (tmp_path / "ran").exists()


def test_incomplete_models_are_refused(folders, tmp_path):
    tiny_describers.save_tagger(tmp_path / "tagger")
    lines = (tmp_path / "tagger" / "selected_tags.csv").read_text().splitlines()
    (tmp_path / "tagger" / "selected_tags.csv").write_text("\n".join(lines[:-1]))
    with pytest.raises(UserError, match="6 tags"):
        describer(tmp_path / "tagger").describe([Image.new("RGB", (8, 8))])
    (tmp_path / "tagger" / "model.onnx").write_bytes(b"no network")
    with pytest.raises(UserError, match="cannot be loaded"):
        describer(tmp_path / "tagger")
    config = json.loads((folders / "blip" / "config.json").read_text())
    config["vision_config"]["num_hidden_layers"] = 2
    tiny_describers.save_blip(tmp_path / "blip")
    (tmp_path / "blip" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="weights are missing"):
        describer(tmp_path / "blip")


def test_a_missing_runtime_says_how_to_install_it(folders, monkeypatch):
    def missing(name, *_):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError) as raised:
        describer(folders / "tagger")
    assert "--extra captioning" in raised.value.remedy


def test_of_a_repository_only_what_is_needed_is_downloaded():
    tagger = ["README.md", "model.onnx", "model.safetensors", "selected_tags.csv", "x.py"]
    assert files_to_download(tagger) == ["selected_tags.csv", "model.onnx"]
    background = ["onnx/model.onnx", "onnx/model_fp16.onnx", "preprocessor_config.json", "a.bin"]
    assert files_to_download(background) == ["preprocessor_config.json", "onnx/model.onnx"]
    model = ["config.json", "model.safetensors", "own.py", "pytorch_model.bin", "onnx/m.onnx"]
    assert files_to_download(model) == ["config.json", "model.safetensors"]
