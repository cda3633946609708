"""The one reader of adapters: a file's layers, from the names, shapes and types of its tensors.

Whatever shows, checks, converts, merges, samples or continues an adapter reads it by this. Each
layer has one kind and all tensors of that kind, of ranks that fit, and each stands in a file once.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import (
    ALPHA,
    DORA,
    DOWN,
    MAGNITUDE,
    MID,
    UP,
    UP_BIAS,
    WRAPPED,
    adapter_name,
    is_foreign_key,
    split,
)
from onetrainer.model_files.embedding_keys import BUNDLE
from onetrainer.model_files.original.unet_names import layer_spelled_alike
from onetrainer.tensor_files.entries import TensorEntry

ADDED = ("diff_b", "w_norm", "b_norm", UP_BIAS)
"""Changes of biases and norms, which any layer may have in addition."""
_COMMON = frozenset({ALPHA, DORA, MAGNITUDE, "scalar", *ADDED})
_WHOLE_NUMBERS = (ALPHA, "on_input")
"""Tensors that may be whole numbers; all others are weights."""

_MIDDLES = frozenset({MID, "hada_t1", "hada_t2", "lokr_t2"})

_NUMBERS = (ALPHA, "on_input", "scalar")
"""Tensors of one element."""

Shapes = Mapping[str, Sequence[int]]
"""Of a layer's tensors, by their kind."""


@dataclass(frozen=True)
class Form:
    """A kind of adapter by a layer's tensors.

    parts: What is needed; of each part one of the alternatives, whole.
    others: What may be there too.
    ranks: Pairs of (tensor, side) that have to be alike.
    """

    name: str
    parts: tuple[tuple[tuple[str, ...], ...], ...]
    others: tuple[str, ...] = ()
    ranks: tuple[tuple[tuple[str, int], ...], ...] = ()

    @property
    def tensors(self) -> set[str]:
        """All tensors of this kind alone."""
        return {key for part in self.parts for each in part for key in each} | set(self.others)

    def missing(self, kinds: Set[str]) -> list[str]:
        """Return the tensors that a layer lacks, of the alternatives that it has most of."""
        lacking = list[str]()
        for part in self.parts:
            nearest = min(part, key=lambda each: (len(set(each) - kinds), -len(set(each) & kinds)))
            lacking += sorted(set(nearest) - kinds)
        return lacking


_LOHA = ("hada_w1_a", "hada_w1_b"), ("hada_w2_a", "hada_w2_b")
FORMS = (
    Form(
        "LoRA",
        (((DOWN,),), ((UP,),)),
        (MID,),
        (((DOWN, 0), (UP, 1), (MID, 0), (MID, 1)),),
    ),
    Form("LoHa", ((_LOHA[0],), (_LOHA[1],)), ("hada_t1", "hada_t2")),
    Form(
        "LoKr",
        (
            (("lokr_w1",), ("lokr_w1_a", "lokr_w1_b")),
            (("lokr_w2",), ("lokr_w2_a", "lokr_w2_b")),
        ),
        ("lokr_t2",),
        ((("lokr_w1_a", 1), ("lokr_w1_b", 0)),),
    ),
    Form("OFT", ((("oft_blocks",),),), ("rescale",), ((("oft_blocks", -1), ("oft_blocks", -2)),)),
    Form("IA3", ((("weight",),), (("on_input",),))),
    Form(
        "GLoRA",
        tuple(((f"{each}.weight",),) for each in ("a1", "a2", "b1", "b2")),
        ("bm.weight",),
        ((("a1.weight", 1), ("a2.weight", 0)), (("b1.weight", 1), ("b2.weight", 0))),
    ),
    Form("full differences", ((("diff",),),)),
)


def form_of(kinds: Set[str]) -> Form | None:
    """Return the form of a layer by the kinds of its tensors; None for changes of norms alone."""
    own = kinds - _COMMON
    return next((form for form in FORMS if own & form.tensors), None)


def kind_of(kinds: Set[str]) -> str:
    """Return what a layer is called: "LoRA", "DoRA", "LoHa with DoRA", … "norms"."""
    form = form_of(kinds)
    if form is None:
        return "full differences" if "diff_b" in kinds else "norms"
    name = form.name
    if kinds & _MIDDLES:
        name = "LoCon (Tucker)" if form.name == "LoRA" else f"{name} (Tucker)"
    if "rescale" in kinds:
        name += " with factors"
    if kinds & {DORA, MAGNITUDE}:
        return "DoRA" if name == "LoRA" else f"{name} with DoRA"
    return name


def rank_of(shapes: Shapes) -> int | None:
    """Return the rank of a layer's adapter; None if none of its tensors is of low rank."""
    for key in (DOWN, "hada_w1_b", "lokr_w2_b", "lokr_w1_b", "a2.weight"):
        if shapes.get(key):
            return shapes[key][0]
    return None


@dataclass(frozen=True)
class AdapterLayers:
    """What an adapter file holds, by its header.

    layers: The name in the file of each tensor, by layer and kind; layers as they are told apart.
    others: Tensors that belong to no adapter.
    problems: Why the file cannot be used, each as a clause; the file has problems if there are any.
    """

    layers: Mapping[Hashable, Mapping[str, str]]
    others: Sequence[str]
    problems: Sequence[str]

    def require_sound(self, path: Path) -> None:
        """Raise UserError if the file has a problem."""
        if self.problems:
            first, *more = self.problems
            rest = f" (and {len(more)} more)" if more else ""
            raise UserError(
                f"{path.name}: {first}{rest}",
                "Expected an adapter file with each layer once and complete",
                "Choose another file; `onetrainer show` says what this one holds",
            )


