"""Rules of full fine-tuning and VAE fine-tuning."""

from collections.abc import Iterator

from onetrainer.config.base.numbers import number_text
from onetrainer.config.methods.components import settings_path, trained_components
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec

HIGH_LR = 1e-4
HIGH_VAE_LR = 1e-3
# An optimizer with a higher limit does not update weights by about the rate per step.
ADAM_HIGH_LR = 1e-2
# Of a bf16 significand. Adjacent numbers differ by 2**-8 to 2**-7 of a weight; less than half of
# the smaller difference is rounded away.
BF16_BITS = 8


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of full fine-tuning and VAE fine-tuning."""
    method = config.method
    if isinstance(method, Vae):
        yield from _vae_problems(config)
    elif config.objective.kind == "reconstruction":
        yield Problem(
            "objective.kind",
            "reconstruction is the objective of VAE training, which this method does not do",
            'Expected "denoising", or the method "vae"',
            "Choose denoising.",
            fix=Fix("objective.kind", "denoising"),
        )
    if isinstance(method, Full | Vae) and method.weights != "fp32":
        yield from _precision_problems(config, method)
    if isinstance(method, Full):
        yield from _rate_problems(config, method)


def _precision_problems(config: TrainConfig, method: Full | Vae) -> Iterator[Problem]:
    if not method.stochastic_rounding:
        yield warning(
            "method.stochastic_rounding",
            "bf16 weights without stochastic rounding lose small updates: less than"
            f" 1/{2 ** (BF16_BITS + 1)} of a weight is rounded away",
            f"At a learning rate of {number_text(config.optimizer.lr)} this affects most updates",
            "Turn it on, or use fp32 weights.",
            to=True,
        )
    if config.hardware.precision == "fp16":
        yield Problem(
            "hardware.precision",
            "fp16 cannot be used with bf16 weights: their number ranges differ",
            "Expected bf16 with bf16 weights, or fp32 weights",
            "Choose bf16, or use fp32 weights.",
            choices=(Fix("hardware.precision", "bf16"), Fix("method.weights", "fp32")),
        )
    # A VAE always computes in the precision of its weights.
    if config.hardware.precision == "fp32" and isinstance(method, Full):
        yield warning(
            "method.weights",
            "the precision fp32 has no effect: with bf16 weights the model computes in bf16",
            "Expected bf16 for both, or fp32 for both",
            "Set the precision to bf16, or the weights to fp32.",
            choices=(Fix("hardware.precision", "bf16"), Fix("method.weights", "fp32")),
        )


def _rate_problems(config: TrainConfig, method: Full) -> Iterator[Problem]:
    section = config.optimizer
    has_rate = "lr" in type(section).model_fields
    if section.is_adaptive or section.high_lr > ADAM_HIGH_LR or not has_rate:
        return
    trained = trained_components(method, config.model.family)
    rates = {f"{settings_path(name)}.lr": settings.lr for name, settings in trained.items()}
    uses_common_rate = None in rates.values()
    rates |= {f"method.layers.{index}.lr": rule.lr for index, rule in enumerate(method.layers)}
    if uses_common_rate:
        rates["optimizer.lr"] = section.lr
    for path, lr in rates.items():
        if lr is not None and lr > HIGH_LR:
            yield warning(
                path,
                f"{number_text(lr)} is a very high learning rate for full fine-tuning",
                "Rates between 1e-6 and 1e-5 usually work well",
                "Lower it, or the model forgets what it knows.",
            )


def _vae_problems(config: TrainConfig) -> Iterator[Problem]:
    if family_spec(config.model.family).fp16_vae:
        name = FAMILY_LABELS[base_of(config.model.family)]
        yield Problem(
            "method.kind",
            f"{name}'s VAE cannot be trained: its decoder uses numbers near the limit of fp16, in"
            " which most programs run it, and training exceeds that limit",
            "Expected a model of SD 1.x or 2.x",
            "Choose another method or another model.",
        )
    section = config.optimizer
    if not section.is_adaptive and HIGH_VAE_LR < section.lr <= section.high_lr:
        yield warning(
            "optimizer.lr",
            f"{number_text(section.lr)} is a very high learning rate for a VAE decoder",
            "Rates between 1e-6 and 1e-4 usually work well",
            "Lower it, or images lose their colors.",
        )
    if config.embeddings.tokens:
        yield Problem(
            "embeddings.tokens",
            "a VAE does not read text, so embeddings cannot be trained with it",
            'Expected no tokens with the method "vae"',
            "Remove them, or choose another method.",
        )
    if config.objective.kind != "reconstruction":
        yield Problem(
            "objective.kind",
            "a VAE is trained by reconstruction, not by denoising or rewards",
            'Expected "reconstruction" with the method "vae"',
            "Choose it.",
            fix=Fix("objective.kind", "reconstruction"),
        )
    elif not (config.objective.l1 or config.objective.l2 or config.objective.lpips):
        yield Problem(
            "objective.l1",
            "all loss weights are 0, so nothing is trained",
            "Expected a weight above 0 for l1, l2 or lpips",
            "Set one to 1.",
            fix=Fix("objective.l1", 1),
        )
