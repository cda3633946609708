"""Check for packages that a config needs and that are not installed."""

import importlib.util

from onetrainer import install_command
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.reconstruction import Reconstruction, missing_packages
from onetrainer.config.optimizers.optimizer import missing_package
from onetrainer.config.run.hardware import Quantization
from onetrainer.config.run.output import BOARD_EXTRA, BOARD_PACKAGE
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

QUANTIZERS = {"int8": "torchao", "fp8": "torchao", "nf4": "bitsandbytes"}
QUANTIZER_EXTRA = "bits"


def package_problems(config: TrainConfig) -> list[Problem]:
    """Return a problem for every missing package, with the command that installs it."""
    missing = [missing_package(config.optimizer)]
    if isinstance(config.objective, Reconstruction):
        missing.append(missing_packages(config.objective))
    if not isinstance(config.method, Vae):  # nothing is quantized there
        missing.append(missing_quantizer(config.hardware.quantization))
    if config.output.tensorboard and importlib.util.find_spec(BOARD_PACKAGE) is None:
        missing.append(missing_board())
    return [problem for problem in missing if problem]


def missing_board() -> Problem:
    """Return the problem of TensorBoard's package if it is missing."""
    return _missing("output.tensorboard", "TensorBoard", BOARD_PACKAGE, BOARD_EXTRA, off=False)


def missing_quantizer(kind: Quantization) -> Problem | None:
    """Return the problem of a missing quantization package; None if it is installed."""
    package = QUANTIZERS.get(kind)
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return _missing("hardware.quantization", kind, package, QUANTIZER_EXTRA, off="none")


def _missing(path: str, user: str, package: str, extra: str, *, off: str | bool) -> Problem:
    turn_off = "set it to none" if off == "none" else "turn it off"
    return Problem(
        path,
        f'{user} needs the package "{package}", which is not installed',
        f'It comes with the extra "{extra}" of this program',
        f"Install it with: {install_command(extra)}; or {turn_off}.",
        fix=Fix(path, off),
    )
