"""Adapters: small trained matrices beside frozen weights, in the kinds that people use."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onetrainer.config.base.components import (
    AdapterLayerRule,
    LayerRule,
    TextEncoder,
    TextEncoder2,
    TextEncoder2Adapter,
    TextEncoderAdapter,
    Unet,
    UnetAdapter,
)
from onetrainer.config.base.section import Section, Ui

AdapterTargets = Literal["attn", "attn-mlp", "full", "named"]
Rank = Annotated[int, Field(ge=1, le=1024), Ui("Rank", search="dim network lora")]
Alpha = Annotated[float, Field(gt=0, le=1024), Ui("Alpha", search="network lora scale")]
Targets = Annotated[
    AdapterTargets,
    Ui(
        "Layers",
        level="advanced",
        search="modules blocks preset",
        choices={
            "attn": "attention",
            "attn-mlp": "attention and feed-forward",
            "full": "every layer",
            "named": "only those named below",
        },
    ),
]
RULES = Ui("Layers by name", level="advanced", search="pattern regex filter block rank lr")
Dropout = Annotated[
    float, Field(ge=0, lt=1), Ui("Dropout", level="advanced", search="regularisation")
]
RankDropout = Annotated[
    float, Field(ge=0, lt=1), Ui("Rank dropout", level="advanced", search="regularisation")
]
ModuleDropout = Annotated[
    float, Field(ge=0, lt=1), Ui("Module dropout", level="advanced", search="regularisation")
]
StartFrom = Annotated[
    str, Ui("Continue from", level="advanced", editor="file", search="resume network_weights")
]
PlusRatio = Annotated[
    float, Field(ge=1, le=1000), Ui("LoRA+ ratio", level="advanced", search="loraplus lr ratio")
]


class LowRank(Section):
    """What every adapter made of matrices of low rank has."""

    kind: Literal["lora", "dora", "loha", "lokr"]

    rank: Rank = 16
    """The inner size of the adapter matrices. More can learn more, and makes a larger file."""

    alpha: Alpha = 16.0
    """The adapter is scaled by alpha / rank. Keep alpha = rank unless you know the other one."""

    targets: Targets = "attn-mlp"
    """Which layers get an adapter: attention only, attention and feed-forward, every linear and
    convolution layer, or only those that "Layers by name" names."""

    unet: UnetAdapter = UnetAdapter()
    text_encoder: TextEncoderAdapter = TextEncoderAdapter()
    text_encoder_2: TextEncoder2Adapter = TextEncoder2Adapter()

    layers: Annotated[tuple[AdapterLayerRule, ...], Field(max_length=64), RULES] = ()
    """Layers by name, which may get another rank, alpha or learning rate, be left out, or be added
    to those above. The first pattern that matches a layer counts."""

    dropout: Dropout = 0.0
    """The share of adapter inputs set to zero at random in training, against overfitting. Which
    ones depends on how a step is cut into batches."""

    rank_dropout: RankDropout = 0.0
    """The share of ranks that each adapter leaves out at random in training; the others count the
    more. Every batch draws anew."""

    module_dropout: ModuleDropout = 0.0
    """The chance of each adapter to be left out at random in training. Every batch draws anew."""

    start_from: StartFrom = ""
    """A file of the same kind of adapter to go on from, trained on the same family; empty starts
    anew. Rank and alpha stay those set here: another rank is refused, and for another alpha the
    matrices are scaled so that the effect is the file's."""


class Lora(LowRank):
    """Low-rank adaptation: small matrices beside frozen weights (Hu et al. 2021)."""

    title: ClassVar[str] = "LoRA"
    kind: Literal["lora"] = "lora"

    plus_ratio: PlusRatio = 1.0
    """How many times faster the up matrices learn than the down matrices (LoRA+, Hayou et al.
    2024); 1 means equally fast, and the paper advises 16."""


