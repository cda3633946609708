"""CLIP's rewards: against transformers' own networks and images, in every form of file.

The towers read from OpenCLIP's layout were also compared with open_clip 3.3.0 itself, its tokenizer
too: at most 2.1e-7 apart. Here its layout is written out of transformers' tensors.
"""

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from modules.rewards.load import empty_rewards, make_rewards
from modules.rewards.networks import clip_load
from modules.rewards.networks.clip_load import published_clip
from modules.rewards.networks.clip_pixels import DEVIATION, clip_pixels
from modules.rewards.networks.heads import PUBLISHED
from modules.rewards.networks.network_files import find_network, select_files
from onetrainer.config.rewards.reward import Reward as Section
from onetrainer.errors import UserError
from tests.close import close, near
from tests.each import each

CPU = torch.device("cpu")
SIDE, WIDTH = 28, 24
PROMPTS = ("a cat", "a red house by the sea")
TOWER = {"num_hidden_layers": 2, "hidden_act": "gelu"}


@pytest.fixture(scope="module", autouse=True)
def one_tokenizer():
    """Read once: that takes longer than all that these networks compute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clip_load, "_common_tokenizer", cache(clip_load._common_tokenizer))
        yield


@pytest.fixture(scope="module")
def network():
    """A tiny CLIP of transformers, as its own program has it."""
    torch.manual_seed(0)
    config = CLIPConfig(
        text_config=TOWER
        | {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 1}
        | {"eos_token_id": 49407},
        vision_config=TOWER
        | {"hidden_size": 128, "intermediate_size": 48, "num_attention_heads": 2}
        | {"image_size": SIDE, "patch_size": 14},
        projection_dim=WIDTH,
    )
    made = CLIPModel(config).eval().requires_grad_(False)
    for parameter in made.parameters():
        if parameter.dim():
            torch.nn.init.normal_(parameter, std=0.2)
    return made


@pytest.fixture(scope="module")
def folder(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "clip"
    network.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def open_clip_file(network, tmp_path_factory):
    """The same network as OpenCLIP writes it, in a pickle with a `state_dict` inside."""
    path = tmp_path_factory.mktemp("files") / "HPS_v2.1_compressed.pt"
    torch.save({"epoch": 7, "state_dict": in_open_clip(network.state_dict())}, path)
    return path


def in_open_clip(state):
    """transformers' tensors under OpenCLIP's names, turned and fused as there."""
    state, made = dict(state), {}
    for name in [one for one in state if "q_proj" in one]:
        made[name.replace("q_proj.", "in_proj_")] = torch.cat(
            [state.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        )
    made |= state
    words = [
        (r"vision_model\.encoder\.layers", "visual.transformer.resblocks"),
        (r"text_model\.encoder\.layers", "transformer.resblocks"),
        (r"self_attn", "attn"),
        (r"layer_norm(\d)", r"ln_\1"),
        (r"mlp\.fc1", "mlp.c_fc"),
        (r"mlp\.fc2", "mlp.c_proj"),
        (r"vision_model\.embeddings\.class_embedding", "visual.class_embedding"),
        (r"vision_model\.embeddings\.patch_embedding", "visual.conv1"),
        (r"vision_model\.embeddings\.position_embedding\.weight", "visual.positional_embedding"),
        (r"vision_model\.pre_layrnorm", "visual.ln_pre"),
        (r"vision_model\.post_layernorm", "visual.ln_post"),
        (r"text_model\.embeddings\.token_embedding", "token_embedding"),
        (r"text_model\.embeddings\.position_embedding\.weight", "positional_embedding"),
        (r"text_model\.final_layer_norm", "ln_final"),
    ]
    turned = {
        "visual_projection.weight": "visual.proj",
        "text_projection.weight": "text_projection",
    }
    found = {}
    for name, tensor in made.items():
        if name in turned:
            found[turned[name]] = tensor.T.contiguous()
            continue
        for pattern, word in words:
            name = re.sub(pattern, word, name)
        found[name] = tensor
    return found


def reward(model, kind="clip", dtype=torch.float32, **settings):
    section = Section(reward=kind, model=str(model), **settings)
    return make_rewards([section], device=CPU, dtype=dtype, offline=True, report=print)[0]


def images(count=2, height=40, width=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 7, 6, generator=generator)
    return torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")


def own_scores(network, shown, prompts, clip):
    """The cosines, by transformers' own forward."""
    ids = clip.tokenizer(list(prompts), padding=True, return_tensors="pt")
    output = network(pixel_values=clip_pixels(shown, SIDE), **ids)
    return output.logits_per_image.diagonal(), (output.image_embeds * output.text_embeds).sum(-1)


