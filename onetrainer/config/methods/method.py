"""The training methods."""

from typing import Annotated

from pydantic import Field

from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae

Method = Annotated[Adapter | Full | EmbeddingOnly | Vae, Field(discriminator="kind")]
