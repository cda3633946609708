"""The kinds of adapters: small trained tensors added to frozen weights."""

from typing import get_args

from onetrainer.config.methods.ia3 import Ia3
from onetrainer.config.methods.low_rank import Dora, LoHa, LoKr, Lora
from onetrainer.config.methods.oft import Oft

Adapter = Lora | Dora | LoHa | LoKr | Oft | Ia3

WITH_ADAPTERS = {
    "method.kind": tuple(str(kind.model_fields["kind"].default) for kind in get_args(Adapter))
}
"""The condition of settings that only adapters have; see `Ui.only_with`."""
