"""Rules of objectives, optimizers, schedules, memory and rewards."""

import tomllib
from typing import get_args

import pytest
from PIL import Image

from onetrainer import ROOT, install_command
from onetrainer.checks.dataset import check_images
from onetrainer.config.optimizers.adam import AdamW8bit
from onetrainer.config.optimizers.optimizer import (
    EXTRAS,
    Optimizer,
    missing_package,
)
from onetrainer.presets.presets import resolve, with_variant
from tests.each import each
from tests.onetrainer.rules.rule_cases import check, document_of, reported

SECTIONS = [kind for kind in get_args(get_args(Optimizer)[0]) if kind.target]
KINDS = [section().kind for section in SECTIONS]
WARM = {"schedule.warmup_steps": 100}
CLIPPED, UNCLIPPED = ({"training.gradient_clipping": norm} for norm in (1.0, 0.0))
VAE = {"method.kind": "vae", "objective.kind": "reconstruction", "optimizer.lr": 1e-5}
FULL = {"method.kind": "full", "optimizer.lr": 1e-5}
VELOCITY, NOISE = ({"model.prediction": name} for name in ("v_prediction", "epsilon"))


PURE_NOISE = VELOCITY | {"model.zero_terminal_snr": "on"}
TWO = {"training.accumulation": 2}


def kinds(trait):
    """Return the kinds of the optimizers that have a trait."""
    return [section().kind for section in SECTIONS if getattr(section, trait)]


@each(
    "case",
    [
        ({},),
        ({"objective.kind": "reconstruction"} | VAE,),
        ({"objective.loss.mse": 0}, "error objective.loss.mse"),
        ({"data.resolution": 128, "sampling.prompts": [{"prompt": "a cat"}]},
         "warning sampling.prompts.0.width | far above"),
        ({"data.buckets.resolutions": [{"resolution": 1024}],
          "sampling.prompts": [{"prompt": "a cat", "width": 2048, "height": 2048}]},),
        ({"objective.loss.mse": 0, "objective.loss.log_cosh": 1},),
        ({"objective.timesteps.lowest": 0.5, "objective.timesteps.highest": 0.5},
         "error objective.timesteps.lowest"),
        ({"objective.timesteps.kind": "beta", "objective.timesteps.lowest": 0.5,
          "objective.timesteps.highest": 0.6},),
        ({"objective.weighting.kind": "v_like"} | VELOCITY, "warning objective.weighting.kind"),
        ({"objective.weighting.kind": "noise_like"} | NOISE, "warning objective.weighting.kind"),
        ({"objective.weighting.kind": "v_like"},),
        *(({"objective.weighting.kind": kind} | PURE_NOISE, "warning objective.weighting.kind")
          for kind in ("min_snr", "debiased", "p2", "noise_like")),
        ({"objective.weighting.kind": "debiased_other"} | PURE_NOISE,),
        (PURE_NOISE,),
        (PURE_NOISE | {"objective.timesteps.highest": 0.99},
         "warning objective.timesteps.highest"),
        (PURE_NOISE | {"objective.timesteps.kind": "logit_normal"},
         "warning objective.timesteps.kind"),
        ({"objective.weighting.kind": "min_snr"} | VELOCITY,),
        ({"objective.noise.offset": 0.05, "model.zero_terminal_snr": "on"} | VELOCITY,
         "warning objective.noise.offset"),
        ({"objective.noise.offset": 0.5}, "warning objective.noise.offset"),
        ({"objective.noise.offset_by_timestep": True},
         "warning objective.noise.offset_by_timestep"),
        ({"objective.noise.offset": 0.05, "objective.noise.offset_by_timestep": True},),
        ({"objective.prior.weight": 0}, "warning objective.prior.weight"),
        ({"objective.prior.kind": "own_prediction"}, "warning objective.prior.kind"),
        ({"objective.prior.kind": "own_prediction", "data.class_folder": "class"},),
        ({"objective.mask.prior_weight": 0.5}, "warning objective.mask.prior_weight"),
        ({"objective.mask.prior_weight": 0.5, "data.masks": "alpha"},),
    ],
)  # fmt: skip
def test_denoising_is_checked(case):
    check(*case)