def test_pixels_equal_those_of_transformers_up_to_a_level():
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    for size in [(50, 83), (97, 41), (28, 28), (20, 31)]:
        levels = (images(1, *size)[0] * 255).round()
        image = Image.fromarray(levels.permute(1, 2, 0).numpy().astype(np.uint8))
        wanted = processor(image, return_tensors="pt")["pixel_values"]
        apart = (clip_pixels(levels[None] / 255, SIDE) - wanted).abs()
        # In levels; Pillow rounds twice.
        apart = apart * torch.tensor(DEVIATION)[:, None, None] * 255
        assert apart.max() <= 1.5, size
        assert apart.mean() <= 0.5, size


@pytest.mark.parametrize("form", ["folder", "open_clip_file"])
def test_scores_equal_those_of_transformers_from_every_form_of_file(request, network, form):
    model, shown = request.getfixturevalue(form), images()
    clip, pick, hps = (reward(model, kind) for kind in ("clip", "pickscore", "hpsv2"))
    scaled, cosines = own_scores(network, shown, PROMPTS, clip.clip)
    close(clip.score(shown, PROMPTS), 100 * cosines)
    close(pick.score(shown, PROMPTS), scaled)
    square = images(2, SIDE, SIDE)
    _, cosines = own_scores(network, square, PROMPTS, clip.clip)
    close(hps.score(square, PROMPTS), cosines)


def test_a_file_of_transformers_tensors_alone_is_read(network, tmp_path, folder):
    state = {f"clip.{name}": tensor for name, tensor in network.state_dict().items()}
    save_file(state, tmp_path / "any-name.safetensors")
    shown, alone = images(), reward(tmp_path / "any-name.safetensors")
    wanted = reward(folder).score(shown, PROMPTS)
    close(alone.score(shown, PROMPTS), wanted)


def test_gradient_of_a_score_equals_central_differences(folder):
    clip = reward(folder, dtype=torch.float64, unlike="dull")
    shown = images(1).double().requires_grad_()
    (gradient,) = torch.autograd.grad(clip.score(shown, ["a cat"]).sum(), shown)
    generator = torch.Generator().manual_seed(1)
    way = torch.randn(shown.shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        high, low = (clip.score(shown + side * 1e-5 * way, ["a cat"]) for side in (1, -1))
    wanted = (high - low).item() / 2e-5
    assert (gradient * way).sum().item() == near(wanted)


def test_a_network_in_bf16_scores_nearly_the_same_and_passes_a_gradient_on(folder):
    half, whole = reward(folder, dtype=torch.bfloat16), reward(folder)
    shown = images().requires_grad_()
    scores = half.score(shown, PROMPTS)
    scores.sum().backward()
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, whole.score(shown, PROMPTS), rtol=0, atol=3)  # of 100
    assert shown.grad.isfinite().all()
    assert shown.grad.abs().max() > 0


def test_a_text_stands_in_for_prompts_and_another_is_taken_off(folder):
    shown, plain = images(), reward(folder)
    given = reward(folder, text="a cat").score(shown, PROMPTS)
    close(given, plain.score(shown, ["a cat"] * 2))
    less = reward(folder, unlike="blurry").score(shown, PROMPTS)
    wanted = plain.score(shown, PROMPTS) - plain.score(shown, ["blurry"] * 2)
    close(less, wanted)


def test_networks_are_frozen_and_never_train(folder):
    networks = reward(folder).extra_modules()
    assert not any(module.training for module in networks.modules())
    assert not any(parameter.requires_grad for parameter in networks.parameters())
    assert sum(parameter.numel() for parameter in networks.parameters()) > 1_000_000


