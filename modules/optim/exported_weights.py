"""The forms of the weights that samples and finished files use."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from modules.optim.ema import Ema
from modules.optim.schedule_free import evaluation_form
from modules.optim.update import WeightUpdater


@dataclass(frozen=True)
class ExportedWeights:
    """Context managers that bring weights into a form, and restore them exactly on exit.

    ema: None without an EMA. normalize: what the method does after each step; applied to averaged
    weights as well, since an average of vectors is shorter than each of them.
    """

    updater: WeightUpdater
    ema: Ema | None
    normalize: Callable[[], None]

    def for_samples(self) -> AbstractContextManager[None]:
        """Apply the EMA, if there is one."""
        return self.without_ema() if self.ema is None else self.ema.applied(self.normalize)

    def for_files(self) -> AbstractContextManager[None]:
        """Apply the EMA in full precision, read-only.

        It may be on another device than the weights, and is not normalized.
        """
        return self.without_ema() if self.ema is None else self.ema.applied_float32()

    def without_ema(self) -> AbstractContextManager[None]:
        """Use the weights of the last step."""
        return evaluation_form(self.updater, self.normalize)