def test_a_value_means_the_same_in_every_variant_that_keeps_it():
    """A variant's value is kept only if it is valid in the next one."""
    document = {"objective": {"timesteps": {"kind": "sigmoid", "center": 0.2, "slope": 9.0}}}
    changed = with_variant(document, "objective.timesteps", "inverted_parabola")
    hill = changed["objective"]["timesteps"]
    assert hill["center"] == 0.2 and "slope" not in hill


def optimizer(kind, **settings):
    """Return settings of an optimizer that the rules have nothing against."""
    own = {f"optimizer.{name}": value for name, value in settings.items()}
    return {"optimizer.kind": kind} | own | UNCLIPPED | (WARM if kind == "adafactor" else {})


# Learning rates of components, layers and tokens, and what the rate is multiplied by.
OWN_RATES = [
    ("method.unet.lr", {"method.unet.lr": 1e-4}),
    ("method.layers.0.lr", {"method.kind": "full",
                            "method.layers": [{"pattern": "attn", "lr": 1e-5}]}),
    ("method.plus_ratio", {"method.plus_ratio": 16}),
    ("embeddings.tokens.0.lr", {"embeddings.tokens": [{"token": "x", "lr": 1e-3}],
                                "embeddings.preserve_norm": False}),
]  # fmt: skip
FUSED = {"optimizer.fused_backward": True}


@each(
    "case",
    [
        *[(optimizer(kind),) for kind in KINDS],
        *[
            (optimizer(kind) | CLIPPED, "warning training.gradient_clipping | value=0.0")
            for kind in kinds("clips_itself")
        ],
        # Warm-up and schedule.
        (optimizer("adafactor") | {"schedule.warmup_steps": 0},
         "warning schedule.warmup_steps | value=100"),
        (optimizer("adafactor") | {"schedule.warmup_steps": 0, "schedule.warmup_fraction": 0.1},),
        (optimizer("adafactor") | {"schedule.warmup_steps": 0, "training.steps": 50},),
        (WARM | {"training.steps": 30}, "error schedule.warmup_steps | value=3"),
        *[
            (optimizer("adafactor_relative") | schedule, f"error {place}")
            for schedule, place in [
                ({"schedule.kind": "cosine"}, "schedule.kind"),
                ({"schedule.warmup_steps": 10}, "schedule.warmup_steps"),
                ({"schedule.warmup_fraction": 0.1}, "schedule.warmup_fraction"),
            ]
        ],
        *[
            (optimizer(kind) | schedule, *expected)
            for kind in kinds("is_schedule_free")
            for schedule, *expected in [
                (WARM,),
                ({"schedule.kind": "cosine", "ema.use": True},
                 "warning schedule.kind | value='constant'", "error ema.use | value=False"),
            ]
        ],
        (optimizer("prodigy", safeguard_warmup=False) | WARM,
         "warning optimizer.safeguard_warmup | value=True"),
        (optimizer("prodigy", safeguard_warmup=True) | WARM,),
        *[(optimizer(kind) | {"training.lr_scaling": "sqrt"}, "error training.lr_scaling")
          for kind in [*kinds("is_adaptive"), "adafactor_relative"]],
        (optimizer("sgd") | {"training.lr_scaling": "linear"},),
        # Rates that are found, and that components may have.
        *[(optimizer(kind, lr=1e-4), "warning optimizer.lr | value=1.0")
          for kind in kinds("is_adaptive")],
        *[(optimizer(kind, lr=0.5),) for kind in kinds("is_adaptive")],
        (optimizer("prodigy_schedulefree")
         | {"method.text_encoders.te1": {"train": True, "lr": 0.5}},),
        (optimizer("prodigy_schedulefree")
         | {"method.text_encoders.te1": {"train": True, "lr": 1e-5}},
         "warning method.text_encoders.te1.lr"),
        (optimizer("prodigy") | {"method.unet": {"lr": 1e-4, "train": False},
                                 "method.text_encoders.te1.train": True, "embeddings.lr": 1e-3},),
        (optimizer("sgd", nesterov=True, momentum=0.0), "error optimizer.nesterov | value=False"),
        # What needs all gradients at once.
        *[
            (optimizer(kind) | FUSED | CLIPPED | {"training.accumulation": 2},
             "error training.accumulation", "error training.gradient_clipping")
            for kind in kinds("updates_independently")
        ],
        (optimizer("adafactor") | FUSED | CLIPPED, "error training.gradient_clipping"),
    ],
)  # fmt: skip
def test_optimizers_are_checked(case):
    check(*case)


