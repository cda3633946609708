"""The forecast of a run's memory, against counts by hand and by the pretended GPU."""

import pytest
import torch
from PIL import Image

from modules.forecast.forecast import Planner, Target, target_of
from modules.optim import fused_backward
from onetrainer.concepts.concepts import bucket_step
from onetrainer.config.run.validation import Validation
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket, nearest_bucket
from onetrainer.errors import UserError
from onetrainer.messages.memory import SAFE_FRACTION
from onetrainer.presets.presets import with_value
from tests import images, tiny
from tests.benchmarks import memory
from tests.forecasts import ON_GPU, forecast

GIB = 1 << 30
# Numbers of parameters of the published models, as their model cards and papers give them.
UNET, TEXT_ENCODER, VAE = 859_520_964, 123_060_480, 83_653_863
# The numbers of LoRA of rank 16 on all of SD 1.5's 192 linear layers outside of time embeddings.
LORA = 6_776_832
PROMPT = {"prompt": "a", "width": 512, "height": 512}


def config(document=(), **settings):
    """SD 1.5 with LoRA at 512 px; settings by paths with __ for dots."""
    made = dict(document)
    for path, value in settings.items():
        made = with_value(made, path.replace("__", "."), value)
    return TrainConfig.model_validate(made)


@pytest.fixture(scope="module")
def small(base):
    """A tiny model at a size at which what it keeps counts more than its weights."""
    return {"model": {"path": base}, "data": {"resolution": 256}}


@pytest.fixture(scope="module")
def published():
    """The phases of LoRA on SD 1.5, at full size."""
    settings = {"sampling__prompts": [PROMPT], "hardware__gradient_checkpointing": "block"}
    return forecast(config(**settings)).phases


def some(values, *always):
    """All values; those that are not named belong to the long tests."""
    return [pytest.param(v, marks=() if v in always else pytest.mark.long) for v in values]


def training(document, **settings):
    """The bytes of the training phase, by part."""
    return forecast(config(document, **settings)).phases["training"]


def test_weights_take_what_the_published_models_have(published):
    # In bfloat16, but for the VAE; each tensor is rounded up to 512 bytes.
    assert published["training"]["unet"] == pytest.approx(2 * UNET, rel=1e-3)
    assert published["encoding"]["text_encoders"] == pytest.approx(2 * TEXT_ENCODER, rel=1e-3)
    assert published["decoding"]["vae"] == pytest.approx(4 * VAE, rel=1e-3)
    # The preset's layers, rank 16: 6.8 million numbers in float32, and two statistics of each.
    assert published["training"]["adapters"] == pytest.approx(4 * LORA, rel=0.02)
    assert published["training"]["optimizer"] == pytest.approx(8 * LORA, rel=0.02)
    assert "vae" not in published["training"]
    assert "text_encoders" not in published["training"]


def test_processes_share_what_is_sharded(wide_base):
    document = {
        "model": {"path": wide_base},
        "data": {"resolution": 64},
        "method": {"kind": "full"},
        "ema": {"use": True},
        "sampling": {"prompts": [{"prompt": "a", "width": 64, "height": 64}]},
    }
    four = {"hardware__processes": 4, "training__accumulation": 4}
    whole, sharded = (
        forecast(config(document, hardware__sharding=way, **four)).phases
        for way in ("none", "full")
    )
    for part in ("optimizer", "ema", "gradients"):
        assert sharded["training"][part] == whole["training"][part] // 4, part
    weights = whole["training"]["unet"]
    assert sharded["saving"]["unet"] == weights // 4
    assert sharded["sampling"]["unet"] == weights // 4 + weights
    assert weights // 4 < sharded["training"]["unet"] <= weights // 4 + weights
    assert sharded["training"]["activations"] == whole["training"]["activations"]


