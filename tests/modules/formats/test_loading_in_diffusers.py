"""The lines of docs/files.md that load our files in diffusers, as they stand there."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from modules.formats.embeddings.embedding_file import Embedding, write_embedding
from modules.methods.adapters.adapters import Adapters
from onetrainer import ROOT
from onetrainer.config.methods.low_rank import Lora
from tests import tiny
from tests.adapters import shake
from tests.exports import export

# Of diffusers' Euler sampler, about an array of its own.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
TOKEN, NUMBER = "<my-token>", 49408
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "files.md").read_text("utf-8"), re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_files(folder, name):
    """A model as people have them, with encoders in float16 and the old end of texts; additions."""
    base = tiny.write_folder(folder / "my-model", name=name)
    for encoder in base.glob("text_encoder*"):
        weights = load_file(encoder / "model.safetensors")
        halves = {key: value.half() for key, value in weights.items()}
        save_file(halves, encoder / "model.safetensors", {"format": "pt"})
        config = json.loads((encoder / "config.json").read_text())
        changed = config | {"eos_token_id": 2, "torch_dtype": "float16", "dtype": "float16"}
        (encoder / "config.json").write_text(json.dumps(changed))
    family = tiny.family(name)
    method = Adapters.attach(family, Lora(rank=2), seed=0)
    shake(method)
    export(method, folder / "my-lora.safetensors", dtype=torch.float32, metadata={})
    widths = {te: encoder.config.hidden_size for te, encoder in family.text_encoders.items()}
    vectors = {te: torch.full((1, width), 0.5) for te, width in widths.items()}
    write_embedding(folder / "my-embedding.safetensors", Embedding(TOKEN, vectors))


@pytest.mark.parametrize(("name", "block"), [("sd15", BLOCKS[0]), ("sdxl", BLOCKS[1])])
def test_the_documented_lines_load_our_files(folder, name, block):
    write_files(folder, name)
    names = {}
    exec(block, names)  # as a reader does
    pipe = names["pipe"]
    assert {pipe.unet.dtype, pipe.text_encoder.dtype, pipe.vae.dtype} == {torch.float16}
    assert any("lora" in key for key, _ in pipe.unet.named_parameters())
    for encoder in [pipe.text_encoder, getattr(pipe, "text_encoder_2", None)]:
        if encoder is not None:
            row = encoder.get_input_embeddings().weight[NUMBER]
            assert torch.equal(row, torch.full_like(row, 0.5))
    pipe.set_progress_bar_config(disable=True)
    latents = pipe(TOKEN, width=64, height=64, num_inference_steps=1, output_type="latent").images[
        0
    ]
    assert latents.shape == (4, 8, 8)


def test_without_one_dtype_the_pipeline_raises_at_the_first_image(folder):
    write_files(folder, "sd15")
    names = {}
    exec(BLOCKS[0].replace(", dtype=torch.float16", ""), names)
    with pytest.raises(RuntimeError):
        names["pipe"]("a cat", width=64, height=64, num_inference_steps=1)


def test_without_the_last_line_a_text_is_pooled_at_the_embedding(folder):
    write_files(folder, "sdxl")
    same = {}
    for lines in (BLOCKS[1], BLOCKS[1].rpartition("pipe.text_encoder_2.text")[0]):
        names = {}
        exec(lines, names)
        ends = [names["pipe"].encode_prompt(f"a {TOKEN} {end}")[2] for end in ("cat", "dog")]
        same[lines == BLOCKS[1]] = torch.equal(*ends)
    assert same == {True: False, False: True}