@each(("place", "changes"), OWN_RATES)
@each("kind", ["adafactor_relative", *kinds("has_one_rate")])
def test_rates_of_components_are_refused_where_they_are_ignored(kind, place, changes):
    assert reported(changes | optimizer(kind))[place].severity == "error"
    assert place not in reported(changes | optimizer("adamw"))


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_each_optimizer_has_a_rate_that_is_very_high_for_it(section):
    if "lr" not in section.model_fields or section.is_adaptive or section.high_lr >= 10:
        return
    check(optimizer(section().kind, lr=section.high_lr))
    check(optimizer(section().kind, lr=section.high_lr * 1.1), "warning optimizer.lr | None")


def test_a_relative_step_has_no_learning_rate():
    with pytest.raises(Exception, match=r"optimizer\.lr.*no such setting"):
        reported(optimizer("adafactor_relative", lr=1e-4))


def test_a_missing_package_is_a_problem_that_names_its_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    problem = missing_package(AdamW8bit())
    assert problem is not None
    assert "bitsandbytes" in problem.what
    assert problem.remedy.endswith(install_command("bits"))
    monkeypatch.undo()
    assert missing_package(AdamW8bit()) is None


def test_every_extra_exists_and_its_pins_are_those_of_the_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    for section in SECTIONS:
        package = section.target.partition(":")[0].partition(".")[0]
        if extra := EXTRAS.get(package):
            assert set(extras[extra]) <= set(extras["test"])
        else:
            assert any(pin.startswith(f"{package}==") for pin in project["dependencies"])


EMA = {"ema.use": True, "ema.decay": 0.999, "ema.ramp": False}
VALIDATED = {"validation.use": True}
UNMEASURED = {"validation.every": 0, "validation.at_start": False}


@each(
    "case",
    [
        (EMA | {"ema.ramp": True, "ema.every": 50, "training.steps": 50},),
        (EMA | {"ema.ramp": True, "ema.every": 51, "training.steps": 50}, "error ema.every"),
        (EMA | {"training.steps": 1000}, "warning ema.decay | 37%"),
        (EMA | {"training.steps": 100}, "warning ema.decay | 90%"),
        (EMA | {"training.steps": 100, "ema.ramp": True},),
        (EMA | {"training.steps": 5000},),
        (EMA | {"training.steps": 1000, "ema.decay": 0.99},),
        (VALIDATED,),
        (UNMEASURED | {"validation.at_end": False, "validation.patience": 3},),
        (VALIDATED | UNMEASURED | {"validation.at_end": False}, "error validation.every"),
        (VALIDATED | UNMEASURED,),
        (
            VALIDATED | {"validation.every": 0, "validation.patience": 1},
            "error validation.patience",
        ),
        *[
            (VALIDATED | {"training.steps": 1000, "validation.every": 100}
             | {f"validation.{name}": value for name, value in settings.items()}, *expected)
            for settings, *expected in [
                ({"patience": 9},),
                ({"patience": 10}, "warning validation.patience"),
                ({"patience": 9, "at_start": False}, "warning validation.patience"),
                ({"patience": 10, "every": "100 epochs"},),
            ]
        ],
    ],
)  # fmt: skip
def test_the_ema_and_the_times_of_validation_are_checked(case):
    check(*case)


