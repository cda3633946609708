"""The optimizers, and which of them are installed."""

import importlib.util
import sys
from typing import Annotated

from pydantic import Field

from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative, Came
from onetrainer.config.optimizers.adam import Adam, AdamW, Sgd
from onetrainer.config.optimizers.adaptive import DAdaptAdam, DAdaptLion, DAdaptSgd, Prodigy
from onetrainer.config.optimizers.low_bits import (
    Adam4bit,
    Adam8bit,
    AdamW4bit,
    AdamW8bit,
    AdEMAMix8bit,
    Lion8bit,
    PagedAdamW8bit,
    Sgd8bit,
)
from onetrainer.config.optimizers.momentum import AdEMAMix, Adopt, Lion, Muon
from onetrainer.config.optimizers.schedule_free import (
    ProdigyScheduleFree,
    ScheduleFreeAdamW,
    ScheduleFreeSgd,
)
from onetrainer.errors import Problem, UserError

Optimizer = Annotated[
    AdamW
    | AdamW8bit
    | PagedAdamW8bit
    | AdamW4bit
    | Adafactor
    | AdafactorRelative
    | Came
    | Prodigy
    | ProdigyScheduleFree
    | ScheduleFreeAdamW
    | ScheduleFreeSgd
    | Lion
    | Lion8bit
    | Muon
    | Adopt
    | AdEMAMix
    | AdEMAMix8bit
    | DAdaptAdam
    | DAdaptSgd
    | DAdaptLion
    | Adam
    | Adam8bit
    | Adam4bit
    | Sgd
    | Sgd8bit,
    Field(discriminator="kind"),
]
"""The optimizers, each with its own settings."""


def missing_package(section: Optimizer) -> Problem | None:
    """Return a problem that names the package an optimizer needs; None if it is installed."""
    package = section.target.partition(":")[0].partition(".")[0]
    if importlib.util.find_spec(package) is not None:
        return None
    return Problem(
        "optimizer.kind",
        f'{section.title} needs the package "{package}", which is not installed',
        "It comes with an extra of this program",
        f"Install it with: {install_command(section.extra)}",
    )


def require_package(section: Optimizer) -> None:
    """Raise UserError with the install command if an optimizer's package is missing."""
    problem = missing_package(section)
    if problem is not None:
        raise UserError(problem.what, problem.expected, problem.remedy)


def install_command(extra: str) -> str:
    """Return the command that installs an extra, to be run in the program's folder."""
    python = "python" if sys.platform == "win32" else "python3"
    return f"{python} start-ui.py --setup-only" + (f" --extra {extra}" if extra else "")
