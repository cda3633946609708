"""Sampling by request, in this process: from files to files."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
import torch
from PIL import Image

from modules.formats.embeddings.embedding_file import Embedding, bundled_tensors, write_embedding
from modules.formats.files.files import write_safetensors
from modules.jobs.sample import sample as sample_job
from modules.sampling.image_files import to_image
from modules.sampling.sampler import sample
from onetrainer.config.run.sampling import Prompt
from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import SampledLora, SampleRequest
from onetrainer.model_files.embedding_keys import bundled_name
from onetrainer.run.events import Phase, Sample, Warned
from tests import tiny

LAYER = "lora_unet_up_blocks_1_attentions_1_transformer_blocks_0_ff_net_2"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.write_folder(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture
def generate(base, tmp_path):
    """Sample with changes to a small request; give the files' pixels and the events."""

    def run(**changes):
        values = {
            "base": str(base), "prompts": ("a cat",), "width": 64, "height": 64, "steps": 2,
            "precision": "fp32", "device": "cpu", "out": str(tmp_path / "out"),
        }  # fmt: skip
        reported = []
        finished = sample_job(SampleRequest(**values | changes), reported.append)
        return [pixels(path) for path in finished.outputs], reported

    return run


def pixels(path):
    with Image.open(path) as image:
        return numpy.asarray(image).astype(int)


def change(left, right):
    return abs(left - right).max()


def write_lora(path, *, scale=1.0, embeddings=None):
    generator = torch.Generator().manual_seed(0)
    width = tiny.configs()["unet"]["block_out_channels"][0]
    tensors = {
        f"{LAYER}.lora_down.weight": torch.randn(4, 4 * width, generator=generator),
        f"{LAYER}.lora_up.weight": scale * torch.randn(width, 4, generator=generator),
        f"{LAYER}.alpha": torch.tensor(4.0),
    }
    write_safetensors(path, tensors | bundle(embeddings or {}), {})
    return str(path)


def bundle(embeddings):
    return {
        bundled_name(word, key): tensor
        for word, one in embeddings.items()
        for key, tensor in bundled_tensors(one).items()
    }


