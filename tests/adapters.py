"""Adapters of every kind, with an effect, for tests that hold for all of them."""

import torch

from modules.methods.adapters.adapters import Adapters
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.ia3 import Ia3
from onetrainer.config.methods.low_rank import Dora, LoHa, LoKr, Lora
from onetrainer.config.methods.oft import Oft
from tests.batches import time_ids_of

KINDS: dict[str, Adapter] = {
    "lora": Lora(rank=4, alpha=2.0),
    "dora": Dora(rank=4, alpha=2.0),
    "dora-outputs": Dora(rank=4, alpha=2.0, norms="outputs"),
    "loha": LoHa(rank=4, alpha=2.0),
    "lokr": LoKr(rank=2, alpha=1.0, factor=2),  # of low rank where layers are wide enough
    "lokr-both": LoKr(rank=1, alpha=0.5, decompose_both=True),
    "lokr-whole": LoKr(rank=4, alpha=1.0, full_matrix=True),
    "oft": Oft(block_size=4),
    "oft-constrained": Oft(block_size=4, constraint=0.01),
    "ia3": Ia3(),
}


def section(kind: str, *, text: bool = False, **changes) -> Adapter:
    """The settings of a kind, with changes."""
    encoders = {"text_encoders": {key: {"train": text} for key in ("te1", "te2")}}
    made = KINDS[kind]
    return type(made).model_validate(made.model_dump() | encoders | changes)


def shake(method: Adapters, scale: float = 0.2, seed: int = 1) -> None:
    """Gives every adapter an effect, as training would."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in method.state_dict().values():
        tensor += torch.randn(tensor.shape, generator=generator) * scale


def predict(family, *, side: int = 16, batch: int = 1) -> torch.Tensor:
    """A prediction without gradient, with more than one token in every attention."""
    noisy = torch.randn(batch, 4, side, side, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        conditioning = family.encode_text(["a cat"] * batch)
        steps = torch.full((batch,), 500)
        return family.predict(noisy, steps, conditioning, time_ids=time_ids_of(batch))
