import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from modules.methods.adapters.adapters import Adapters
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.errors import UserError
from tests import tiny
from tests.batches import time_ids_of
from tests.cases import cases
from tests.close import near
from tests.exports import export

pytestmark = pytest.mark.usefixtures("real_blocks")

SECTION = LoraSection(rank=4, alpha=2.0)
WITH_TEXT = LoraSection(rank=4, alpha=2.0, **tiny.encoders(True))


def shake(method: Adapters, scale: float = 0.3) -> None:
    """Gives the adapters an effect, as training would."""
    generator = torch.Generator().manual_seed(1)
    state = method.state_dict()
    for name, tensor in state.items():
        if name.endswith("lora_up.weight"):
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale)


def predict(family, batch: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    noisy = torch.randn(batch, 4, 8, 8, generator=generator)
    conditioning = family.encode_text(["a cat"] * batch)
    steps = torch.full((batch,), 500)
    return family.predict(noisy, steps, conditioning, time_ids=time_ids_of(batch))


def metadata_of(path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return file.metadata()


@pytest.mark.parametrize(("targets", "count"), [("attn", 128), ("attn-mlp", 192), ("full", 282)])
def test_targets_choose_the_layers_that_kohya_and_lycoris_choose(family, targets, count):
    # 16 transformers x (8 attention projections | 12 layers with feed-forward and projections);
    # kohya's own count is 192. full: 278 as kohya's with convolutions, and conv_in, conv_out and
    # the two linear layers of the timestep.
    method = Adapters.attach(family, LoraSection(targets=targets), seed=0)
    assert len(method.adapters["unet"]) == count


@pytest.mark.parametrize(
    ("name", "velocity", "version", "v2"),
    cases(
        VERSIONS := [
            ("sd15", False, "sd_v1", "False"),
            ("sd15", True, "sd_v1_v", "False"),
            ("sd2", False, "sd_v2", "True"),
            ("sd2-inpainting", True, "sd_v2_v", "True"),
            ("sdxl", True, "sdxl_base_v1-0", "False"),
        ],
        VERSIONS[1:4:2],
    ),
)
def test_file_says_what_it_was_trained_on_under_kohyas_keys(tmp_path, name, velocity, version, v2):
    family = tiny.family(name, prediction="v_prediction" if velocity else "epsilon")
    method = Adapters.attach(family, LoraSection(rank=1, targets="attn"), seed=0)
    export(method, tmp_path / "lora.safetensors", dtype=torch.float32, metadata={})
    metadata = metadata_of(tmp_path / "lora.safetensors")
    assert (metadata["ss_base_model_version"], metadata["ss_v2"]) == (version, v2)


def test_text_encoder_gets_adapters_only_when_asked(family):
    assert set(Adapters.attach(family, SECTION, seed=0).adapters) == {"unet"}
    method = Adapters.attach(tiny.family(), WITH_TEXT, seed=0)
    assert [group.component for group in method.parameter_groups()] == ["unet", "te"]
    assert sorted(method.adapters["te"])[:6] == [
        f"lora_te_text_model_encoder_layers_0_{name}"
        for name in ("mlp_fc1", "mlp_fc2", "self_attn_k_proj", "self_attn_out_proj",
                     "self_attn_q_proj", "self_attn_v_proj")
    ]  # fmt: skip


def test_only_adapters_train_and_they_are_float32():
    family = tiny.family(compute_dtype=torch.bfloat16)
    method = Adapters.attach(family, WITH_TEXT, seed=0)
    trained = [p for group in method.parameter_groups() for p in group.parameters.values()]
    assert {p.dtype for p in trained} == {torch.float32}
    assert all(p.requires_grad for p in trained)
    frozen = [*family.unet.parameters(), *family.text_encoders["te"].parameters()]
    assert not any(p.requires_grad for p in frozen)


def test_down_starts_kaiming_uniform_and_up_zero(family):
    state = Adapters.attach(family, LoraSection(rank=64), seed=0).state_dict()
    name = "lora_unet_mid_block_attentions_0_transformer_blocks_0_ff_net_2"
    down = state[f"{name}.lora_down.weight"]  # (64, 64)
    bound = 1 / 64**0.5  # kaiming uniform with a = sqrt(5) is 1 / sqrt(inputs)
    assert 0.95 * bound < down.abs().max() <= bound
    assert state[f"{name}.lora_up.weight"].count_nonzero() == 0


def test_state_survives_a_round_trip_and_others_are_refused(family):
    method = Adapters.attach(family, SECTION, seed=0)
    shake(method)
    state = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    other = Adapters.attach(tiny.family(), SECTION, seed=1)
    other.load_state_dict(state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in other.state_dict().items())
    with pytest.raises(ValueError, match="other weights"):
        other.load_state_dict({"x": torch.ones(1)})
    with pytest.raises(ValueError, match="is not"):
        other.load_state_dict({name: tensor[:1] for name, tensor in state.items()})


def test_file_holds_the_real_alpha_in_every_layer(tmp_path, family):
    path = tmp_path / "lora.safetensors"
    method = Adapters.attach(family, LoraSection(rank=8, alpha=3.3), seed=0)
    export(method, path, dtype=torch.float16, metadata={"ss_seed": "1"})
    tensors, metadata = load_file(path), metadata_of(path)
    names = {key.partition(".")[0] for key in tensors}
    assert len(tensors) == 3 * len(names) == 3 * 192
    assert all(float(tensors[f"{n}.alpha"]) == near(3.3) for n in names)
    assert {t.dtype for n, t in tensors.items() if n.endswith("weight")} == {torch.float16}
    assert metadata["ss_network_dim"] == "8"
    assert metadata["ss_network_alpha"] == "3.3"
    assert metadata["ss_seed"] == "1"


def test_file_depends_on_its_content_alone(tmp_path, family):
    method = Adapters.attach(family, SECTION, seed=0)
    words = [(f"key-{n}", "x") for n in range(30)]
    for name, order in (("one", words), ("two", words[::-1])):
        path = tmp_path / f"{name}.safetensors"
        export(method, path, dtype=torch.float16, metadata=dict(order))
    one, two = (tmp_path / f"{name}.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    header = one.read_bytes()[8:].split(b"}")[0].decode()
    keys = [word.partition('":')[0] for word in header.partition("__metadata__")[2].split(',"')]
    assert keys[1:] == sorted(keys[1:])  # not merely the same in this process


def test_failed_export_leaves_the_old_file(tmp_path, family):
    path = tmp_path / "lora.safetensors"
    path.write_bytes(b"old")
    method = Adapters.attach(family, SECTION, seed=0)
    shake(method, scale=1e6)
    with pytest.raises(UserError, match=r"do not fit the number format torch\.float16"):
        export(method, path, dtype=torch.float16, metadata={})
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_dropout_acts_in_training_only_and_repeats_with_the_seed(family):
    method = Adapters.attach(family, LoraSection(rank=4, alpha=4, dropout=0.5), seed=0)
    shake(method)
    with torch.no_grad():
        method.train(True)
        outputs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            outputs.append(predict(family))
        method.train(False)
        steady = predict(family)
        assert torch.equal(predict(family), steady)
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], steady)
