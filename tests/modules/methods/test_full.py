from collections import Counter

import pytest
import torch

from modules.methods.full import Full
from onetrainer.config.base.components import LayerRule
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.errors import UserError
from tests import tiny
from tests.each import each
from tests.modules.methods.sources import loss_of, shake, states

pytestmark = pytest.mark.usefixtures("real_blocks")

CPU = torch.device("cpu")
UNTRAINED = {"unet": {"train": False}}
ATTENTION = {"targets": "attn"}


def full(family, *, keep_original=None, **settings):
    """The method on a family without files, in fp32 if nothing else is said."""
    section = FullSection(**{"weights": "fp32", **settings})
    return Full.attach(family, section, source=None, keep_original=keep_original)


def moved(family, before):
    """The names of the tensors that are not what they were."""
    return {name for name, now in states(family).items() if not torch.equal(now, before[name])}


def steps(method, family, count=3, lr=1e-3):
    parameters = [p for group in method.parameter_groups() for p in group.parameters.values()]
    optimizer = torch.optim.AdamW(parameters, lr=lr)
    for _ in range(count):
        loss_of(family).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_every_weight_of_the_unet_trains_and_nothing_else(family):
    method, before = full(family), states(family)
    assert set(method.state_dict()) == {f"unet.{n}" for n, _ in family.unet.named_parameters()}
    steps(method, family)
    assert moved(family, before) == set(method.state_dict())


# Of 16 transformers. Attention: 2 x (4 weights, 1 bias). Blocks: with weight and bias of 3 norms, 2
# layers of feed-forward, 2 projections and the norm before them, 10 + 6 + 4 + 4 + 2 = 26 each.
@pytest.mark.parametrize(("targets", "count"), [("attn", 160), ("attn-mlp", 416), ("full", 686)])
def test_targets_choose_these_tensors_of_the_unet(family, targets, count):
    assert len(full(family, targets=targets).state_dict()) == count


# Each of 2 layers: attention 4 weights and biases; with feed-forward 4 and norms 4 tensors more.
@pytest.mark.parametrize(("targets", "count"), [("attn", 16), ("attn-mlp", 32), ("full", 34)])
def test_targets_choose_these_tensors_of_a_text_encoder(family, targets, count):
    method = full(family, targets=targets, text_encoders={"te1": {"train": True}}, **UNTRAINED)
    assert len(method.state_dict()) == count
    assert all(name.startswith("text_encoder.text_model.") for name in method.state_dict())


def test_rules_freeze_add_and_set_rates_and_the_first_one_counts(family):
    rules = [
        LayerRule(pattern="attn2.to_k", train=False),
        LayerRule(pattern="attn2", lr=1e-5),
        LayerRule(pattern="unet.conv_in"),
    ]
    method = full(family, layers=rules, targets="named", unet={"lr": 2e-6, "stop_after": 7})
    one, other = method.parameter_groups()
    assert (one.component, one.lr, one.stop_after) == ("unet", 2e-6, 7)
    assert set(one.parameters) == {"unet.conv_in.weight", "unet.conv_in.bias"}
    assert (other.component, other.lr, other.stop_after) == ("unet", 1e-5, 7)
    assert len(other.parameters) == 16 * 4  # to_q, to_v, to_out and its bias
    before = states(family)
    steps(method, family)
    assert moved(family, before) == set(method.state_dict())


@each(
    ("name", "components"),
    [("sd15", ["unet", "te"]), ("sd2", ["unet", "te"]), ("sdxl", ["unet", "te1", "te2"])],
)
def test_networks_train_in_groups_of_their_own(name, components):
    encoders = {"te1": {"train": True, "lr": 1e-6}, "te2": {"train": True}}
    family = tiny.family(name)
    method = full(family, **ATTENTION, text_encoders=encoders)
    groups = method.parameter_groups()
    assert [group.component for group in groups] == components
    assert [group.lr for group in groups[:2]] == [None, 1e-6]
    names = Counter(name for group in groups for name in group.parameters)
    assert names == Counter(method.state_dict().keys())
    before = states(family)
    steps(method, family, 1)
    assert {name.partition(".")[0] for name in moved(family, before)} == set(components)


def test_a_pattern_without_layers_and_layers_without_training_are_refused(family):
    with pytest.raises(UserError, match=r"text_encoder.*matches none"):
        full(family, layers=[LayerRule(pattern="text_encoder")])
    with pytest.raises(UserError, match="no layer is chosen for training"):
        full(family, layers=[LayerRule(pattern="unet", train=False)])


def test_weights_in_another_number_format_are_refused(family):
    with pytest.raises(ValueError, match=r"loaded as torch.float32, not as torch.bfloat16"):
        full(family, weights="bf16")


def test_state_is_put_back_exactly_and_a_strange_one_is_refused(family):
    method = full(family)
    kept = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    shake(method)
    method.load_state_dict(kept)
    assert all(torch.equal(kept[name], now) for name, now in method.state_dict().items())
    with pytest.raises(ValueError, match="other weights"):
        method.load_state_dict({**kept, "unet.more": torch.ones(1)})
    with pytest.raises(ValueError, match="is not"):
        method.load_state_dict({**kept, "unet.conv_in.bias": torch.ones(1)})


@pytest.mark.parametrize("precision", [None, torch.float16])
def test_base_model_computes_exactly_as_before_also_between_forward_and_backward(family, precision):
    def autocast():
        return torch.autocast("cpu", precision or torch.bfloat16, enabled=bool(precision))

    with torch.no_grad(), autocast():
        expected = loss_of(family)
    method = full(family, keep_original=CPU, text_encoders={"te1": {"train": True}})
    shake(method)
    now = {name: tensor.clone() for name, tensor in method.state_dict().items()}

    def gradients(*, look_back):
        with autocast():  # one context, as in a step: what autocast remembers must not mix
            if look_back:
                with method.base_model():
                    assert torch.equal(loss_of(family), expected)
            loss = loss_of(family)
            if look_back:
                with method.base_model():
                    assert torch.equal(loss_of(family), expected)
        loss.backward()
        parameters = method.groups[0].parameters.values()
        found = [parameter.grad.clone() for parameter in parameters]
        family.unet.zero_grad()
        return loss.detach(), found

    loss, found = gradients(look_back=True)
    plain_loss, plain = gradients(look_back=False)
    assert torch.equal(loss, plain_loss)
    assert not torch.equal(loss, expected)
    assert all(map(torch.equal, found, plain))
    assert all(torch.equal(now[name], tensor) for name, tensor in method.state_dict().items())