def test_rewards_of_one_network_load_it_once_and_score_as_alone(folder, tmp_path):
    head_file(tmp_path / "head.safetensors")
    sections = [
        Section(reward="aesthetic", model=str(folder), head=str(tmp_path / "head.safetensors")),
        Section(reward="clip", model=str(folder)),
        Section(reward="clip", model=str(folder), unlike="dull"),
    ]
    made = make_rewards(sections, device=CPU, dtype=torch.float32, offline=True, report=print)
    towers = [one.clip.vision for one in made]
    assert towers[0] is towers[1] is towers[2]
    assert made[1].clip.text is made[2].clip.text
    assert made[0].clip.text is None
    empty = empty_rewards(sections, dtype=torch.float32)
    for rewards in (made, empty):
        networks = torch.nn.ModuleList([one.extra_modules() for one in rewards])
        alone = torch.nn.ModuleList([rewards[0].extra_modules(), rewards[1].extra_modules()])
        assert len([*networks.parameters()]) == len([*alone.parameters()])
    for one, section in zip(made, sections, strict=True):
        own = make_rewards([section], device=CPU, dtype=torch.float32, offline=True, report=print)[
            0
        ]
        assert torch.equal(one.score(images(), PROMPTS), own.score(images(), PROMPTS))


def head_file(path, sizes=PUBLISHED, width=WIDTH):
    """A head as the published files have it: numbers with gaps, where dropouts stand."""
    generator, state, before = torch.Generator().manual_seed(3), {}, width
    for place, size in enumerate(sizes):
        name = f"layers.{3 * place}." if len(sizes) > 1 else ""  # 12 comes after 9
        state[f"{name}weight"] = torch.randn(size, before, generator=generator) / before**0.5
        state[f"{name}bias"] = torch.randn(size, generator=generator)
        before = size
    torch.save(state, path)
    return list(state.values())


@pytest.mark.parametrize("sizes", [PUBLISHED, (1,)])
def test_aesthetic_score_is_the_head_of_the_unit_vector(network, folder, tmp_path, sizes):
    tensors = head_file(tmp_path / "head.pth", sizes)
    aesthetic = reward(folder, "aesthetic", head=str(tmp_path / "head.pth"))
    shown = images()
    features = network.get_image_features(clip_pixels(shown, SIDE)).pooler_output
    wanted = features / features.norm(dim=-1, keepdim=True)
    for weight, bias in zip(tensors[::2], tensors[1::2], strict=True):
        wanted = wanted @ weight.T + bias
    close(aesthetic.score(shown, PROMPTS), wanted[:, 0])


def test_a_head_of_another_network_is_refused(folder, tmp_path):
    head_file(tmp_path / "head.pth", width=WIDTH + 1)
    with pytest.raises(UserError, match=f"reads {WIDTH + 1} numbers, this CLIP returns {WIDTH}"):
        reward(folder, "aesthetic", head=str(tmp_path / "head.pth"))


def test_a_vision_tower_alone_is_enough_where_no_text_is_read(network, folder, tmp_path):
    state = {
        name: tensor for name, tensor in network.state_dict().items() if name.startswith("visi")
    }
    state["visual_projection.weight"] = network.visual_projection.weight
    save_file(state, tmp_path / "vision.safetensors")
    head_file(tmp_path / "head.pth")
    scores = [
        reward(model, "aesthetic", head=str(tmp_path / "head.pth")).score(images(), PROMPTS)
        for model in (tmp_path / "vision.safetensors", folder)
    ]
    close(*scores)
    with pytest.raises(UserError, match="no text tower of a CLIP"):
        reward(tmp_path / "vision.safetensors", "clip")


def test_a_file_with_tensors_missing_is_refused_by_the_first_of_them(network, tmp_path):
    state = dict(network.state_dict())
    del state["vision_model.post_layernorm.bias"]
    save_file(state, tmp_path / "torn.safetensors")
    with pytest.raises(UserError, match=r"1 tensor .* first vision_model\.post_layernorm\.bias"):
        reward(tmp_path / "torn.safetensors")