def embedding(name, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return Embedding(name, {"te": torch.randn(3, tiny.WIDTH, generator=generator)})


def test_files_show_what_the_sampler_makes(generate):
    found, _ = generate(prompts=("a cat", "a dog"), seeds=(1, 2), sampler="euler_a", batch=3)
    prompts = [
        Prompt(prompt=text, seed=seed, width=64, height=64)
        for text in ("a cat", "a dog")
        for seed in (1, 2)
    ]
    expected = sample(tiny.family(), prompts, steps=2, guidance=7.0, sampler="euler_a")
    for ours, theirs in zip(found, expected, strict=True):
        assert change(ours, numpy.asarray(to_image(theirs)).astype(int)) <= 1


def test_files_are_numbered_and_never_overwritten_and_progress_is_reported(generate, tmp_path):
    _, reported = generate(seeds=(1, 2))
    samples = [event for event in reported if isinstance(event, Sample)]
    assert [(event.prompt, event.seed) for event in samples] == [("a cat", 1), ("a cat", 2)]
    phases = [event for event in reported if isinstance(event, Phase)]
    assert phases[0].detail.startswith("loading the model ")
    progress = [(event.name, event.done, event.total) for event in phases[-2:]]
    assert progress == [("sampling", 0, 2), ("sampling", 1, 2)]
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    generate(seeds=(1,), steps=3)
    assert sorted(before) == ["00001-1.png", "00002-2.png"]
    assert (tmp_path / "out" / "00003-1.png").exists()
    assert before.items() <= {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}.items()


def test_a_lora_changes_images_by_its_strength(generate, tmp_path):
    path = write_lora(tmp_path / "style.safetensors")
    (plain,), _ = generate()
    (off,), _ = generate(loras=(SampledLora(path=path, strength=0.0),))
    (whole,), _ = generate(loras=(SampledLora(path=path),))
    (twice,), _ = generate(loras=(SampledLora(path=path), SampledLora(path=path)))
    (double,), _ = generate(loras=(SampledLora(path=path, strength=2.0),))
    assert change(plain, off) == 0
    assert change(plain, whole) > 1
    assert change(twice, double) <= 1 < change(whole, double)


def test_images_name_all_that_they_were_sampled_with_but_no_path(generate, tmp_path, base):
    path = write_lora(tmp_path / "style.safetensors")
    write_embedding(tmp_path / "mycat.safetensors", embedding("inner"))
    generate(
        loras=(SampledLora(path=path, strength=0.5),),
        clip_skip=2,
        embeddings=(str(tmp_path / "mycat.safetensors"),),
        vae=str(base / "vae"),
    )
    with Image.open(tmp_path / "out" / "00001-42.png") as image:
        text, own = image.info["parameters"], json.loads(image.info["onetrainer"])
    assert text.startswith("a cat <lora:style:0.5>\nSteps: 2, ")
    assert "Model: base, VAE: vae, Embeddings: mycat, Clip skip: 2, " in text
    assert own["loras"] == [{"name": "style", "strength": 0.5}]
    reported = text + json.dumps(own)
    assert str(base.parent) not in reported
    assert str(tmp_path) not in reported


def test_an_embedding_applies_where_its_token_stands(generate, tmp_path):
    write_embedding(tmp_path / "mycat.safetensors", embedding("mycat"))
    files = (str(tmp_path / "mycat.safetensors"),)
    (plain,), _ = generate(prompts=("a mycat",))
    (changed,), reported = generate(prompts=("a MyCat",), embeddings=files)
    assert change(plain, changed) > 1
    assert not [event for event in reported if isinstance(event, Warned)]
    (other,), reported = generate(prompts=("a cat",), embeddings=files)
    assert change(other, generate()[0][0]) == 0


def test_either_token_of_an_embedding_will_do_and_its_lack_is_reported_once(generate, tmp_path):
    named = replace(embedding("inner"), metadata={"name": "inner"})
    write_embedding(tmp_path / "mycat.safetensors", named)
    files = (str(tmp_path / "mycat.safetensors"),)
    for text in ("a mycat", "an INNER"):
        _, reported = generate(prompts=(text,), embeddings=files)
        assert not [event for event in reported if isinstance(event, Warned)]
    _, reported = generate(prompts=("a cat",), embeddings=files)
    assert [event.text for event in reported if isinstance(event, Warned)] == [
        'mycat.safetensors: no prompt contains "mycat" or "inner"'
    ]


def test_an_embedding_that_replaces_the_output_works_alone_and_out_of_a_bundle(generate, tmp_path):
    one = Embedding("word", {}, embedding("word").vectors)
    write_embedding(tmp_path / "word.safetensors", one)
    lora = write_lora(tmp_path / "l.safetensors", scale=0.0, embeddings={"word": one})
    (plain,), _ = generate(prompts=("a word",))
    (alone,), _ = generate(prompts=("a word",), embeddings=(str(tmp_path / "word.safetensors"),))
    (bundled,), _ = generate(prompts=("a word",), loras=(SampledLora(path=lora),))
    assert change(plain, alone) > 1
    assert change(alone, bundled) == 0
    direct = tiny.family().with_embeddings({"word": one})
    prompt = Prompt(prompt="a word", seed=42, width=64, height=64)
    (expected,) = sample(direct, [prompt], steps=2, guidance=7.0)
    assert change(alone, numpy.asarray(to_image(expected)).astype(int)) <= 1


def test_a_lora_for_another_kind_of_model_is_refused_with_its_name(generate, tmp_path):
    path = tmp_path / "xl.safetensors"
    name = "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q"
    tensors = {f"{name}.lora_down.weight": torch.ones(4, 640),
               f"{name}.lora_up.weight": torch.ones(640, 4)}  # fmt: skip
    write_safetensors(path, tensors, {})
    with pytest.raises(UserError, match=r"xl\.safetensors"):
        generate(loras=(SampledLora(path=str(path)),))


@pytest.fixture
def nothing_is_loaded(monkeypatch):
    def load(*_arguments, **_options):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("modules.jobs.loaded_model.load_family", load)


def test_a_folder_that_cannot_be_written_is_reported_before_a_model_is_loaded(
    generate, tmp_path, nothing_is_loaded
):
    (tmp_path / "file").write_text("a file")
    for name, message in (("file", "--out"), ("file/below", "--out"), ("x" * 300, "longer than")):
        with pytest.raises(UserError, match=message):
            generate(out=str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_disk_without_room_for_all_images_is_reported_before_one_is_sampled(
    generate, tmp_path, monkeypatch
):
    # Four images of 64 × 64 pixels, each of 3 bytes; the grid has all of them once more.
    request = {"prompts": ("a", "b"), "seeds": (1, 2)}
    for grid, room in ((False, 49152), (True, 98304)):
        monkeypatch.setattr(
            "shutil.disk_usage", lambda _, free=room - 1: SimpleNamespace(free=free)
        )
        with pytest.raises(UserError, match=r"the disk has [49][98]\..* kB free.*--out"):
            generate(**request, grid=grid)
        assert not (tmp_path / "out").exists()
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=98304))
    found, _ = generate(**request, grid=True)
    height, width, _ = found[-1].shape
    assert len(found) == 5
    assert (width > 2 * 64, height > 2 * 64) == (True, True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir())[-1] == "00005-grid.png"


