"""Rewards as one: what is added up, what is only monitored, and where gradients flow."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from modules.rewards.measures import Measure, brightness
from modules.rewards.mixer import Mixer, NamedReward
from tests.close import FLOAT64, close, near
from tests.each import each


@dataclass
class Channel:
    """Scores by 10 times the mean of one channel, and remembers how it was asked."""

    channel: int
    has_gradient: bool = True
    network: nn.Module = field(default_factory=lambda: nn.Linear(1, 1))
    asked: list = field(default_factory=list)

    def extra_modules(self):
        return self.network

    def score(self, images, prompts):
        enabled = torch.is_autocast_enabled("cpu")
        self.asked.append((images.requires_grad, torch.is_grad_enabled(), enabled, list(prompts)))
        return 10 * images[:, self.channel].mean(dim=(1, 2))


def images(*colors, requires_grad=False):
    flat = torch.tensor(colors, dtype=torch.float64)[:, :, None, None].expand(-1, -1, 4, 6)
    return flat.clone().requires_grad_(requires_grad)


THREE = ((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), (0.9, 0.4, 0.0))


def test_total_is_the_weighted_sum_in_spreads_from_the_bases_mean():
    red = NamedReward("red", Channel(0), weight=2.0, target=6.0)
    green = NamedReward("green", Channel(1), weight=-3.0, target=3.0)
    blue = NamedReward("blue", Channel(2), weight=0.5, normalize=False)
    monitored = NamedReward("monitored", Channel(2), is_trained=False, weight=100.0)
    mixer = Mixer([red, green, blue, monitored])
    base = dict.fromkeys(("red", "green", "blue", "monitored"), (4.0, 0.5))

    scores = Mixer(mixer.members, base).score(images(*THREE), ["a", "b", "c"])

    expected = [
        2 * (min(10 * r, 6) - 4) / 0.5 - 3 * (max(10 * g, 3) - 4) / 0.5 + 0.5 * 10 * b
        for r, g, b in THREE
    ]
    assert scores.total.tolist() == near(expected, eps=FLOAT64)
    plain = [[10 * color[place] for color in THREE] for place in (0, 1, 2, 2)]
    assert list(scores.by_name) == ["red", "green", "blue", "monitored"]
    for reported, wanted in zip(scores.by_name.values(), plain, strict=True):
        assert reported.tolist() == near(wanted, eps=FLOAT64)


def test_gradient_ends_beyond_the_target_in_the_direction_that_is_wanted():
    shown = images(*THREE, requires_grad=True)
    enough = NamedReward("enough", Channel(0), weight=1.0, target=4.0)
    less = NamedReward("less", Channel(1), weight=-1.0, target=5.0)
    Mixer([enough, less]).score(shown, [""] * 3).total.sum().backward()

    slopes = shown.grad.sum(dim=(2, 3))
    expected = torch.tensor([[10.0, 0, 0], [0, -10, 0], [0, 0, 0]], dtype=torch.float64)
    close(slopes, expected)


def test_only_trained_rewards_with_a_gradient_keep_a_graph():
    trained, plain, monitored = Channel(0), Channel(1, has_gradient=False), Channel(2)
    members = [
        NamedReward("trained", trained),
        NamedReward("plain", plain),
        NamedReward("monitored", monitored, is_trained=False),
    ]
    shown = images(*THREE, requires_grad=True)
    scores = Mixer(members).score(shown, ["a", "b", "c"])
    scores.total.sum().backward()

    assert shown.grad.sum(dim=(0, 2, 3)).tolist() == near([30, 0, 0])
    assert not any(score.requires_grad for score in scores.by_name.values())
    assert [reward.asked[0][:2] for reward in (trained, plain, monitored)] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    assert trained.asked[0][3] == ["a", "b", "c"]


@each("base", [{}, {"red": (5.0, float("nan"))}, {"red": (5.0, 1e-9)}])
def test_reward_without_a_known_spread_counts_in_its_own_units(base):
    mixer = Mixer([NamedReward("red", Channel(0), weight=2.0)], base)
    mean = 5.0 if base else 0.0
    total = mixer.score(images(*THREE), [""] * 3).total
    assert total.tolist() == near([2 * (10 * red - mean) for red, _, _ in THREE])


def test_mixer_of_trained_rewards_asks_no_other_and_keeps_the_base():
    monitored = Channel(1)
    members = [
        NamedReward("red", Channel(0)),
        NamedReward("monitored", monitored, is_trained=False),
    ]
    mixer = Mixer(members, {"red": (5.0, 2.0)}).trained()
    scores = mixer.score(images((0.9, 0, 0)), [""])
    assert scores.total.tolist() == near([2.0])
    assert (list(scores.by_name), monitored.asked) == (["red"], [])


def test_rewards_are_never_under_autocast():
    reward = Channel(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        Mixer([NamedReward("red", reward)]).score(images((0.9, 0, 0)), [""])
        assert torch.is_autocast_enabled("cpu")
    assert reward.asked[0][2] is False


def test_same_name_twice_is_refused():
    reward = Measure(brightness)
    with pytest.raises(ValueError, match="same name: light, light"):
        Mixer([NamedReward("light", reward), NamedReward("light", reward)])
