"""Embeddings (textual inversion) as files: made-up words as the vectors that stand for them.

Read in every form in use, written in the two that most programs read: `emb_params` for models with
one text encoder, `clip_l` and `clip_g` for SDXL.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import converted, open_tensors
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import is_of_adapter
from onetrainer.model_files.embedding_keys import (
    A1111_KEY,
    OUTPUT,
    SINGLE_KEY,
    XL_KEYS,
    bundled,
    is_a1111,
    is_vectors,
)

# The only program that reads such vectors spells the key like this.
SINGLE_OUTPUT_KEY = "emp_params" + OUTPUT


@dataclass(frozen=True)
class Embedding:
    """A word that text encoders are given as vectors.

    vectors: by the encoder's name ("te", or "te1" and "te2" for SDXL), (n, D) in any float dtype;
    n is the same for all encoders.
    outputs: vectors that replace what an encoder says at the word's places, in the same form. With
    both, an encoder reads the ones and its output is replaced by the others; without `vectors` it
    reads zeros.
    """

    name: str
    vectors: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """How many vectors it is, which is how many tokens it takes the place of."""
        return len(next(iter((self.vectors or self.outputs).values())))

    @property
    def family(self) -> str:
        """The models it is for, in the words of people."""
        rows = {**self.outputs, **self.vectors}
        return family_label({name: vectors.shape[1] for name, vectors in rows.items()})


def family_label(widths: Mapping[str, int]) -> str:
    """The models whose encoders have these names and widths, in the words of people."""
    match dict(widths):
        case {"te": 768}:
            return "SD 1.x"
        case {"te": 1024}:
            return "SD 2.x"
        case {"te1": _} | {"te2": _}:
            return "SDXL"
    return "no published family"


def read_embedding(path: Path, *, name: str = "") -> Embedding:
    """The embedding in a file, or the one of this name in a file that bundles several.

    Its name is the one that the file tells, or else the file's own, as most programs have it.
    Raises UserError if there is no embedding in it, or not this one.
    """
    found = _read(path)
    return found if isinstance(found, Embedding) else _choose(path, found, name)


def read_embeddings_by_token(path: Path) -> dict[str, Embedding]:
    """Every embedding in a file by the word to use it by: that of a bundle, or the file's name.

    Raises UserError if there is none.
    """
    found = _read(path)
    return {path.stem: found} if isinstance(found, Embedding) else found


def parse_embedding(
    tensors: Mapping[str, Tensor], *, name: str, metadata: Mapping[str, str], source: str
) -> Embedding:
    """The embedding that a file's tensors are.

    name: what it is called unless tensors or metadata tell. source: the file, for messages.
    """
    renamed = {_plain(key): tensor for key, tensor in tensors.items()}
    if len(renamed) == 1 and not is_vectors(next(iter(renamed))):
        name, renamed = next(iter(renamed)), {SINGLE_KEY: next(iter(renamed.values()))}
    if len(renamed) < max(len(tensors), 1) or not all(map(is_vectors, renamed)):
        raise _foreign_error(source, tensors)
    is_xl = any(key.removesuffix(OUTPUT) == XL_KEYS["te2"] for key in renamed)
    vectors: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    for key, tensor in renamed.items():
        place = outputs if key.endswith(OUTPUT) else vectors
        place[_encoder(key, is_xl=is_xl)] = _rows(source, key, tensor)
    _check_lengths(source, [*vectors.values(), *outputs.values()])
    return Embedding(metadata.get("name", name), vectors, outputs, metadata)


def bundled_embeddings(tensors: Mapping[str, Tensor]) -> dict[str, Embedding]:
    """The embeddings in a file of other things, by name; tensors of other things may be there."""
    found: dict[str, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        if member := bundled(full):
            found.setdefault(member[0], {})[member[1]] = tensor
    return {
        name: parse_embedding(members, name=name, metadata={}, source=f'the embedding "{name}"')
        for name, members in sorted(found.items())
    }


def bundled_tensors(embedding: Embedding) -> dict[str, Tensor]:
    """An embedding's tensors by the keys that they have in a bundle."""
    # Of one encoder's, the keys that others look for inside a bundle: A1111 and ComfyUI for the
    # first, the only program that reads outputs for the second.
    inside = {SINGLE_KEY: A1111_KEY, SINGLE_OUTPUT_KEY: XL_KEYS["te1"] + OUTPUT}
    return {inside.get(key, key): tensor for key, tensor in to_tensors(embedding).items()}