@pytest.mark.parametrize(("name", "count"), [("vit-l-14", 427_616_513), ("vit-h-14", 986_109_441)])
def test_published_networks_have_their_published_sizes(name, count):
    """OpenAI's ViT-L/14, and OpenCLIP's ViT-H/14 by its model profile, logit scales included."""
    networks = published_clip(name, texts=True, dtype=torch.bfloat16).modules()
    assert sum(parameter.numel() for parameter in networks.parameters()) + 1 == count
    assert {parameter.device.type for parameter in networks.parameters()} == {"meta"}


@pytest.mark.parametrize(
    "kind",
    [
        "pickscore",
        "aesthetic",
        "image_reward",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("clip", "hpsv2")),
    ],
)
def test_an_empty_reward_computes_without_numbers_or_files(kind):
    section = Section(reward=kind, model="nobody/nothing-at-all", head="missing.pth")
    empty = empty_rewards([section], dtype=torch.bfloat16)[0]
    shown = torch.zeros(2, 3, 64, 64, device="meta", requires_grad=True)
    scores = empty.score(shown, PROMPTS)
    assert scores.shape == (2,)
    assert scores.is_meta
    assert scores.requires_grad
    assert all(parameter.is_meta for parameter in empty.extra_modules().parameters())


def test_an_empty_reward_has_the_sizes_of_its_own_file(folder):
    empty = empty_rewards([Section(reward="clip", model=str(folder))], dtype=torch.float32)[0]
    full = reward(folder).extra_modules()
    assert [tensor.shape for tensor in empty.extra_modules().parameters()] == [
        tensor.shape for tensor in full.parameters()
    ]


@each(
    ("names", "usual", "wanted"),
    [
        (
            ["config.json", "model.safetensors", "pytorch_model.bin", "flax/model.msgpack"],
            (),
            ["config.json", "model.safetensors"],
        ),
        (
            ["HPS_v2_compressed.pt", "HPS_v2.1_compressed.pt", "README.md"],
            ("HPS_v2.1_compressed.pt", "HPS_v2_compressed.pt"),
            ["HPS_v2.1_compressed.pt"],
        ),
        (["open_clip_pytorch_model.bin", "vocab.json"], (), ["open_clip_pytorch_model.bin"]),
    ],
)
def test_of_a_repository_one_form_of_the_weights_is_taken(names, usual, wanted):
    assert set(select_files(names, usual)) == {*wanted, *({"vocab.json"} & {*names})}


def test_a_downloaded_network_is_used_offline_without_the_files_that_were_not_chosen(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository, commit = (
        tmp_path / "models--owner--clip",
        "0123456789abcdef0123456789abcdef01234567",
    )
    listed = {name: {"size": 1, "blob_id": "b"} for name in ("model.safetensors", "README.md")}
    for path, text in {
        "refs/main": commit,
        f"trees/{commit}.json": json.dumps({"format_version": 1, "files": listed}),
        f"snapshots/{commit}/model.safetensors": "",
    }.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    found = find_network("owner/clip", offline=True, report=lambda _: None)
    assert [path.name for path in found.weights] == ["model.safetensors"]


def test_a_network_that_is_not_there_is_reported_without_the_network(no_network, tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        reward(tmp_path / "missing.safetensors")
    with pytest.raises(UserError, match="not been downloaded yet"):
        reward("nobody/nothing-at-all")


def test_likeness_to_references_is_the_cosine_with_their_mean(network, folder, tmp_path):
    saved = (images(3, 31, 40, seed=5) * 255).round().to(torch.uint8)
    for place, image in enumerate(saved):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{place}.png")
    likeness = reward(folder, "reference", folder=str(tmp_path))
    shown = images()
    vectors = [
        network.get_image_features(clip_pixels(one, SIDE)).pooler_output
        for one in (saved / 255, shown)
    ]
    references, own = (one / one.norm(dim=-1, keepdim=True) for one in vectors)
    wanted = torch.cosine_similarity(own, references.mean(dim=0), dim=-1)
    close(likeness.score(shown, PROMPTS), wanted)