def images(folder, count):
    folder.mkdir()
    for number in range(count):
        Image.new("RGB", (64, 64)).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"a picture of {number}")
    return str(folder)


@each(
    ("count", "validation", "severity", "place", "words"),
    [
        (12, {"split": 0}, "warning", "validation.split", "only 1 image "),
        (12, {"split": 0.34}, None, None, None),
        (4, {"folder": "nowhere"}, "error", "validation.folder", "no such folder"),
        (4, {"folder": "held"}, "warning", "validation.folder", "broken.png"),
        (1, {}, "error", "validation.use", "the only image"),
    ],
)
def test_validation_images_are_checked(tmp_path, count, validation, severity, place, words):
    images(tmp_path / "held", 5)
    (tmp_path / "held" / "broken.png").write_bytes(b"nothing")
    settings = {f"validation.{name}": value for name, value in validation.items()}
    if "folder" in validation:
        settings["validation.folder"] = str(tmp_path / validation["folder"])
    data = {"data.folder": images(tmp_path / "images", count), "data.resolution": 64}
    found = check_images(resolve(document_of(VALIDATED | data | settings), source=""))
    assert [(one.severity, one.path) for one in found] == ([(severity, place)] if place else [])
    assert all(words in one.what for one in found)


def hardware(**settings):
    return {f"hardware.{name}": value for name, value in settings.items()}


def family(name):
    return {"model.family": name, "data.resolution": 1024, "sampling.prompts": []}


TEXT_ALONE = FULL | {"method.unet.train": False, "method.text_encoders.te1.train": True}
QUANTIZED = ["int8", "fp8", "nf4"]
ADAPTED = ["lora", "dora", "loha", "lokr", "oft", "embedding"]
OFFLOADS = ["offload_layers", "offload_activations"]
TOKEN = {"embeddings.tokens": [{"token": "cat"}]}


