"""The optimizers, and which of them are installed."""

import importlib.util
from typing import Annotated

from pydantic import Field

from onetrainer import install_command
from onetrainer.config.optimizers.adafactor import FactoredOptimizer
from onetrainer.config.optimizers.adam import AdamsAndSgds, AdamWs
from onetrainer.config.optimizers.adaptive import DAdaptation, ProdigyOrScheduleFree
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.optimizers.momentum import MomentumOptimizer
from onetrainer.errors import Problem, UserError

Optimizer = Annotated[
    AdamWs
    | FactoredOptimizer
    | ProdigyOrScheduleFree
    | MomentumOptimizer
    | DAdaptation
    | AdamsAndSgds
    | CustomOptimizer,
    Field(discriminator="kind"),
]
"""The optimizers, each with its own settings."""

EXTRAS = {"bitsandbytes": "bits", "torchao": "bits", "prodigyplus": "optimizers"}
"""The extra of this program that installs a package, if it is not always installed."""


def missing_package(section: Optimizer) -> Problem | None:
    """Return a problem that names the package an optimizer needs; None if it is installed."""
    package = section.target.partition(":")[0].partition(".")[0]
    if not package or importlib.util.find_spec(package) is not None:
        return None
    extra = EXTRAS.get(package, "")
    return Problem(
        "optimizer.kind",
        f'{section.title} needs the package "{package}", which is not installed',
        f'It comes with the extra "{extra}" of this program',
        f"Install it with: {install_command(extra)}",
    )


def require_package(section: Optimizer) -> None:
    """Raise UserError with the install command if an optimizer's package is missing."""
    problem = missing_package(section)
    if problem is not None:
        raise UserError(problem.what, problem.expected, problem.remedy, failure="package")