def test_every_setting_that_saves_memory_lowers_the_training(small):
    known = {}

    def peak(plans, document, path, value):
        asked = config(with_value(document, path, value))
        key = asked.model_dump_json()
        if key not in known:
            known[key] = sum(plans.forecast(asked).phases["training"].values())
        return known[key]

    with Planner(ON_GPU) as plans:
        for path, values, checkpointing in (
            ("hardware.gradient_checkpointing", ("off", "selective", "block"), "off"),
            ("hardware.offload_layers", (0.0, 0.5, 0.9), "block"),
            ("hardware.offload_activations", (0.0, 0.5, 1.0), "block"),
            ("training.batch_size", (2, 1), "off"),
            ("data.resolution", (256, 128), "off"),
            ("data.cache_latents", (False, True), "off"),
            ("data.cache_text", (False, True), "off"),
        ):
            document = with_value(small, "hardware.gradient_checkpointing", checkpointing)
            peaks = [peak(plans, document, path, value) for value in values]
            assert peaks == sorted(peaks, reverse=True), path
            assert len(set(peaks)) == len(peaks), path


# Gradients of so many weights are never alive at once: the largest of the trained ones has less.
FEWEST_WEIGHTS = 4
DEAR = {
    "method": {"kind": "full", "weights": "fp32", "targets": "attn"},
    "optimizer": {"kind": "adamw"},
    "ema": {"use": True},
    "data": {"resolution": 64},
}


@pytest.fixture(scope="module")
def dear(wide_base):
    """A full training of attention layers, with everything on the device."""
    document = {**DEAR, "model": {"path": wide_base}}
    return document, training(document)


def test_every_way_of_saving_in_a_full_training_lowers_it(dear):
    document, whole = dear
    for path, value in (
        ("method.weights", "bf16"),
        ("ema.device", "host"),
        ("optimizer", {"kind": "adafactor"}),
        ("optimizer", {"kind": "adamw8bit"}),
    ):
        cheap = training(with_value(document, path, value))
        assert sum(cheap.values()) < sum(whole.values()), (path, value)


def test_a_fused_backward_saves_the_gradients(dear, monkeypatch):
    monkeypatch.setattr(fused_backward, "BUCKET_BYTES", 1)  # the model's own are less than 64 MB
    # In bfloat16, where the forward pass keeps no casts of weights that would be larger.
    small = with_value(dear[0], "method.weights", "bf16")
    whole = training(small)
    moving = {**small, "optimizer": {"kind": "adamw", "fused_backward": True}}
    alone = training(with_value(moving, "training.gradient_clipping", 0.0))
    assert sum(alone.values()) < sum(whole.values())
    assert alone.get("gradients", 0) < whole["gradients"] / FEWEST_WEIGHTS


def test_a_fused_backward_keeps_its_optimizer_state_under_fp16(dear):
    moving = with_value(dear[0], "optimizer", {"kind": "adamw", "fused_backward": True})
    moving = with_value(moving, "training.gradient_clipping", 0.0)
    plain, scaled = (training(moving, hardware__precision=kind) for kind in ("bf16", "fp16"))
    assert scaled["optimizer"] == plain["optimizer"] > 0


def test_quantized_weights_take_half(published):
    packed = training({}, hardware__quantization="int8", data__resolution=64)
    # 69 % of SD 1.5's weights are in convolutions, nearly all others in linear layers.
    plain = published["training"]["unet"]
    assert packed["unet"] == pytest.approx((1 - 0.31 / 2) * plain, rel=0.02)


def test_parts_that_stay_on_the_device_are_counted_where_they_are_not_needed(small):
    small = with_value(small, "sampling.prompts", [PROMPT | {"width": 64, "height": 64}])
    with Planner(ON_GPU) as plans:
        away, here = (
            plans.forecast(config(small, hardware__offload_device=place)).phases["training"]
            for place in ("cpu", "same")
        )
    # What is offloaded is in the same memory on the processor.
    on_processor = forecast(config(small), Target("cpu", program=GIB)).phases["training"]
    assert "vae" not in away
    assert here["vae"] > 0
    assert on_processor["vae"] > 0
    assert on_processor["program"] == GIB


