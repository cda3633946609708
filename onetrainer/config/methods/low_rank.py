"""Settings of adapters with low-rank matrices: LoRA, DoRA, LoHa and LoKr."""

from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from onetrainer.config.base.components import (
    AdapterLayerRule,
    TextEncoderAdapter,
    UnetAdapter,
)
from onetrainer.config.base.encoders import TextEncoderAdapters, every_encoder
from onetrainer.config.base.section import Ui
from onetrainer.config.methods.adapter_section import (
    RULES,
    AdapterSection,
    ModuleDropout,
    StartFrom,
    Targets,
)

Rank = Annotated[
    int, Field(ge=0, le=1024), Ui("Rank", zero="of the file", search="dim network lora auto")
]
Alpha = Annotated[float, Field(gt=0, le=1024), Ui("Alpha", search="network lora scale")]
MaxNorm = Annotated[
    float,
    Field(
        ge=0,
        le=1000,
        description="The largest norm of each layer's change (alpha / rank included), above which"
        " its matrices are scaled down after every step, against overfitting and for adapters that"
        " combine well. 1 is usual, less is stronger, 0 is off.",
    ),
    Ui("Max norm", level="advanced", search="scale_weight_norms weight norm regularisation limit"),
]


class LowRank(AdapterSection):
    """Settings shared by all adapters with low-rank matrices."""

    rank: Rank = 16
    """The inner size of the adapter matrices. 8 to 32 is usual; more can train more detail and
    makes a larger file. 0 takes the rank of the file to continue from."""

    alpha: Alpha = 16.0
    """Scales the adapter by alpha / rank. Alpha equal to the rank is a good default; less weakens
    the adapter."""

    targets: Targets = "attn-mlp"
    """Which layers get an adapter: attention only, attention and feed-forward, every linear and
    convolution layer, or only those listed in "Layers by name"."""

    unet: UnetAdapter = UnetAdapter.default()
    text_encoders: TextEncoderAdapters = Field(
        default_factory=partial(every_encoder, TextEncoderAdapter)
    )

    layers: Annotated[tuple[AdapterLayerRule, ...], Field(max_length=64), RULES] = ()
    """Layers by name, which may get another rank, alpha or learning rate, be excluded, or be added
    to those above. The first pattern that matches a layer applies."""

    dropout: Annotated[
        float, Field(ge=0, lt=1), Ui("Dropout", level="advanced", search="regularisation")
    ] = 0.0
    """The fraction of adapter inputs set to zero at random in training, against overfitting. Which
    ones depends on how a step is divided into batches. 0 is usual, up to 0.1; more holds on less to
    single images and trains more slowly."""

    rank_dropout: Annotated[
        float, Field(ge=0, lt=1), Ui("Rank dropout", level="advanced", search="regularisation")
    ] = 0.0
    """The fraction of ranks that each adapter drops at random in every batch; the others are scaled
    up. 0 is usual, up to 0.1; more holds on less to single images and trains more slowly."""

    module_dropout: ModuleDropout = 0.0
    """The probability of each adapter to be dropped in a batch. 0 is usual, up to 0.1; more holds
    on less to single images and trains more slowly."""

    start_from: StartFrom = ""
    """A file of the same type of adapter to continue from, trained on the same family; empty starts
    from scratch. Alpha stays as set here, and the matrices are rescaled to keep the file's effect.
    Another rank is refused; a rank of 0 is that of the file."""


class LowRankPair(LowRank):
    """Settings shared by adapters of two matrices, down and up."""

    plus_ratio: Annotated[
        float, Field(ge=1, le=1000), Ui("LoRA+ ratio", level="advanced", search="loraplus lr ratio")
    ] = 1.0
    """The learning rate of the up matrices as a multiple of the down matrices' (LoRA+). 1 is off
    and usual; 16 trains faster, more is bolder. Source: Hayou et al. 2024."""


class Lora(LowRankPair):
    """Trains small matrices that are added to the frozen weights: the usual choice.

    Source: Hu et al. 2021.
    """

    title = "LoRA"
    noun = "a LoRA"
    namings = ("kohya", "diffusers", "comfyui")
    kind: Literal["lora"] = "lora"

    max_norm: MaxNorm = 0.0


class Dora(LowRankPair):
    """LoRA that trains magnitudes and directions of weights separately. Source: Liu et al. 2024."""

    title = "DoRA"
    noun = "a DoRA"
    namings = ("kohya", "diffusers", "comfyui")
    kind: Literal["dora"] = "dora"

    norms: Annotated[
        Literal["inputs", "outputs"],
        Ui(
            "Norms",
            level="advanced",
            search="magnitude wd_on_output diffusers peft lengths",
            choices={"inputs": "of inputs", "outputs": "of outputs"},
        ),
    ] = "inputs"
    """Which norms of the changed weight are trained: "inputs", which ComfyUI, Forge and A1111 read,
    or "outputs" as in peft, which diffusers reads in its own naming (output.lora_naming)."""


class LoHa(LowRank):
    """An adapter of elementwise products of two pairs of small matrices.

    Source: Hyeon-Woo et al. 2022.
    """

    title = "LoHa"
    noun = "a LoHa"
    kind: Literal["loha"] = "loha"

    rank: Rank = 8
    """The inner size of both pairs of matrices; the rank of their product is up to its square. More
    can train more detail and makes a larger file. 4 to 16 is usual."""

    # Half the rank: LoHa's matrices begin larger than LoRA's (standard deviations 1 and 0.1), so
    # that the same step moves the weights further.
    alpha: Alpha = 4.0
    """Scales the adapter by alpha / rank. LoHa changes faster than LoRA: half the rank, or less, is
    usual. More changes the model faster."""

    max_norm: MaxNorm = 0.0


class LoKr(LowRank):
    """An adapter of products of a small and a larger matrix: the smallest files.

    Source: Yeh et al. 2023.
    """

    title = "LoKr"
    noun = "a LoKr"
    kind: Literal["lokr"] = "lokr"

    rank: Rank = 16
    """The inner size of the larger matrix, which is kept whole if the rank is half of its side or
    more. More can train more detail and makes a larger file. 8 to 32 is usual."""

    alpha: Alpha = 16.0
    """Scales the adapter by alpha / rank, unless both matrices are kept whole. Alpha equal to the
    rank is a good default. More changes the model faster, less more slowly."""

    factor: Annotated[
        int,
        Field(ge=-1, le=1024),
        Ui("Factor", level="advanced", search="kronecker decompose size"),
    ] = -1
    """The side of the small matrix, or the next smaller divisor of the layer's size; -1 makes both
    matrices as similar in size as possible, which gives the smallest file. -1, 4 or 8 is usual;
    smaller makes a larger file that trains more detail."""

    decompose_both: Annotated[
        bool, Ui("Decompose both matrices", level="advanced", search="decompose low rank")
    ] = False
    """Makes the small matrix a low-rank product, too, if it is large enough."""

    full_matrix: Annotated[
        bool, Ui("Full matrices", level="advanced", search="full matrix dimension both whole")
    ] = False
    """Keeps both matrices whole, so that rank and alpha are not used."""

    max_norm: MaxNorm = 0.0
