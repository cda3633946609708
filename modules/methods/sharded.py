"""Full fine-tuning of which each process trains a part of every weight."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from modules.methods.full import Full
from modules.methods.model_source import Trained

if TYPE_CHECKING:
    from modules.sharding.sharding import Sharding


@dataclass(frozen=True)
class ShardedFull(Full):
    """The same as `Full`, with this process's rows of each weight as parameters."""

    sharding: "Sharding"

    @staticmethod
    def of(method: Full, sharding: "Sharding") -> "ShardedFull":
        """Return a method whose networks are sharded now; the other one is of no use any more."""
        own = sharding.own
        return ShardedFull(
            method.family,
            method.source,
            {
                component: {name: own[f"{component}.{name}"] for name in weights}
                for component, weights in method.weights.items()
            },
            tuple(
                replace(group, parameters={name: own[name] for name in group.parameters})
                for group in method.groups
            ),
            method.trained,
            None,
            sharding,
        )

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load this process's rows of whole weights."""
        own = self.sharding.own
        super().load_state_dict(
            {n: self.sharding.cut(n, each) if n in own else each for n, each in state.items()}
        )

    def trained_weights(self) -> Trained:
        """Return the whole weights in rank 0; the others take part."""
        return {
            component: {
                name: self.sharding.joined(f"{component}.{name}", weight)
                for name, weight in weights.items()
            }
            for component, weights in super().trained_weights().items()
        }