@pytest.mark.parametrize("family", some(tiny.FAMILIES, "sdxl-inpainting"))
def test_every_family_can_be_planned_in_every_phase(tmp_path, family):
    base = tiny.write_configs(tmp_path / "base", family)
    document = {
        "model": {"family": family, "path": str(base)},
        "data": {"resolution": 64, "cache_latents": False, "cache_text": False},
        "sampling": {"prompts": [PROMPT | {"width": 64, "height": 64}], "sampler": "unipc"},
        "validation": {"use": True, "timesteps": 1},
    }
    phases = forecast(config(document)).phases
    assert all(phases[phase]["activations"] > 0 for phase in ("training", "decoding"))


def test_each_phase_that_the_run_has_is_there(small):
    document = with_value(small, "sampling.prompts", [PROMPT | {"width": 64, "height": 64}])
    document = with_value(document, "validation.use", True)
    phases = forecast(config(document))
    assert list(phases.phases) == [
        "caching",
        "training",
        "validation",
        "encoding",
        "sampling",
        "decoding",
        "saving",
    ]
    sums = {phase: sum(parts.values()) for phase, parts in phases.phases.items()}
    assert (phases.peak_phase, phases.peak_bytes) == (max(sums, key=sums.get), max(sums.values()))
    smallest = with_value(small, "data.resolution", 64)
    assert list(forecast(config(smallest)).phases) == ["caching", "training", "saving"]


METHODS = {
    "lora": {"kind": "lora", "text_encoders": {"te1": {"train": True}}},
    "dora": {"kind": "dora"},
    "loha": {"kind": "loha"},
    "lokr": {"kind": "lokr"},
    "oft": {"kind": "oft"},
    "full": {"kind": "full", "weights": "bf16", "text_encoders": {"te1": {"train": True}}},
    "vae": {"kind": "vae"},
    "embedding-input": {"kind": "embedding", "place": "input"},
    "embedding-output": {"kind": "embedding", "place": "output"},
}


@pytest.mark.parametrize("name", some(METHODS, "lora", "loha", "vae", "embedding-output"))
def test_every_method_can_be_planned(small, name):
    method = METHODS[name]
    document = {**small, "method": method}
    if method["kind"] == "vae":
        document["objective"] = {"kind": "reconstruction"}
    if method["kind"] == "embedding":
        words = [{"token": "<x>", "place": method["place"], "initial_text": "a red cat"}]
        document |= {"method": {"kind": "embedding"}, "embeddings": {"tokens": words}}
    phases = training(document)
    assert phases["activations"] > 0
    assert phases["optimizer"] > 0


def test_embeddings_with_full_training_and_the_base_model_are_counted(small):
    document = {
        **small,
        "method": {"kind": "full", "weights": "bf16"},
        "embeddings": {"tokens": [{"token": "<x>"}]},
    }
    plain = training(document)
    document["data"] = document["data"] | {"class_folder": "there"}
    document["objective"] = {"kind": "denoising", "prior": {"kind": "own_prediction"}}
    compared = training(document)
    assert plain["adapters"] > 0
    assert sum(compared.values()) > sum(plain.values())


@pytest.mark.parametrize("is_full_size", [False, pytest.param(True, marks=pytest.mark.long)])
def test_it_is_what_the_pretended_gpu_measures(wide_base, is_full_size):
    # Other ways of training, and SDXL, are compared by tests/benchmarks/memory.py.
    case = memory.Case("sd15", "lora", "block", 0.9).config()
    case = case.model_copy(update={"validation": Validation(use=True, timesteps=2)})
    if not is_full_size:
        model = case.model.model_copy(update={"path": wide_base})
        case = case.model_copy(update={"model": model})
    phases, measured = forecast(case).phases, memory.measured_phases(case)
    assert set(measured) == {"training", "validation", "saving"}
    for phase, peak in measured.items():
        assert sum(phases[phase].values()) == pytest.approx(peak, rel=0.02), phase
    # Else what these phases compute would say nothing.
    assert measured["training"] > 1.2 * measured["validation"] > 1.4 * measured["saving"]


