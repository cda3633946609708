"""What is wrong between training a model's own weights and the other settings."""

from collections.abc import Iterator

from onetrainer.config.base.components import TextEncoder, TextEncoder2, Unet
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.run.model import base_of
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

HIGH_LR = 1e-4
HIGH_VAE_LR = 1e-3
# Optimizers that take higher rates than this do not move weights by about the rate in a step.
ADAMS_HIGH_LR = 1e-2
# Of a bf16's significand. Neighbours are 2**-8 to 2**-7 of a weight apart, and less than half of
# the smaller one never reaches the next.
BF16_BITS = 8


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of full fine-tuning and of the VAE's."""
    match config.method:
        case Full() as method:
            return [
                *_of_objective(config),
                *_number_formats(config, method),
                *_rates(config, method),
            ]
        case Vae() as method:
            return [*_of_vae(config), *_number_formats(config, method)]
        case _:
            return [*_of_objective(config)]


def _networks(config: TrainConfig, method: Full) -> dict[str, Unet | TextEncoder | TextEncoder2]:
    """What of the family's networks trains, by its setting's path."""
    found: dict[str, Unet | TextEncoder | TextEncoder2] = {
        "method.unet": method.unet,
        "method.text_encoder": method.text_encoder,
    }
    if base_of(config.model.family) == "sdxl":
        found["method.text_encoder_2"] = method.text_encoder_2
    return {path: network for path, network in found.items() if network.train}


def _number_formats(config: TrainConfig, method: Full | Vae) -> Iterator[Problem]:
    if method.weights == "fp32":
        return
    if not method.stochastic_rounding:
        yield Problem(
            "method.stochastic_rounding",
            "bf16 weights without stochastic rounding lose small changes: one below"
            f" 1/{2 ** (BF16_BITS + 1)} of a weight rounds away",
            f"At a learning rate of {config.optimizer.lr:g} this is most of what is learnt",
            "Turn it on, or keep the weights in fp32.",
            "warning",
            Fix("method.stochastic_rounding", value=True),
        )
    if config.hardware.precision == "fp16":
        yield Problem(
            "hardware.precision",
            "fp16 cannot compute with weights in bf16: what is too small for the one is cut off by"
            " the other",
            "Expected bf16 with bf16 weights, or weights in fp32",
            "Choose bf16, or keep the weights in fp32.",
            choices=(Fix("hardware.precision", "bf16"), Fix("method.weights", "fp32")),
        )
    # A VAE always computes in the number format of its weights.
    if config.hardware.precision == "fp32" and isinstance(method, Full):
        yield Problem(
            "method.weights",
            "bf16 weights need the precision bf16: the model computes in bf16 anyway",
            "Expected bf16 for both, or fp32 for both",
            "Set the precision to bf16, or the weights to fp32.",
            "warning",
            choices=(Fix("hardware.precision", "bf16"), Fix("method.weights", "fp32")),
        )


def _rates(config: TrainConfig, method: Full) -> Iterator[Problem]:
    section = config.optimizer
    is_set = "lr" in type(section).model_fields
    if section.is_adaptive or section.high_lr > ADAMS_HIGH_LR or not is_set:
        return
    own = {path: network.lr for path, network in _networks(config, method).items()}
    rates = {f"{path}.lr": lr for path, lr in own.items()}
    rates |= {f"method.layers.{place}.lr": rule.lr for place, rule in enumerate(method.layers)}
    if None in own.values():
        rates["optimizer.lr"] = section.lr
    for path, lr in rates.items():
        if lr is not None and lr > HIGH_LR:
            yield Problem(
                path,
                f"{lr:g} is a very high learning rate for a model's own weights",
                "Fine-tuning usually learns well between 1e-6 and 1e-5",
                "Lower it; the model forgets what it knew otherwise.",
                "warning",
            )


def _of_vae(config: TrainConfig) -> Iterator[Problem]:
    if base_of(config.model.family) == "sdxl":
        yield Problem(
            "method.kind",
            "the VAE of SDXL cannot be trained here: its decoder computes with numbers near the"
            " limit of fp16, in which most programs run it, and training pushes them beyond",
            "Expected a model of SD 1.x or 2.x",
            "Choose another method or another model.",
        )
    section = config.optimizer
    if not section.is_adaptive and HIGH_VAE_LR < section.lr <= section.high_lr:
        yield Problem(
            "optimizer.lr",
            f"{section.lr:g} is a very high learning rate for a decoder",
            "It usually learns well between 1e-6 and 1e-4",
            "Lower it; pictures lose their colors otherwise.",
            "warning",
        )
    if config.embeddings.tokens:
        yield Problem(
            "embeddings.tokens",
            "a VAE reads no words, so that none can be learned while it trains",
            'Expected no words with the method "vae"',
            "Remove them, or choose another method.",
        )
    if config.objective.kind != "reconstruction":
        yield Problem(
            "objective.kind",
            "a VAE is trained by the pictures that it gives back, not by noise or by scores",
            'Expected "reconstruction" with the method "vae"',
            "Choose it.",
            fix=Fix("objective.kind", "reconstruction"),
        )
    elif not (config.objective.l1 or config.objective.l2 or config.objective.lpips):
        yield Problem(
            "objective.l1",
            "no difference counts, so that there is nothing to learn",
            "Expected a weight above 0 for l1, l2 or lpips",
            "Set one to 1.",
            fix=Fix("objective.l1", 1),
        )


def _of_objective(config: TrainConfig) -> Iterator[Problem]:
    if config.objective.kind == "reconstruction":
        yield Problem(
            "objective.kind",
            "giving pictures back is what a VAE learns; this method trains what draws",
            'Expected "denoising", or the method "vae"',
            "Choose denoising.",
            fix=Fix("objective.kind", "denoising"),
        )