def test_a_negative_prompt_without_guidance_is_reported_to_have_no_effect(generate):
    for guidance, negative, is_reported in ((1.0, "blurry", True), (1.0, "", False)):
        _, reported = generate(guidance=guidance, negative=negative)
        notes = [event.text for event in reported if isinstance(event, Warned)]
        assert notes == ["at guidance 1 the negative prompt has no effect"] * is_reported


def test_a_lora_for_another_base_is_refused_before_a_model_of_the_hub_is_loaded(
    generate, base, tmp_path, nothing_is_loaded, monkeypatch
):
    monkeypatch.setattr("modules.jobs.base_model.fetch", lambda *_arguments, **_options: base)
    name = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn2_to_k"
    tensors = {f"{name}.lora_down.weight": torch.ones(4, 1024),
               f"{name}.lora_up.weight": torch.ones(64, 4)}  # fmt: skip
    write_safetensors(tmp_path / "two.safetensors", tensors, {})
    with pytest.raises(UserError, match=r"this LoRA was made for SD 2.*; the model is SD 1\.5"):
        generate(base="owner/model", loras=(SampledLora(path=str(tmp_path / "two.safetensors")),))


def test_embeddings_of_another_width_are_reported_in_one_sentence_each(generate, tmp_path):
    wide = Embedding("wide", {"te": torch.ones(1, 31)})
    write_embedding(tmp_path / "wide.safetensors", wide)
    with pytest.raises(UserError) as raised:
        generate(prompts=("a wide",), embeddings=(str(tmp_path / "wide.safetensors"),))
    assert 'The embedding "wide" has vectors of 31 numbers' in str(raised.value)
    assert f"Expected vectors of {tiny.WIDTH} numbers (" in str(raised.value)


def test_a_model_of_the_hub_is_fetched_and_named_whole(generate, base, monkeypatch, tmp_path):
    asked = []

    def fetch(name, *, offline, report, revision):
        asked.append((name, offline))
        report("downloading")
        return base

    monkeypatch.setattr("modules.jobs.base_model.fetch", fetch)
    (found,), reported = generate(base="owner/model", offline=True)
    assert asked == [("owner/model", True)]
    assert change(found, generate()[0][0]) == 0
    assert reported[0] == Phase("loading", detail="downloading")
    with Image.open(tmp_path / "out" / "00001-42.png") as image:
        assert "Model: owner/model, " in image.info["parameters"]


def test_a_lora_that_holds_no_numbers_is_refused_rather_than_sampled(generate, tmp_path):
    write_lora(tmp_path / "nan.safetensors", scale=float("nan"))
    with pytest.raises(UserError, match=r"nan\.safetensors: .*NaN or infinity.*lora_unet"):
        generate(loras=(SampledLora(path=str(tmp_path / "nan.safetensors")),))


def test_prompt_weights_are_read_on_request_and_warned_of_otherwise(generate):
    (plain, text), reported = generate(prompts=("a red cat", "a (red:3) cat"))
    assert change(plain, text) > 0  # by the tokens of the parentheses
    assert sum("plain text" in str(event) for event in reported) == 1
    found, reported = generate(prompts=("a (red:1) cat", "a (red:3) cat"), prompt_weights="a1111")
    assert change(plain, found[0]) == 0 < change(plain, found[1])
    assert not [event for event in reported if isinstance(event, Warned)]
