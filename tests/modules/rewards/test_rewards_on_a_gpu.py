"""Networks of rewards on a pretended GPU: the same bits, and nothing waits for it."""

import pytest
import torch
from transformers import CLIPConfig, CLIPModel

from modules.rewards.load import make_rewards
from onetrainer.config.rewards.reward import Reward as Section
from tests import pretend
from tests.modules.rewards.networks.test_image_reward import WORDS, file_tensors

PROMPTS = ("a cat", "dogs, a cat")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The networks' files, by reward."""
    folder = tmp_path_factory.mktemp("networks")
    torch.manual_seed(0)
    tower = {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 32}
    tower |= {"num_attention_heads": 1}
    vision = tower | {"image_size": 28, "patch_size": 14}
    CLIPModel(
        CLIPConfig(text_config=tower, vision_config=vision, projection_dim=24)
    ).save_pretrained(folder / "clip")
    torch.save(file_tensors(), folder / "ImageReward.pt")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return {"hpsv2": folder / "clip", "image_reward": folder / "ImageReward.pt"}


def scored(section, device, waits=lambda: []):
    """Scores, their gradient, and for what was waited meanwhile."""
    device = torch.device(device)
    made = make_rewards([section], device=device, dtype=torch.float32, offline=True, report=print)[
        0
    ]
    shown = torch.rand(2, 3, 40, 36, generator=torch.Generator().manual_seed(1)).to(device)
    shown.requires_grad_()
    before = len(waits())
    scores = made.score(shown, PROMPTS)
    scores.sum().backward()
    waited = list(waits())[before:]
    return scores.detach().cpu(), shown.grad.cpu(), waited


@pytest.mark.parametrize("kind", ["hpsv2", "image_reward"])
def test_on_a_gpu_scores_are_the_same_and_nothing_waits(models, kind):
    section = Section(reward=kind, model=str(models[kind]))
    plain = scored(section, "cpu")
    with pretend.accelerator() as gpu:
        found = scored(section, "cuda", lambda: gpu.syncs)
    assert torch.equal(found[0], plain[0])
    assert torch.equal(found[1], plain[1])
    assert found[2] == []
