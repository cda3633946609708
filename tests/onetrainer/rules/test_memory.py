"""What is told of precision, quantization and of what trades memory for time."""

from onetrainer.errors import Fix
from onetrainer.presets.presets import resolve
from onetrainer.rules.memory import problems
from onetrainer.rules.rules import check_rules
from tests.each import each

VAE = {"method": {"kind": "vae"}, "objective": {"kind": "reconstruction"}}
FULL = {"method": {"kind": "full"}}
TEXT_ALONE = {"method": {"kind": "full", "unet": {"train": False}, "text_encoder": {"train": True}}}


def told(family="sd15", document=None, model=None, **hardware):
    """The problems of a config by path."""
    config = resolve(
        {"model": {"family": family, **(model or {})}, "hardware": hardware, **(document or {})},
        source="test",
    )
    found = problems(config)
    assert all(problem in check_rules(config) for problem in found)
    return {problem.path: problem for problem in found}


def severities(*arguments, **options):
    return {path: problem.severity for path, problem in told(*arguments, **options).items()}


def cured(problem, fix, family="sd15", document=None, **hardware):
    """What is told after a cure of a setting of the hardware."""
    section, name = fix.path.split(".")
    assert section == "hardware"
    return severities(family, document, **{**hardware, name: fix.value})


def test_defaults_and_what_only_costs_time_are_fine():
    assert told() == {}
    assert told(document={"data": {"cache_latents": False, "cache_text": False}}) == {}
    text = {"method": {"kind": "lora", "text_encoder": {"train": True}}}
    assert told(document=text | {"data": {"cache_text": False}}) == {}
    assert told(gradient_checkpointing="selective", offload_layers=0.5) == {}
    assert told(precision="fp16", tf32=False, offload_device="same", vae_tiling=True) == {}


@each("family", ["sdxl", "sdxl-inpainting"])
def test_a_vae_of_sdxl_in_fp16_is_refused_unless_it_is_another_one(family):
    place, options = "hardware.vae_precision", {"family": family, "vae_precision": "fp16"}
    problem = told(**options)[place]
    assert problem.severity == "error"
    for fix in problem.choices:
        assert cured(problem, fix, **options) == {}
    own = told(model={"vae": "sdxl-vae-fp16-fix.safetensors"}, **options)[place]
    assert (own.severity, own.fix) == ("warning", Fix(place, "auto"))


@each("precision", ["auto", "fp32", "bf16"])
def test_other_formats_of_a_vae_are_fine_with_every_family(precision):
    for family in ("sd15", "sd2", "sdxl"):
        assert told(family, vae_precision=precision) == {}
    assert told("sd15", vae_precision="fp16") == {}


@each("precision", ["fp32", "bf16", "fp16"])
def test_a_vae_that_trains_has_its_own_format(precision):
    assert severities(document=VAE, vae_precision=precision) == {
        "hardware.vae_precision": "warning"
    }
    assert told(document=VAE) == {}


@each("kind", ["int8", "fp8", "nf4"])
def test_a_unet_whose_own_weights_train_is_not_quantized(kind):
    problem = told(document=FULL, quantization=kind)["hardware.quantization"]
    assert problem.severity == "error"
    assert cured(problem, problem.fix, document=FULL, quantization=kind) == {}
    assert told(document=TEXT_ALONE, quantization=kind) == {}


@each("kind", ["int8", "fp8", "nf4"])
@each("method", ["lora", "dora", "loha", "lokr", "oft", "embedding"])
def test_weights_under_adapters_and_words_are_quantized_on_every_device(method, kind):
    for device in ("auto", "cuda", "cpu"):
        assert told(document={"method": {"kind": method}}, quantization=kind, device=device) == {}


def test_quantization_beside_a_vae_is_told_to_do_nothing():
    problem = told(document=VAE, quantization="int8")["hardware.quantization"]
    assert (problem.severity, problem.fix.value) == ("warning", "none")


def test_patterns_that_are_none_are_told_by_their_place():
    layers = [{"pattern": "attn2.*to_k"}, {"pattern": "attn["}]
    assert severities(quantization="int8", quantized_layers=layers) == {
        "hardware.quantized_layers.1.pattern": "error"
    }


@each("setting", ["offload_layers", "offload_activations"])
def test_what_is_offloaded_needs_another_place(setting):
    assert told(**{setting: 0.5}) == {}
    for place in ({"device": "cpu"}, {"offload_device": "same"}):
        options = {setting: 0.5, **place}
        (problem,) = told(**options).values()
        assert (problem.path, problem.severity) == (f"hardware.{setting}", "warning")
        for fix in (*problem.choices, *([problem.fix] if problem.fix else [])):
            assert cured(problem, fix, **options) == {}


def test_weights_that_train_in_main_memory_are_told_to_be_slow():
    assert severities(document=FULL, offload_layers=0.5) == {"hardware.offload_layers": "warning"}
    assert told(document=FULL, offload_activations=0.5) == {}


def test_selective_checkpointing_is_told_to_have_nothing_left():
    options = {"offload_layers": 1.0, "gradient_checkpointing": "selective"}
    problem = told(**options)["hardware.gradient_checkpointing"]
    assert problem.severity == "warning"
    assert cured(problem, problem.fix, **options) == {}
    assert told(**{**options, "offload_layers": 0.9}) == {}


@each("setting", ["offload_layers", "offload_activations"])
def test_moving_ahead_of_time_is_told_to_be_experimental_or_of_no_use(setting):
    for options, word in (({setting: 0.5}, "experimental"), ({}, "nothing is offloaded")):
        problem = told(prefetch=True, **options)["hardware.prefetch"]
        assert problem.severity == "warning"
        assert word in problem.what
        assert cured(problem, problem.fix, prefetch=True, **options) == {}
