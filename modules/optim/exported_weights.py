"""Which weights people get to see: in samples and in finished files."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from modules.optim.ema import Ema
from modules.optim.schedule_free import evaluation_form
from modules.optim.update import Movement


@dataclass(frozen=True)
class ShownWeights:
    """Puts weights into the form that is to be shown, for a while; they come back exactly.

    ema: None if there is no average. keep: changes weights that became an average into what the
    method wants of them, as after each step: an average of vectors is shorter than each of them.
    """

    movement: Movement
    ema: Ema | None
    keep: Callable[[], None]

    def final(self) -> AbstractContextManager[None]:
        """What samples show: the average, if there is one."""
        return self.last() if self.ema is None else self.ema.applied(self.keep)

    def exported(self) -> AbstractContextManager[None]:
        """What finished files hold: the same, with every digit of an average, and only to be read.

        The average may lie elsewhere than the weights, and is not what `keep` makes of it.
        """
        return self.last() if self.ema is None else self.ema.lent()

    def last(self) -> AbstractContextManager[None]:
        """The weights of the last step, without the average."""
        return evaluation_form(self.movement, self.keep)