class Dora(LowRank):
    """LoRA whose weights' lengths are learned apart from their directions (Liu et al. 2024)."""

    title: ClassVar[str] = "DoRA"
    kind: Literal["dora"] = "dora"

    plus_ratio: PlusRatio = 1.0
    """How many times faster the up matrices learn than the down matrices (LoRA+, Hayou et al.
    2024); 1 means equally fast, and the paper advises 16."""


class LoHa(LowRank):
    """Products, number by number, of two low-rank matrices (Hyeon-Woo et al. 2022)."""

    title: ClassVar[str] = "LoHa"
    kind: Literal["loha"] = "loha"

    rank: Rank = 8
    """The inner size of both pairs of matrices; their product has up to the square of it as its
    rank. More can learn more, and makes a larger file."""

    # Half the rank: LoHa's matrices begin larger than LoRA's (standard deviations 1 and 0.1), so
    # that the same step moves the weights further.
    alpha: Alpha = 4.0
    """The adapter is scaled by alpha / rank. LoHa moves faster than LoRA: half the rank, or less,
    is usual."""


class LoKr(LowRank):
    """Kronecker products: a small matrix of scaled copies of a larger one (Yeh et al. 2023)."""

    title: ClassVar[str] = "LoKr"
    kind: Literal["lokr"] = "lokr"

    rank: Rank = 16
    """The inner size of the larger matrix, which is kept whole where the rank would be half of its
    side or more. More can learn more, and makes a larger file."""

    alpha: Alpha = 16.0
    """The adapter is scaled by alpha / rank; not where both matrices are kept whole. Keep alpha =
    rank unless you know the other one."""

    factor: Annotated[
        int,
        Field(ge=-1, le=1024),
        Ui("Factor", level="advanced", search="kronecker decompose size"),
    ] = -1
    """The side of the small matrix, or the next smaller number that divides the layer's; -1 makes
    both matrices as near in size as they can be, which is the smallest file."""

    decompose_both: Annotated[
        bool, Ui("Low rank for both matrices", level="advanced", search="decompose")
    ] = False
    """Makes the small matrix a product of low rank, too, where it is large enough for that."""

    full_matrix: Annotated[
        bool, Ui("Both matrices whole", level="advanced", search="full matrix dimension")
    ] = False
    """Keeps both matrices whole, so that rank and alpha do not count."""


class Oft(Section):
    """Orthogonal fine-tuning: each layer's outputs are turned in blocks (Qiu et al. 2023)."""

    title: ClassVar[str] = "OFT"
    kind: Literal["oft"] = "oft"

    block_size: Annotated[
        int, Field(ge=2, le=128), Ui("Block size", search="oft dim rank network blocks")
    ] = 32
    """How many outputs at most are turned together. Each layer takes what divides its outputs, and
    no more than it has blocks. More can learn more, and makes a larger file."""

    constraint: Annotated[
        float,
        Field(ge=0, le=1),
        Ui("Constraint", level="advanced", search="oft coft limit alpha"),
    ] = 0.0
    """How far each layer may turn, for each output, such as 0.0001; 0 means any distance."""

    targets: Targets = "attn-mlp"
    """Which layers get an adapter: attention only, attention and feed-forward, every linear and
    convolution layer, or only those that "Layers by name" names."""

    unet: Unet = Unet()
    text_encoder: TextEncoder = TextEncoder()
    text_encoder_2: TextEncoder2 = TextEncoder2()

    layers: Annotated[tuple[LayerRule, ...], Field(max_length=64), RULES] = ()
    """Layers by name, which may get another learning rate, be left out, or be added to those
    above. The first pattern that matches a layer counts."""

    module_dropout: ModuleDropout = 0.0
    """The chance of each adapter to be left out at random in training. Every batch draws anew."""

    start_from: StartFrom = ""
    """An OFT file to go on from, with the same blocks, trained on the same family; empty starts
    anew."""


Adapter = Lora | Dora | LoHa | LoKr | Oft
"""Every kind of adapter."""
