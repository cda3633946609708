"""Layers of text encoders after the one that is used are neither trained nor written."""

from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open

from modules.interfaces import named_parameters
from modules.methods.adapters.adapters import Adapters
from modules.methods.full import Full
from modules.methods.layers.layer_presets import networks_of, unread_layers
from modules.optim.build import build_optimizer
from modules.optim.ema import Ema
from modules.optim.optimizer_state import OptimizerProgress
from modules.training.checkpoint_record import CheckpointRecord, find_restore_point
from modules.training.checkpoints import Checkpoints
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.run.run_folder import create_run
from tests import tiny
from tests.adapters import predict, section, shake
from tests.close import close
from tests.exports import export

FAMILIES = (("sd15", 0), ("sd15", 2), ("sd2", 0), ("sdxl", 0))


@pytest.fixture(params=FAMILIES, ids=str)
def family(request):
    name, clip_skip = request.param
    return tiny.family(name, clip_skip=clip_skip)


def test_exactly_the_weights_without_a_gradient_are_unread(family):
    parameters = {
        (component, path): weight.requires_grad_(True)
        for component, network in networks_of(family).items()
        if component != "unet"
        for path, weight in network.named_parameters()
    }
    encoded = family.encode_text(["a cat"])
    pooled = 0 if encoded.pooled is None else encoded.pooled.square().sum()
    (encoded.hidden.square().sum() + pooled).backward()
    unread = family.unread_modules()
    for (component, path), weight in parameters.items():
        module = networks_of(family)[component].get_submodule(path.rpartition(".")[0])
        assert (weight.grad is None) == (module in unread), (component, path)


@pytest.mark.parametrize(("family_name", "clip_skip"), FAMILIES)
def test_every_trained_weight_has_a_gradient(family_name, clip_skip):
    trained = {key: {"train": True} for key in ("te1", "te2")}
    wanted = section("lora", text=True, targets="full")
    full = FullSection(weights="fp32", text_encoders=trained)
    for attach in (
        lambda family: Adapters.attach(family, wanted, seed=0),
        lambda family: Full.attach(family, full, source=None),
    ):
        family = tiny.family(family_name, clip_skip=clip_skip)
        method = attach(family)
        encoded = family.encode_text(["a cat"])
        pooled = 0 if encoded.pooled is None else encoded.pooled.square().sum()
        (encoded.hidden.square().sum() + pooled).backward()
        for group in method.parameter_groups():
            for name, weight in group.parameters.items():
                assert group.component == "unet" or weight.grad is not None, name


def checkpoints(folder, method):
    """A step of training, ready to be saved or restored."""
    groups = method.parameter_groups()
    optimizer = build_optimizer(AdamW(), groups)
    for weight in named_parameters(groups).values():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    made = Checkpoints(
        folder=folder,
        method=method,
        optimizer=OptimizerProgress(optimizer, named_parameters(groups)),
        ema=Ema(named_parameters(groups), decay=0.9, ramp=True, every=1, location="device"),
        engine=SimpleNamespace(state_dict=dict, load_state_dict=lambda state: None),
        keep=2,
    )
    return made, optimizer


def former_family(monkeypatch):
    """A family of which, as in earlier versions, every layer counts as read."""
    with monkeypatch.context() as patch:
        patch.setattr("modules.families.stable_diffusion.unread_modules", lambda encoder: ())
        yield tiny.family("sdxl")


def test_a_run_of_an_earlier_version_goes_on_without_the_layers(tmp_path, monkeypatch):
    wanted = section("lora", text=True, unet={"train": False})
    folder = create_run(tmp_path, name="run", config={})
    for former in former_family(monkeypatch):
        before, old = checkpoints(folder, Adapters.attach(former, wanted, seed=0))
    before.write(before.content(CheckpointRecord(1, "digest", 0, {}, {})))
    after, new = checkpoints(folder, Adapters.attach(tiny.family("sdxl"), wanted, seed=3))
    assert after.restore(find_restore_point(folder).record) == []
    assert 0 < len(new.state) < len(old.state)
    for name, value in after.method.state_dict().items():
        assert value.equal(before.method.state_dict()[name])


def test_a_file_with_unread_layers_still_loads(tmp_path, monkeypatch):
    wanted = {"text": True, "targets": "full"}
    for former in former_family(monkeypatch):
        method = Adapters.attach(former, section("lora", **wanted), seed=0)
    shake(method)
    path = tmp_path / "start.safetensors"
    export(method, path, dtype=torch.float32, metadata={})
    expected, family = predict(former), tiny.family("sdxl")
    made = Adapters.attach(family, section("lora", **wanted, start_from=str(path)), seed=5)
    assert unread_layers(family)
    close(predict(family), expected)
    export(made, tmp_path / "new.safetensors", dtype=torch.float32, metadata={})
    with safe_open(tmp_path / "new.safetensors", "pt") as new, safe_open(path, "pt") as old:
        assert set(new.keys()) < set(old.keys())
