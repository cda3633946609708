"""The training methods."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.methods.adapters import Dora, LoHa, LoKr, Lora, Oft
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae

Method = Annotated[
    Lora | Dora | LoHa | LoKr | Oft | Full | EmbeddingOnly | Vae, Field(discriminator="kind")
]