@each(
    "case",
    [
        ({"data.cache_latents": False, "data.cache_text": False},),
        ({"method.text_encoders.te1.train": True, "data.cache_text": False},),
        (hardware(gradient_checkpointing="selective", offload_layers=0.5),),
        (hardware(vae_tiling=True) | {"model.circular_padding": True},
         "error hardware.vae_tiling"),
        (hardware(precision="fp16", tf32=False, offload_device="same", vae_tiling=True),),
        # Precision of the VAE.
        *[
            (family(name) | hardware(vae_precision="fp16") | model, expected)
            for name in ("sdxl", "sdxl-inpainting")
            for model, expected in [
                ({}, "error hardware.vae_precision"),
                ({"model.vae": "sdxl-vae-fp16-fix.safetensors"},
                 "warning hardware.vae_precision | value='auto'"),
            ]
        ],
        *[(VAE | hardware(vae_precision=precision), "warning hardware.vae_precision")
          for precision in ("fp32", "bf16", "fp16")],
        # Quantization.
        *[(FULL | hardware(quantization=kind), "error hardware.quantization")
          for kind in QUANTIZED],
        *[(TEXT_ALONE | hardware(quantization=kind),) for kind in QUANTIZED],
        *[
            ({"method.kind": method} | (TOKEN if method == "embedding" else {})
             | hardware(quantization=kind, device=device),)
            for method in ADAPTED for kind in QUANTIZED for device in ("auto", "cuda", "cpu")
        ],
        (VAE | hardware(quantization="int8"), "warning hardware.quantization | value='none'"),
        (hardware(quantization="int8",
                  quantized_layers=[{"pattern": "attn2.*to_k"}, {"pattern": "attn["}]),
         "error hardware.quantized_layers.1.pattern"),
        # Offload.
        *[(hardware(**{name: 0.5}),) for name in OFFLOADS],
        *[
            (hardware(**{name: 0.5}, **place), f"warning hardware.{name}")
            for name in OFFLOADS for place in ({"device": "cpu"}, {"offload_device": "same"})
        ],
        (FULL | hardware(offload_layers=0.5), "warning hardware.offload_layers"),
        (FULL | hardware(offload_activations=0.5),),
        (hardware(offload_layers=1.0, gradient_checkpointing="selective"),
         "warning hardware.gradient_checkpointing"),
        (hardware(offload_layers=0.9, gradient_checkpointing="selective"),),
        (hardware(prefetch=True), "warning hardware.prefetch | nothing is offloaded"),
        *[(hardware(prefetch=True, **{name: 0.5}), "warning hardware.prefetch | experimental")
          for name in OFFLOADS],
        (hardware(deterministic="on", attention="flash"),),
        (hardware(deterministic="on", attention="cudnn"), "error hardware.attention | same bits"),
        # Devices.
        (hardware(device="cuda:7"),),
        (hardware(device="cuda:0,cuda:1") | TWO,),
        (hardware(device="cpu", processes=2) | TWO,),
        (hardware(processes=2), "error training.accumulation | share the microbatches"),
        (hardware(device="cuda:0,cuda:2"), "error training.accumulation | 2 processes"),
        (hardware(processes=2) | {"training.accumulation": 3},
         "warning training.accumulation | evenly"),
        (hardware(device="cuda:0,cuda:1", processes=3) | {"training.accumulation": 3},
         "error hardware.processes | 3 processes do not fit"),
        (hardware(device="mps", processes=2) | TWO, "error hardware.processes | one Apple GPU",
         "warning hardware.device"),
        (hardware(device="mps", quantization="int8"), "warning hardware.device | been tested"),
        (hardware(device="mps", offload_layers=0.5, prefetch=True), "warning hardware.device",
         "warning hardware.offload_layers | on Apple's GPUs", "warning hardware.prefetch"),
        (hardware(device="mps", quantization="fp8") | {"optimizer.kind": "lion8bit"},
         "error hardware.quantization", "error optimizer.kind | no kernels",
         "warning hardware.device"),
    ],
)  # fmt: skip
def test_precision_quantization_and_offload_are_checked(case):
    check(*case)


SHARDED = FULL | TWO | hardware(processes=2, sharding="full")


@each(
    "case",
    [
        (SHARDED,),
        (SHARDED | {"method.text_encoders.te1.train": True, "ema.use": True},),
        (SHARDED | hardware(gradient_checkpointing="block"),),
        *[(SHARDED | {"optimizer.kind": kind},) for kind in ("adam", "lion", "schedulefree_adamw")],
        (SHARDED | hardware(processes=1), "warning hardware.sharding | nothing to share out"),
        (SHARDED | {"method.kind": "lora"}, "error hardware.sharding | few weights"),
        (SHARDED | VAE | {"method.weights": "fp32"}, "error hardware.sharding | few weights"),
        (SHARDED | UNCLIPPED | WARM | {"optimizer.kind": "adafactor"},
         "error optimizer.kind | whole weights"),
        (SHARDED | {"optimizer.kind": "adamw8bit"}, "error optimizer.kind | blocks of them"),
        (SHARDED | {"data.concepts": [{"folder": "x", "role": "own_prediction"}]},
         "error hardware.sharding | second copy"),
        (SHARDED | {"embeddings.tokens": [{"token": "<my-token>"}]}, "error embeddings.tokens"),
        (SHARDED | {"method.weights": "fp32"} | hardware(precision="fp16"),
         "error hardware.precision | loss scale"),
        (SHARDED | hardware(offload_layers=0.5, device="cuda"), "error hardware.offload_layers",
         "warning hardware.offload_layers"),
        (SHARDED | hardware(offload_activations=0.5), "error hardware.offload_activations"),
    ],
)  # fmt: skip
def test_what_cannot_be_sharded_is_refused(case):
    check(*case)