def test_what_caching_encodes_with_is_on_the_device_then(base, tmp_path):
    uncached = {"cache_latents": False, "resolution": 64}
    inpainting = tiny.write_configs(tmp_path / "inpainting", "sd15-inpainting")
    for family, path, has_blanks in (
        ("sd15", base, False),
        ("sd15-inpainting", inpainting, True),
    ):
        document = {"model": {"family": family, "path": str(path)}, "data": uncached}
        phases = forecast(config(document)).phases["caching"]
        assert ("vae" in phases) == has_blanks
        with Planner(ON_GPU) as plans:
            cached = plans.forecast(config(document, data__cache_latents=True))
            assert "vae" in cached.phases["caching"]
            # A model that is kept for other settings forecasts the same.
            assert plans.forecast(config(document)).phases["caching"] == phases


def test_automatic_checkpointing_is_the_fastest_that_fits(small):
    asked, peaks = config(small, hardware__gradient_checkpointing="auto"), {}
    with Planner(ON_GPU) as plans:
        for policy in ("off", "selective"):
            phases = plans.forecast(config(small, hardware__gradient_checkpointing=policy)).phases
            peaks[policy] = sum(phases["training"].values())
        for free, chosen in (
            (peaks["off"] / SAFE_FRACTION + 1, "off"),
            (peaks["off"] / SAFE_FRACTION - 1, "selective"),
            (peaks["selective"] / SAFE_FRACTION - 1, "block"),
            (0, "block"),
        ):
            plans.target = Target("cuda", available=round(free) + GIB, program=GIB)
            resolved = plans.resolve_checkpointing(asked)
            assert resolved.hardware.gradient_checkpointing == chosen


def test_the_largest_of_all_images_counts_or_a_square(tmp_path):
    sides = {"trained": (64, 64), "apart": (160, 64), "class": (64, 224)}
    for name, side in sides.items():
        (tmp_path / name).mkdir()
        Image.new("RGB", side).save(tmp_path / name / "a.png")
        (tmp_path / name / "a.txt").write_text("a")
    there = {"data": {"folder": str(tmp_path / "trained"), "resolution": 64}}
    apart = config(there, validation__folder=str(tmp_path / "apart"))
    used = with_value(there, "data.class_folder", str(tmp_path / "class"))
    plans = Planner(ON_GPU)
    assert plans.bucket_of(config(data__folder=str(tmp_path / "none"))) == Bucket(512, 512)
    step = bucket_step(apart.model.family, apart.data.buckets.step, 64)
    square = nearest_bucket(64, 64, 64, step)
    alone = {name: nearest_bucket(*side, 64, step) for name, side in sides.items()}
    assert plans.bucket_of(config(there)) == plans.bucket_of(apart) == square
    used_apart = apart.model_copy(
        update={"validation": Validation(use=True, folder=apart.validation.folder)}
    )
    for asked, name in ((used_apart, "apart"), (config(used), "class")):
        largest = max((square, alone[name]), key=lambda one: one.width * one.height)
        assert plans.bucket_of(asked) == largest


def test_steps_of_several_shapes_meet_the_gradients_of_their_first_batch(dear, tmp_path):
    for name, sizes in (("one", [(88, 48)]), ("two", [(64, 64), (88, 48)])):
        images.folder(tmp_path / name, sizes * 3)
    settings = {"data__resolution": 64, "training__batch_size": 4}
    settings |= {"training__gradient_clipping": 0}
    totals = [
        sum(training(dear[0], **settings, data__folder=str(tmp_path / name), **more).values())
        for name, more in (("one", {}), ("two", {}), ("one", {"training__accumulation": 2}))
    ]
    assert totals[0] < totals[1] == totals[2]


def test_this_computer_is_asked_what_is_free():
    target = target_of(config(hardware__device="cpu"))
    assert target.kind == "cpu"
    assert 0 < target.program < target.available
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="no usable GPU"):
            target_of(config(hardware__device="cuda"))
