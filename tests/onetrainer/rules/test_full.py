from onetrainer.config.objectives.reconstruction import missing_packages
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix
from onetrainer.presets.presets import resolve
from onetrainer.rules import full
from onetrainer.rules.rules import check_rules
from tests.each import each

QUIET = {"optimizer": {"lr": 1e-5}}


def config(method=None, **sections) -> TrainConfig:
    document = {"method": {"kind": "full", **(method or {})}, **QUIET, **sections}
    return resolve(document, source="test")


def found(method=None, **sections):
    """Return each problem's path and severity."""
    problems = full.problems(config(method, **sections))
    return [(problem.path, problem.severity) for problem in problems]


def vae(**sections):
    return found({"kind": "vae"}, **{"objective": {"kind": "reconstruction"}, **sections})


def test_the_usual_fine_tuning_has_no_problems():
    assert found() == []
    assert vae() == []


def test_bf16_without_stochastic_rounding_is_warned_of():
    off = {"stochastic_rounding": False}
    assert found(off) == [("method.stochastic_rounding", "warning")]
    assert vae() == []
    assert found({**off, "weights": "fp32"}) == []
    (problem,) = full.problems(config(off))
    assert problem.fix == Fix("method.stochastic_rounding", value=True)
    assert "1/512" in problem.what


def test_bf16_weights_and_fp16_precision_exclude_each_other():
    assert found(hardware={"precision": "fp16"}) == [("hardware.precision", "error")]
    assert found({"weights": "fp32"}, hardware={"precision": "fp16"}) == []
    (problem,) = full.problems(config(hardware={"precision": "fp16"}))
    for fix in problem.choices:
        section, name = fix.path.split(".")
        fixed = {"precision": "fp16"} | ({name: fix.value} if section == "hardware" else {})
        method = {name: fix.value} if section == "method" else {}
        assert found(method, hardware=fixed) == []


def test_bf16_weights_of_a_vae_and_fp16_precision_exclude_each_other():
    def problems(weights, precision):
        return found(
            {"kind": "vae", "weights": weights},
            objective={"kind": "reconstruction"},
            hardware={"precision": precision},
        )

    assert problems("bf16", "fp16") == [("hardware.precision", "error")]
    assert problems("bf16", "bf16") == problems("bf16", "fp32") == problems("fp32", "fp16") == []


def test_bf16_weights_with_fp32_precision_are_warned_of():
    assert found(hardware={"precision": "fp32"}) == [("method.weights", "warning")]
    (problem,) = full.problems(config(hardware={"precision": "fp32"}))
    assert "the precision fp32 has no effect" in problem.what
    assert problem.choices == (Fix("hardware.precision", "bf16"), Fix("method.weights", "fp32"))
    assert found({"weights": "fp32"}, hardware={"precision": "fp32"}) == []


@each(
    ("kind", "paths"),
    [
        ("adamw", ["optimizer.lr"]),
        ("lion", ["optimizer.lr"]),
        ("adafactor", ["optimizer.lr"]),
        ("sgd", []),
        ("prodigy", []),
    ],
)
def test_high_rates_are_warned_of_where_a_rate_is_a_step(kind, paths):
    high = {"kind": kind, "lr": 2e-4}
    assert found(optimizer=high) == [(path, "warning") for path in paths]


def test_an_optimizer_without_a_rate_of_its_own_is_left_alone():
    assert found(optimizer={"kind": "adafactor_relative"}) == []


def test_rates_of_networks_and_layers_count_where_they_are_used():
    high = {"kind": "adamw", "lr": 1.0}
    method = {
        "unet": {"lr": 2e-4},
        "text_encoder": {"train": True, "lr": 1e-5},
        "text_encoder_2": {"train": True, "lr": 1.0},  # which SD 1.5 has not
        "layers": [{"pattern": "attn2", "lr": 3e-4}],
    }
    expected = [("method.unet.lr", "warning"), ("method.layers.0.lr", "warning")]
    assert found(method, optimizer=high) == expected


@each(
    ("method", "objective", "fix"),
    [
        ("vae", "denoising", "reconstruction"),
        ("full", "reconstruction", "denoising"),
        ("lora", "reconstruction", "denoising"),
    ],
)
def test_vae_and_reconstruction_require_each_other(method, objective, fix):
    (problem,) = full.problems(config({"kind": method}, objective={"kind": objective}))
    assert (problem.path, problem.severity) == ("objective.kind", "error")
    assert problem.fix == Fix("objective.kind", fix)
    assert found({"kind": method}, objective={"kind": fix}) == []


def test_vae_of_sdxl_and_embeddings_with_a_vae_are_refused():
    assert vae(model={"family": "sdxl"}) == [("method.kind", "error")]
    tokens = {"tokens": [{"token": "<x>"}]}
    assert vae(embeddings=tokens) == [("embeddings.tokens", "error")]


def test_a_reconstruction_in_which_nothing_counts_is_refused():
    nothing = {"kind": "reconstruction", "l1": 0}
    assert vae(objective=nothing) == [("objective.l1", "error")]
    assert vae(objective={**nothing, "l2": 1}) == []


def test_lpips_without_its_packages_is_reported_before_the_start(monkeypatch):
    looked = "onetrainer.config.objectives.reconstruction.importlib.util.find_spec"
    section = config({"kind": "vae"}, objective={"kind": "reconstruction", "lpips": 0.1}).objective
    monkeypatch.setattr(looked, lambda name: None if name == "torchvision" else object())
    problem = missing_packages(section)
    assert problem.path == "objective.lpips"
    assert "torchvision" in problem.what
    assert "lpips," not in problem.what
    assert "--extra perceptual" in problem.remedy
    assert missing_packages(section.model_copy(update={"lpips": 0.0})) is None
    monkeypatch.setattr(looked, lambda _: object())
    assert missing_packages(section) is None


@each(
    ("method", "rate", "words"),
    [
        ("full", 1.0, ["full fine-tuning"]),
        ("vae", 4e-3, ["decoder"]),
        ("vae", 1e-3, []),
        ("embedding", 0.05, []),
        ("embedding", 0.5, ["AdamW"]),
        ("lora", 0.05, ["AdamW"]),
    ],
)
def test_each_method_has_a_bound_of_its_own_for_the_learning_rate(method, rate, words):
    document = {
        "method": {"kind": method},
        "optimizer": {"lr": rate},
        "objective": {"kind": "reconstruction" if method == "vae" else "denoising"},
        "embeddings": {"tokens": [{"token": "<x>"}] if method == "embedding" else []},
    }
    found = [p.what for p in check_rules(resolve(document, source="")) if p.path == "optimizer.lr"]
    assert len(found) == len(words)
    assert all(word in what for word, what in zip(words, found, strict=True))