def spelled_alike(name: str) -> str:
    """Return what all spellings of a layer's name have in common."""
    bare = name.removeprefix(WRAPPED)
    for prefix in _PREFIXES:
        if bare.startswith(prefix):
            return layer_spelled_alike(bare.removeprefix(prefix))
    return layer_spelled_alike(bare)


_PREFIXES = (
    *("lora_unet_", "lycoris_unet_", "lycoris_", "oft_unet_"),
    *("unet.", "diffusion_model.", "model.diffusion_model."),
)
"""Of a UNet's layers, in the namings."""


def adapter_layers(
    entries: Mapping[str, TensorEntry], find: Callable[[str], Hashable | None] = spelled_alike
) -> AdapterLayers:
    """Return the layers of an adapter's file, and what is wrong with them.

    find: Tells by a name in any naming which layer it is; None for layers that are not the model's,
    which keep their names, and need not be complete.
    """
    layers: dict[Hashable, dict[str, str]] = {}
    spellings: dict[Hashable, dict[tuple[str, str], str]] = {}
    strange, others, foreign = set[Hashable](), list[str](), list[str]()
    for key in entries:
        parts = None if key.startswith(BUNDLE) else split(key)
        if parts is None:
            others.append(key)
            foreign += [key] if is_foreign_key(key) else []
            continue
        name, kind = parts
        layer = find(name)
        identity = name if layer is None else layer
        strange |= {name} if layer is None else set()
        layers.setdefault(identity, {}).setdefault(DORA if kind == MAGNITUDE else kind, key)
        spellings.setdefault(identity, {}).setdefault((name, adapter_name(key)), key)
    problems = list[str]()
    for identity, kinds in list(layers.items()):
        if kinds.keys() == {"weight"}:  # of IA3, or of anything else
            key = layers.pop(identity)["weight"]
            others.append(key)
            foreign += [key] if is_foreign_key(key) else []
        elif len(spellings[identity]) > 1:
            one, other, *_ = spellings[identity].values()
            problems.append(f"it holds a layer twice, as {one} and as {other}")
        elif identity not in strange:
            problems += _layer_problems(kinds, entries)
    if not layers and foreign:
        count = "a tensor" if len(foreign) == 1 else f"{len(foreign)} tensors, first"
        problems.append(f"an adapter of a kind that cannot be read here: {count} {min(foreign)}")
    return AdapterLayers(layers, others, problems)


def _layer_problems(kinds: Mapping[str, str], entries: Mapping[str, TensorEntry]) -> Iterable[str]:
    """Yield what is wrong with one layer."""
    first = min(kinds.values())
    shapes = {kind: entries[key].shape for kind, key in kinds.items()}
    form = form_of(kinds.keys())
    if form is None:
        if not kinds.keys() & set(ADDED) or UP_BIAS in kinds:
            yield f"the layer of {first} is incomplete: it has {', '.join(sorted(kinds))} only"
    elif missing := form.missing(kinds.keys()):
        yield f"the layer of {first} is incomplete: {', '.join(missing)} is missing"
    elif strange := sorted(kinds.keys() - form.tensors - _COMMON):
        yield f"the layer of {first} is of two kinds: {form.name}, and one with {strange[0]}"
    elif problem := _misfit(form, shapes):
        yield f"the tensors of a layer do not fit each other, {kinds[problem[0]]}: {problem[1]}"
    for kind, key in kinds.items():
        if kind in _NUMBERS and entries[key].count != 1:
            yield f"{key} is no number: its shape is {list(entries[key].shape)}"
        elif kind not in _WHOLE_NUMBERS and "F" not in entries[key].dtype:
            yield f"{key} holds {entries[key].dtype}, which are no weights"


def _misfit(form: Form, shapes: Shapes) -> tuple[str, str] | None:
    """Return a tensor that does not fit the others of its layer, and how; None if all do."""
    ranks = [*form.ranks, *_ranks_of_middles(shapes)]
    for alike in ranks:
        here = [(key, side) for key, side in alike if key in shapes]
        short = next((key for key, side in here if len(shapes[key]) < 2), None)
        if short is not None:
            return short, f"its shape is {list(shapes[short])}"
        sizes = {shapes[key][side] for key, side in here}
        if len(sizes) > 1 or sizes == {0}:
            return here[0][0], f"its ranks are {' and '.join(map(str, sorted(sizes)))}"
    return _misfit_beside(shapes)


def _ranks_of_middles(shapes: Shapes) -> Iterable[tuple[tuple[str, int], ...]]:
    """Yield the sides that are ranks where a matrix in the middle turns the first one around."""
    for first, second, middle in (
        ("hada_w1_a", "hada_w1_b", "hada_t1"),
        ("hada_w2_a", "hada_w2_b", "hada_t2"),
        ("lokr_w2_a", "lokr_w2_b", "lokr_t2"),
    ):
        if middle in shapes:
            yield (first, 0), (middle, 0)
            yield (second, 0), (middle, 1)
        else:
            yield (first, 1), (second, 0)


def _misfit_beside(shapes: Shapes) -> tuple[str, str] | None:
    """Return a DoRA scale or a bias that does not fit a LoRA's matrices."""
    if not {UP, DOWN} <= shapes.keys():
        return None
    outputs, inputs = shapes[UP][0], shapes[DOWN][1]
    for key, sizes in ((DORA, {outputs, inputs}), ("diff_b", {outputs}), (UP_BIAS, {outputs})):
        shape = tuple(side for side in shapes.get(key, ()) if side != 1)
        if key in shapes and (shape or (1,)) not in {(size,) for size in sizes}:
            return key, f"its shape is {list(shapes[key])}, for {outputs} outputs, {inputs} inputs"
    return None