def to_tensors(embedding: Embedding) -> dict[str, Tensor]:
    """An embedding's tensors under the names that other programs know."""
    keys = {"te": SINGLE_KEY, **XL_KEYS}
    outputs = {"te": SINGLE_OUTPUT_KEY, **{te: key + OUTPUT for te, key in XL_KEYS.items()}}
    return {
        **{keys[name]: vectors for name, vectors in embedding.vectors.items()},
        **{outputs[name]: vectors for name, vectors in embedding.outputs.items()},
    }


def write_embedding(
    path: Path,
    embedding: Embedding,
    *,
    dtype: torch.dtype | None = None,
    overwrite: bool = True,
    hashes: bool = False,
) -> None:
    """Writes an embedding as .safetensors; dtype: None leaves each tensor as it is.

    hashes: adds the tensors' to the metadata. Programs call it by the file's name. Raises UserError
    if the path is taken and not to be overwritten, or the dtype cannot hold the vectors.
    """
    tensors = {
        key: converted(tensor, dtype, name=key) for key, tensor in to_tensors(embedding).items()
    }
    write_safetensors(path, tensors, embedding.metadata, overwrite=overwrite, hashes=hashes)


def _read(path: Path) -> Embedding | dict[str, Embedding]:
    """The only embedding of a file, or those that it bundles by their words."""
    with open_tensors(path) as file:
        members = [key for key in file.names if bundled(key)]
        tensors = {key: file.read(key) for key in members or _few(path, file.names)}
        metadata = dict(file.metadata)
    if members:
        return bundled_embeddings(tensors)
    return parse_embedding(tensors, name=path.stem, metadata=metadata, source=path.name)


def _few(path: Path, names: list[str]) -> list[str]:
    """The names, unless they are too many for an embedding: a model is not read to tell so."""
    if any(map(is_of_adapter, names)):
        raise UserError(
            f"{path.name}: this is a LoRA, and no embedding comes with it",
            "An embedding was expected, or a LoRA that brings some",
            "Choose another file, or leave out the embedding's name",
        )
    if len(names) > 2 * len(XL_KEYS) and not any(map(is_a1111, names)):
        raise _foreign_error(path.name, names)
    # A1111's own training state stands beside the vectors.
    return [name for name in names if is_a1111(name)] or names


def _choose(path: Path, found: Mapping[str, Embedding], name: str) -> Embedding:
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    raise UserError(
        f"{path.name}: there are {len(found)} embeddings in this file: {', '.join(found)}",
        f'One called "{name}" was expected' if name else "One embedding was expected",
        "Name one of them",
    )


def _plain(key: str) -> str:
    return A1111_KEY if is_a1111(key) else key


def _encoder(key: str, *, is_xl: bool) -> str:
    names = {key: name for name, key in XL_KEYS.items()} if is_xl else {}
    return names.get(key.removesuffix(OUTPUT), "te")


def _rows(source: str, key: str, tensor: Tensor) -> Tensor:
    rows = tensor.unsqueeze(0) if tensor.ndim == 1 else tensor
    if rows.ndim != 2 or not rows.numel() or not rows.is_floating_point():
        raise UserError(
            f"{source}: {key} has the shape {tuple(tensor.shape)} in {tensor.dtype}",
            "An embedding's vectors, one a row, were expected",
            "Choose another file; this one is perhaps something else",
        )
    return rows


def _check_lengths(source: str, tensors: Iterable[Tensor]) -> None:
    lengths = {len(rows) for rows in tensors}
    if len(lengths) > 1:
        raise UserError(
            f"{source}: the text encoders have {' and '.join(map(str, sorted(lengths)))} vectors",
            "As many for each encoder were expected, since they read the same words",
            "Choose another file; this one is damaged",
        )


def _foreign_error(source: str, names: Iterable[str]) -> UserError:
    listed = sorted(names)
    shown = ", ".join(listed[:3]) + (", …" if len(listed) > 3 else "")
    return UserError(
        f"{source}: this is no embedding; it holds {shown or 'no tensors'}",
        "emb_params, clip_l and clip_g, string_to_param or one tensor under its word was expected",
        "Choose another file",
    )
