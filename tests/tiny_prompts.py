"""CLIP's text encoders a thousand times smaller with the real tokenizer, alone and in pipelines."""

import copy
from functools import cache
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline, StableDiffusionXLPipeline
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
)

from modules.families.prompts.prompts import ClipEncoder, ClipPrompts
from modules.formats.embeddings.embedding_file import Embedding

CONFIGS = Path(__file__).parents[1] / "configs" / "models" / "sd15"
START, END = 49406, 49407
LARGE, GIANT, POOLED = 32, 40, 48  # widths


def config(width, layers, *, act="quick_gelu", end=END, projection=None):
    return CLIPTextConfig(
        vocab_size=49408,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        projection_dim=projection or width,
        hidden_act=act,
        bos_token_id=49406,
        eos_token_id=end,
        pad_token_id=1,
    )


def make(kind, *args, **kwargs):
    """An untrained encoder whose layers, norms and projections all matter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = kind(config(*args, **kwargs)).eval()
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                torch.nn.init.normal_(parameter, 1.0 if name.endswith("weight") else 0.0, 0.3)
            elif "embedding" not in name:
                torch.nn.init.normal_(parameter, 0.0, 0.15)
    return model.requires_grad_(False)


@cache
def tokenizer():
    return CLIPTokenizer.from_pretrained(CONFIGS / "tokenizer")


@cache
def padded_with_bang():
    """SD 2's and SDXL's second tokenizer, as their folders have it."""
    return CLIPTokenizer.from_pretrained(CONFIGS / "tokenizer", pad_token="!")


@cache
def large():
    return make(CLIPTextModel, LARGE, 4)


@cache
def giant(end=2):
    """As the folders of SDXL have it: transformers then pools at the highest id."""
    sizes = (GIANT, 5)
    return make(CLIPTextModelWithProjection, *sizes, act="gelu", projection=POOLED, end=end)


def core(model):
    """The level of CLIPTextModelWithProjection that CLIPTextModel is."""
    return model.text_model if isinstance(model, CLIPTextModelWithProjection) else model


def sd15():
    return ClipPrompts(tokenizer(), (ClipEncoder("te", large(), END, 1, True),))


def sdxl():
    first = ClipEncoder("te1", large(), END, 2, False)
    return ClipPrompts(tokenizer(), (first, ClipEncoder("te2", giant(), 0, 2, False, True)))


def embedding(length, *, encoders=("te1", "te2"), seed=0, dtype=torch.float32):
    """Vectors for these encoders, far from those of any real token."""
    generator = torch.Generator().manual_seed(seed)
    widths = {"te": LARGE, "te1": LARGE, "te2": GIANT}
    made = {te: torch.randn(length, widths[te], generator=generator) for te in encoders}
    return Embedding("smiley", {te: vectors.to(dtype) for te, vectors in made.items()})


def sd_pipeline(model=None, its_tokenizer=None):
    """A pipeline of the caller's own that can encode prompts, and nothing else."""
    model, its_tokenizer = copy.deepcopy((model or large(), its_tokenizer or tokenizer()))
    return StableDiffusionPipeline(
        None, model, its_tokenizer, None, None, None, None, requires_safety_checker=False
    )


def xl_pipeline(end=2):
    models = copy.deepcopy((large(), giant(end), tokenizer(), padded_with_bang()))
    return StableDiffusionXLPipeline(None, *models, None, None, add_watermarker=False)


def encode_with(pipe, captions, **options):
    given = {"device": "cpu", "num_images_per_prompt": 1, "do_classifier_free_guidance": False}
    encoded = pipe.encode_prompt(captions, **given, **options)
    return (encoded[0], encoded[2]) if len(encoded) == 4 else encoded[0]


def ids_of(tokenizer, text, pad, *, chunks=1):
    """The ids of a text's chunks, counted out by hand."""
    ids = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    rows = [[START, *ids[75 * n : 75 * n + 75], END] for n in range(chunks)]
    return [row + [pad] * (77 - len(row)) for row in rows]


def by_hand(encoder, rows):
    """What an encoder gives for rows of ids, each row alone and one after another."""
    outputs = [encoder.model(torch.tensor([r]), output_hidden_states=True) for r in rows]
    hidden = [output.hidden_states[-encoder.layer] for output in outputs]
    core = encoder.model.text_model if encoder.is_pooled else encoder.model
    hidden = [core.final_layer_norm(each) if encoder.is_normed else each for each in hidden]
    return torch.cat(hidden, dim=1), outputs[0][0]


def words(count):
    """A text of so many tokens."""
    some = ("cat", "dog", "red", "house", "tree", "sun", "of", "sea")
    return " ".join(some[(n * n + n // 5) % len(some)] for n in range(count))
