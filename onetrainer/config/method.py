"""What of the model is trained."""

from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base import Section, Ui

LoraTargets = Literal["attn", "attn-mlp", "full"]


class Lora(Section):
    """Low-rank adaptation: small matrices beside frozen weights (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"

    rank: Annotated[int, Field(ge=1, le=1024), Ui("Rank", search="dim network lora")] = 16
    """The inner size of the adapter matrices. More can learn more, and makes a larger file."""

    alpha: Annotated[float, Field(gt=0, le=1024), Ui("Alpha", search="network lora scale")] = 16.0
    """The adapter is scaled by alpha / rank. Keep alpha = rank unless you know the other one."""

    targets: Annotated[
        LoraTargets,
        Ui(
            "Layers",
            level="advanced",
            search="modules blocks",
            choices={
                "attn": "attention",
                "attn-mlp": "attention and feed-forward",
                "full": "every layer",
            },
        ),
    ] = "attn-mlp"
    """Which layers get an adapter: attention only, attention and feed-forward, or every linear
    and convolution layer."""

    train_text_encoder: Annotated[
        bool, Ui("Train the text encoder", search="clip te text encoder")
    ] = False
    """Also puts adapters on the text encoder. Captions are then encoded anew in every step."""

    dropout: Annotated[
        float, Field(ge=0, lt=1), Ui("Dropout", level="advanced", search="regularisation")
    ] = 0.0
    """The share of adapter inputs set to zero at random in training, against overfitting. Which
    ones depends on how a step is cut into batches."""


Method = Lora
