"""What every kind of adapter is made of: its module on a layer, and one object that describes it.

Three dropouts, in training only. *Ordinary*: single inputs of an adapter become 0, the others are
scaled by 1 / (1 - p). *Rank*: whole ranks of an adapter are dropped in a forward, the others are
scaled by 1 / (1 - p), so the change is the same on average. *Module*: a whole adapter is dropped in
a forward; the others are not scaled. Randomness comes from torch's generators, which the trainer
seeds for each microbatch, and which gradient checkpointing restores: a recomputed block drops the
same. Source: kohya-ss/sd-scripts, networks/lora.py (which drops ranks for each image).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_keys import AdapterTensors, scale_of
from modules.formats.lora.lora_metadata import ALPHA as REPORTED_ALPHA
from modules.formats.lora.lora_metadata import DIM
from modules.formats.lora.lora_names import Layer
from modules.methods.adapters.lycoris_modules import LycorisBaseModule
from modules.methods.layers.layer_presets import is_chosen
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.low_rank import LowRank
from onetrainer.model_files.adapter_keys import ALPHA
from onetrainer.model_files.adapter_layers import kind_of


@dataclass(frozen=True)
class AdapterPlan:
    """An adapter to make.

    Attributes:
        rank: None for kinds without ranks.
        alpha: None for kinds without ranks.
        lr: None for the optimizer's.
    """

    layer: Layer
    module: nn.Module
    rank: int | None
    alpha: float | None
    lr: float | None


class AdapterModule(LycorisBaseModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's adapter, in plain torch operations; subclasses compute `change`.

    LyCORIS chooses a kernel at every call. On a GPU that compiles for seconds in the first steps,
    and may choose another kernel after a resume, which gives other bits.

    Attributes:
        reads_copies: Whether it reads its matrices by `cast`.
        copies: Of this microbatch, by parameter, in half precision; see `MatrixCopies`.
    """

    reads_copies: ClassVar[bool] = False
    copies: dict[str, Tensor]

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.copies = {}

    def cast(self, name: str, matrix: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a parameter in a dtype: this microbatch's copy, if there is one."""
        copy = self.copies.get(name)
        if copy is not None and copy.dtype == dtype:
            return copy
        return matrix.to(dtype)

    def initialize(self, generator: torch.Generator) -> None:
        """Set initial values, by LyCORIS' distributions, with which the adapter has no effect."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file."""
        matrices = {key: parameter.detach() for key, parameter in self.named_parameters()}
        return {**matrices, ALPHA: self.alpha.detach()}

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        """Return what the adapter adds to its layer's output, in x's dtype."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the adapter's change, in x's dtype.

        Without it if the adapter is disabled (`multiplier` 0). A dropped adapter gets gradients of
        zero: a step that drops all of them would otherwise have nothing to differentiate.
        """
        output: Tensor = self.org_forward(x)
        if self.multiplier == 0:
            return output
        probability = self.module_dropout
        if self.training and probability > 0 and torch.rand(()).item() < probability:  # on the CPU
            zero = 0 * torch.stack([p.sum() for p in self.parameters()]).sum()
            return output + zero.to(output.dtype)
        change = self.change(x, output)
        # Every kind's merged weight is linear in its strength, too; see `merged_weight`.
        return output + (change if self.multiplier == 1 else self.multiplier * change)

    def drop_ranks(self, matrix: Tensor) -> Tensor:
        """Drop ranks of a matrix with a column for each, (…, rank) or (out, rank, 1, 1)."""
        probability = self.rank_dropout
        if not self.training or probability == 0:
            return matrix
        ranks = matrix.shape[1]
        kept: Tensor = (torch.rand(ranks, device=matrix.device) >= probability).to(matrix.dtype)
        factors: Tensor = kept.view(1, ranks, *[1] * (matrix.ndim - 2)) / (1 - probability)
        return matrix * factors

    def without_bias(self, output: Tensor) -> Tensor:
        """Return the layer's output without its bias, which adapters do not change."""
        bias = self.org_module[0].bias
        if bias is None:
            return output
        axes = 2 if self.module_type == "conv2d" else 0
        shift: Tensor = bias.to(output.dtype).view(-1, *[1] * axes)
        return output - shift


class LowRankModule(AdapterModule):
    """One layer's adapter of low-rank matrices; to be combined with LyCORIS' module for them.

    options: Arguments of LyCORIS' module alone.
    Ordinary dropout is ours: LyCORIS drops the outputs of adapters, or has none.
    """

    def __init__(self, name: str, plan: AdapterPlan, section: LowRank, **options: object) -> None:
        super().__init__(
            name,
            plan.module,
            lora_dim=plan.rank,
            alpha=plan.alpha,
            rank_dropout=section.rank_dropout,
            module_dropout=section.module_dropout,
            bypass_mode=True,
            **options,
        )
        self.dropout = nn.Dropout(section.dropout)


class AdapterKind:
    """One kind of adapter with the settings of a config; a new kind is one subclass.

    Attributes:
        module: The adapter of a layer.
        name: What a layer of a file is called that this kind trains.
        algo: The value of "algo" in sd-scripts' metadata; "" for none.
        network_module: The name of the program that reads such files, in sd-scripts' metadata.
        large: Matrices with large initial values, which keep their precision in fp16 when scaled
            down; the first of them that an adapter has makes up for another alpha in its file.
        zero_initialized: Matrices with initial values of zero; the first of them that a file to
            continue from has is scaled to make up for its alpha.
        sizes: The settings that determine the sizes of an adapter's tensors.
        skip_reason: What layers have in common on which an adapter has no effect.
    """

    module: ClassVar[Callable[..., AdapterModule]]
    name: ClassVar[str]
    algo: ClassVar[str] = ""
    network_module: ClassVar[str] = "lycoris.kohya"
    large: ClassVar[tuple[str, ...]] = ()
    zero_initialized: ClassVar[tuple[str, ...]] = ()
    sizes: ClassVar[str] = "method.rank"
    skip_reason: ClassVar[str] = ""

    section: Adapter

    def __init__(self, section: Adapter) -> None:
        self.section = section

    @classmethod
    def recognizes(cls, tensors: AdapterTensors) -> bool:
        """Return whether a layer's tensors in a file are what this kind trains."""
        return kind_of(tensors.keys()) == cls.name

    def arguments(self) -> dict[str, str]:
        """Return the network arguments of sd-scripts' metadata, in LyCORIS' names."""
        return {"algo": self.algo} if self.algo else {}

    def dimensions(self, rank: str, alpha: str) -> dict[str, str]:
        """Return sd-scripts' metadata of sizes; rank, alpha: what all adapters have in common."""
        return {DIM: rank, REPORTED_ALPHA: alpha}

    def chooses(self, layer: Layer, path: str) -> bool:
        """Return whether a layer gets an adapter that no rule names."""
        return is_chosen(layer.component, path, self.section.targets)

    def has_effect(self, plan: AdapterPlan) -> bool:
        """Return whether an adapter on a chosen layer can have an effect."""
        return True

    def lr_ratio(self, parameter: str) -> float:
        """Return a parameter's learning rate as a multiple of its layer's."""
        return 1.0

    def notes(self, adapters: Collection[AdapterModule]) -> tuple[str, ...]:
        """Return notes for people on what the config does not show."""
        return ()

    def start_tensors(self, adapter: AdapterModule, tensors: AdapterTensors) -> AdapterTensors:
        """Return a file's tensors as an adapter's parameters that have the same effect."""
        scaled = next((key for key in self.zero_initialized if key in tensors), None)
        if scaled is None:
            return tensors
        # scale_of: alpha / rank in the file; adapter.scale: the same here.
        return {**tensors, scaled: tensors[scaled] * (scale_of(tensors) / adapter.scale)}
