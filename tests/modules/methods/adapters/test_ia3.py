"""(IA)³ against LyCORIS' own module, in what is rescaled, computed, written and continued."""

import pytest
import torch
from lycoris.modules.ia3 import IA3Module
from torch import nn

from modules.formats.lora.lora_file import read_lora
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.adapters import Adapters, make_adapter
from modules.methods.adapters.kind import AdapterPlan
from modules.methods.adapters.registry import kind_of
from modules.methods.layers.layer_presets import layer_names
from onetrainer.config.methods.ia3 import Ia3
from onetrainer.config.methods.low_rank import Lora
from onetrainer.errors import UserError
from tests import tiny
from tests.adapters import predict, section, shake
from tests.close import close
from tests.each import each
from tests.exports import export


@each("path", ["attn2.to_k", "ff.net.2"])
def test_output_and_gradients_are_those_of_lycoris(path):
    torch.manual_seed(0)
    ours, theirs = nn.Linear(24, 16), nn.Linear(24, 16)
    theirs.load_state_dict(ours.state_dict())
    plan = AdapterPlan(Layer("unet", path), ours, None, None, None)
    adapter = make_adapter("x", plan, kind_of(Ia3()), seed=0)
    reference = IA3Module("x", theirs, train_on_input=path == "ff.net.2", bypass_mode=False)
    factors = torch.randn(adapter.weight.shape)
    for module in (adapter, reference):
        module.weight.data = factors.clone()
        module.apply_to()
    given = torch.randn(2, 5, 24)
    close(ours(given), theirs(given))
    for layer in (ours, theirs):
        layer(given).square().sum().backward()
    close(adapter.weight.grad, reference.weight.grad)
    assert adapter.tensors().keys() == set(reference.weight_list)
    for key, tensor in adapter.tensors().items():
        assert torch.equal(tensor, getattr(reference, key))


def test_keys_values_and_feed_forward_layers_are_rescaled_as_in_lycoris_own_preset():
    method = Adapters.attach(tiny.family(), section("ia3", text=True), seed=0)
    ends = {"_".join(name.split("_")[-2:]) for name in method.plans}
    assert ends == {"to_k", "to_v", "net_2", "k_proj", "v_proj", "mlp_fc2"}
    on_input = {n for m in method.adapters.values() for n, each in m.items() if each.train_input}
    assert {name for name in method.plans if name.endswith(("net_2", "fc2"))} == on_input
    assert Adapters.attach(tiny.family(), section("ia3", targets="attn"), seed=0).plans.keys() == {
        name for name in method.plans if name.endswith(("to_k", "to_v"))
    }


def test_a_file_continues_with_the_same_effect_and_other_kinds_are_refused(tmp_path):
    first = tiny.family()
    method = Adapters.attach(first, section("ia3"), seed=0)
    shake(method)
    path = tmp_path / "ia3.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    file = read_lora(path, layer_names(first))
    assert all(tensors.keys() == {"weight", "on_input"} for tensors in file.layers.values())
    assert file.metadata["ss_network_args"] == '{"algo": "ia3"}'
    assert not file.unknown
    again = tiny.family()
    Adapters.attach(again, section("ia3", start_from=str(path)), seed=3)
    close(predict(again), predict(first))
    with pytest.raises(UserError, match=r'holds \(IA\)³.*Choose "ia3" as the method'):
        Adapters.attach(tiny.family(), Lora(start_from=str(path)), seed=0)
