"""Embeddings that train together with a LoRA."""

import itertools

import pytest
import torch
from safetensors.torch import load_file

from modules.formats.embeddings.embedding_file import read_embeddings_by_token
from modules.interfaces import ExportOptions
from modules.memory.precision import autocast
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings
from modules.methods.joint import Joint
from onetrainer.config.methods.embedding import Embeddings as Section
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.model_files.embedding_keys import bundled
from tests import tiny
from tests.cases import cases

CAPTIONS = ["a photo of <cat> and <dog>", "<dog>"]
CPU = torch.device("cpu")


def attach(base="sdxl", *, dtype=torch.float32, **section):
    words = [
        EmbeddingToken(token="<cat>", initial_text="cat", vectors=2),
        EmbeddingToken(token="<dog>", place="output"),
    ]
    family = tiny.family(base, compute_dtype=dtype)
    family, embeddings = Embeddings.attach(family, Section(tokens=words, **section), seed=3)
    lora = Adapters.attach(family, LoraSection(rank=2, **tiny.encoders()), seed=3)
    return family, Joint(lora, embeddings)


def train(family, method, *, precision="fp32", steps=2):
    parameters = {n: p for g in method.parameter_groups() for n, p in g.parameters.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=0.01)
    method.train(True)
    for _ in range(steps):
        with autocast(CPU, precision):
            encoded = family.encode_text(CAPTIONS)
        encoded.hidden.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step()
    method.train(False)
    return parameters


def encode(family):
    with torch.no_grad():
        return family.encode_text(CAPTIONS).hidden


@pytest.mark.parametrize(
    ("base", "dtype"),
    cases(
        itertools.product(["sd15", "sd2", "sdxl"], [torch.float32, torch.bfloat16, torch.float16]),
        [("sd15", torch.float32), ("sd2", torch.float16), ("sdxl", torch.bfloat16)],
    ),
)
def test_tokens_and_adapters_on_the_text_encoders_train_together(base, dtype):
    precision = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    family, method = attach(base, dtype=dtype)
    before = {name: rows.clone() for name, rows in method.state_dict().items()}
    parameters = train(family, method, precision=precision)
    assert parameters.keys() == method.state_dict().keys()
    moved = {n for n, rows in method.state_dict().items() if not torch.equal(rows, before[n])}
    # Of text encoders the first layer: of SDXL's, not all are read. Down matrices move later.
    assert {n for n in before if "<" in n or ("_layers_0_" in n and "lora_up" in n)} <= moved
    assert all(bool(rows.isfinite().all()) for rows in method.state_dict().values())
    assert {group.component for group in method.parameter_groups()} >= {"unet", "embeddings"}
    assert all(p.dtype == torch.float32 and p.isfinite().all() for p in parameters.values())


def test_a_saved_state_is_taken_up_and_base_model_is_before_both():
    family, method = attach()
    begun = encode(family)
    train(family, method)
    trained = encode(family)
    other, resumed = attach()
    resumed.load_state_dict({name: rows.clone() for name, rows in method.state_dict().items()})
    assert torch.equal(encode(other), trained)
    with method.base_model():
        assert torch.equal(encode(family), begun)
    assert torch.equal(encode(family), trained)
    assert not torch.equal(begun, trained)
    with pytest.raises(ValueError, match="<cat>"):
        resumed.load_state_dict({n: t for n, t in method.state_dict().items() if "<" not in n})


@pytest.mark.parametrize("is_bundled", [True, False])
def test_the_files_are_the_adapters_and_each_tokens(tmp_path, is_bundled):
    family, method = attach(bundle=is_bundled)
    train(family, method)
    paths = method.export(tmp_path / "my-lora", ExportOptions(torch.float32, {}))
    names = ["my-lora.safetensors", "my-lora-cat.safetensors", "my-lora-dog.safetensors"]
    assert [path.name for path in paths] == names
    words = {member[0] for key in load_file(paths[0]) if (member := bundled(key))}
    assert words == ({"<cat>", "<dog>"} if is_bundled else set())
    if is_bundled:
        for path, word in zip(paths[1:], ("<cat>", "<dog>"), strict=True):
            (alone,), together = (
                read_embeddings_by_token(path).values(),
                read_embeddings_by_token(paths[0])[word],
            )
            for one, same in ((alone.vectors, together.vectors), (alone.outputs, together.outputs)):
                assert one.keys() == same.keys()
                assert all(torch.equal(one[te], same[te]) for te in one)
