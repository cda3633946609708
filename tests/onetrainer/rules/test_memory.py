"""Rules of precision, quantization and offloading."""

from onetrainer.errors import Fix
from onetrainer.presets.presets import resolve
from onetrainer.rules.memory import problems
from onetrainer.rules.rules import check_rules
from tests.each import each

VAE = {"method": {"kind": "vae"}, "objective": {"kind": "reconstruction"}}
FULL = {"method": {"kind": "full"}}
TEXT_ALONE = {"method": {"kind": "full", "unet": {"train": False}, "text_encoder": {"train": True}}}


def reported(family="sd15", document=None, model=None, **hardware):
    """Return the problems of a config by path."""
    config = resolve(
        {"model": {"family": family, **(model or {})}, "hardware": hardware, **(document or {})},
        source="test",
    )
    found = list(problems(config))
    assert all(problem in check_rules(config) for problem in found)
    return {problem.path: problem for problem in found}


def severities(*arguments, **options):
    return {path: problem.severity for path, problem in reported(*arguments, **options).items()}


def fixed(problem, fix, family="sd15", document=None, **hardware):
    """Return what is reported after a fix of a hardware setting."""
    section, name = fix.path.split(".")
    assert section == "hardware"
    return severities(family, document, **{**hardware, name: fix.value})


def test_defaults_and_what_only_costs_time_are_fine():
    assert reported() == {}
    assert reported(document={"data": {"cache_latents": False, "cache_text": False}}) == {}
    text = {"method": {"kind": "lora", "text_encoder": {"train": True}}}
    assert reported(document=text | {"data": {"cache_text": False}}) == {}
    assert reported(gradient_checkpointing="selective", offload_layers=0.5) == {}
    assert reported(precision="fp16", tf32=False, offload_device="same", vae_tiling=True) == {}


@each("family", ["sdxl", "sdxl-inpainting"])
def test_a_vae_of_sdxl_in_fp16_is_refused_unless_it_is_another_one(family):
    place, options = "hardware.vae_precision", {"family": family, "vae_precision": "fp16"}
    problem = reported(**options)[place]
    assert problem.severity == "error"
    for fix in problem.choices:
        assert fixed(problem, fix, **options) == {}
    own = reported(model={"vae": "sdxl-vae-fp16-fix.safetensors"}, **options)[place]
    assert (own.severity, own.fix) == ("warning", Fix(place, "auto"))


@each("precision", ["fp32", "bf16", "fp16"])
def test_a_vae_that_trains_has_its_own_format(precision):
    assert severities(document=VAE, vae_precision=precision) == {
        "hardware.vae_precision": "warning"
    }
    assert reported(document=VAE) == {}


@each("kind", ["int8", "fp8", "nf4"])
def test_a_unet_whose_own_weights_train_is_not_quantized(kind):
    problem = reported(document=FULL, quantization=kind)["hardware.quantization"]
    assert problem.severity == "error"
    assert fixed(problem, problem.fix, document=FULL, quantization=kind) == {}
    assert reported(document=TEXT_ALONE, quantization=kind) == {}


@each("kind", ["int8", "fp8", "nf4"])
@each("method", ["lora", "dora", "loha", "lokr", "oft", "embedding"])
def test_weights_under_adapters_and_embeddings_are_quantized_on_every_device(method, kind):
    for device in ("auto", "cuda", "cpu"):
        assert (
            reported(document={"method": {"kind": method}}, quantization=kind, device=device) == {}
        )


def test_quantization_of_a_vae_has_no_effect():
    problem = reported(document=VAE, quantization="int8")["hardware.quantization"]
    assert (problem.severity, problem.fix.value) == ("warning", "none")


def test_patterns_that_are_none_are_reported_at_their_place():
    layers = [{"pattern": "attn2.*to_k"}, {"pattern": "attn["}]
    assert severities(quantization="int8", quantized_layers=layers) == {
        "hardware.quantized_layers.1.pattern": "error"
    }


@each("setting", ["offload_layers", "offload_activations"])
def test_what_is_offloaded_needs_another_place(setting):
    assert reported(**{setting: 0.5}) == {}
    for place in ({"device": "cpu"}, {"offload_device": "same"}):
        options = {setting: 0.5, **place}
        (problem,) = reported(**options).values()
        assert (problem.path, problem.severity) == (f"hardware.{setting}", "warning")
        for fix in (*problem.choices, *([problem.fix] if problem.fix else [])):
            assert fixed(problem, fix, **options) == {}


def test_weights_that_train_in_ram_are_slow():
    assert severities(document=FULL, offload_layers=0.5) == {"hardware.offload_layers": "warning"}
    assert reported(document=FULL, offload_activations=0.5) == {}


def test_selective_checkpointing_has_nothing_left():
    options = {"offload_layers": 1.0, "gradient_checkpointing": "selective"}
    problem = reported(**options)["hardware.gradient_checkpointing"]
    assert problem.severity == "warning"
    assert fixed(problem, problem.fix, **options) == {}
    assert reported(**{**options, "offload_layers": 0.9}) == {}


@each("setting", ["offload_layers", "offload_activations"])
def test_prefetching_is_experimental_or_useless(setting):
    for options, word in (({setting: 0.5}, "experimental"), ({}, "nothing is offloaded")):
        problem = reported(prefetch=True, **options)["hardware.prefetch"]
        assert problem.severity == "warning"
        assert word in problem.what
        assert fixed(problem, problem.fix, prefetch=True, **options) == {}
