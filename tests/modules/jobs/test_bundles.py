"""Embeddings in LoRA files, from the command's options to the tokens of a prompt."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from modules.formats.embeddings.embedding_file import Embedding, read_embedding, write_embedding
from modules.formats.lora.lora_file import read_lora
from modules.formats.lora.standard_names import standard_names
from modules.jobs.loaded_model import embeddings_of
from onetrainer.__main__ import make_parser
from onetrainer.cli.show import describe
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.jobs.options import request_values
from onetrainer.jobs.sample_request import SampledLora, SampleRequest

VECTORS = torch.randn(3, 768, generator=torch.Generator().manual_seed(0))
LAYER = "unet.mid_block.attentions.0.transformer_blocks.0.attn2.to_k"


@pytest.fixture
def lora(tmp_path):
    tensors = {f"{LAYER}.lora_A.weight": torch.ones(2, 768)}
    tensors |= {f"{LAYER}.lora_B.weight": torch.ones(1280, 2)}
    save_file(tensors, tmp_path / "lora.safetensors")
    return tmp_path / "lora.safetensors"


@pytest.fixture
def bundle(tmp_path, lora, run):
    """A LoRA with two embeddings, made as the command makes it."""
    files = []
    for word, factor in (("v1.5 cat", 1.0), ("dog", 2.0)):
        path = tmp_path / f"{word}.safetensors"
        write_embedding(path, Embedding("", {"te": factor * VECTORS}))
        files.append(str(path))
    run(lora, tmp_path / "bundle.safetensors", bundle=files)
    return tmp_path / "bundle.safetensors"


def test_the_option_may_be_given_again():
    options = make_parser("convert").parse_args(
        ["convert", "a", "b", "--bundle", "c", "--bundle", "d"]
    )
    assert ConvertRequest(**request_values(options, ConvertRequest)).bundle == ("c", "d")


def test_bundled_embeddings_are_shown_and_used_under_their_token(bundle):
    assert [found["name"] for found in describe(bundle).document["embeddings"]] == [
        "dog",
        "v1.5 cat",
    ]
    used = (SampledLora(path=str(bundle)),)
    request = SampleRequest(base="x", prompts=("a",), seeds=(0,), out="x", loras=used)
    found = dict(embeddings_of(request, used, [read_lora(bundle, standard_names("sd15"))]))[
        bundle.name
    ]
    assert torch.equal(found["v1.5 cat"].vectors["te"], VECTORS)
    assert torch.equal(found["dog"].vectors["te"], 2 * VECTORS)


def test_a_name_takes_one_out(tmp_path, bundle, run):
    target, alone = tmp_path / "out.safetensors", tmp_path / "words.safetensors"
    words = {key: t for key, t in load_file(bundle).items() if key.startswith("bundle_emb.")}
    save_file(words, alone)
    for source in (bundle, alone):
        run(source, target, name="v1.5 cat", overwrite=True)
        assert load_file(target).keys() == {"emb_params"}
        assert torch.equal(read_embedding(target).vectors["te"], VECTORS)


def test_a_name_that_is_not_there_is_refused(tmp_path, bundle, lora, run):
    with pytest.raises(UserError, match=r'this file holds 2 embeddings: dog, v1\.5 cat.*"cat"'):
        run(bundle, tmp_path / "out.safetensors", name="cat")
    with pytest.raises(UserError, match="without bundled embeddings"):
        run(lora, tmp_path / "out.safetensors", name="cat")
    assert not (tmp_path / "out.safetensors").exists()
