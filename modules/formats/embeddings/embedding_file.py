"""Embedding (textual inversion) files: placeholder tokens and their vectors.

Read in every form in use, written in the two that most programs read: `emb_params` for models with
one text encoder, and the encoders' names for models with several.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import cast_lazily, open_tensors
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES
from onetrainer.model_files.adapter_keys import is_adapter_key
from onetrainer.model_files.embedding_keys import (
    A1111_KEY,
    OF_SEVERAL,
    OUTPUT,
    SEVERAL_KEYS,
    SINGLE_KEY,
    bundled,
    is_a1111,
    is_vectors,
)

# Not a typo: the only program that reads such vectors spells the key like this.
SINGLE_OUTPUT_KEY = "emp_params" + OUTPUT


@dataclass(frozen=True)
class Embedding:
    """Vectors that stand for a placeholder token.

    With input and output vectors, an encoder reads the former and its output is replaced by the
    latter; without input vectors it reads zeros.

    Attributes:
        vectors: By the encoder's name ("te" if it has one), (n, D) in any float
            dtype; n is the same for all encoders.
        outputs: Vectors that replace an encoder's output at the token's places, in the same form.
    """

    name: str
    vectors: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """How many vectors it has, which is how many tokens it takes up."""
        return len(next(iter((self.vectors or self.outputs).values())))

    @property
    def family(self) -> str:
        """Label of the model family it is for."""
        rows = {**self.outputs, **self.vectors}
        return family_label({name: vectors.shape[1] for name, vectors in rows.items()})


def family_label(widths: Mapping[str, int]) -> str:
    """Return the label of the family whose encoders have these names and widths."""
    for spec in FAMILIES:
        known = {encoder.name: encoder.width for encoder in spec.encoders}
        if widths == known or (len(known) > 1 and widths.keys() & known.keys()):
            return spec.series
    return "no published family"


def read_embedding(path: Path, *, name: str = "") -> Embedding:
    """Read the embedding of a file, or the named one of a file that bundles several.

    Its name is that in the file, or else the file's name, as in most programs.

    Raises:
        UserError: If the file holds no such embedding.
    """
    found = _read(path)
    if list(found) == [path.stem]:  # of its own, which a name does not choose but rename
        return found[path.stem]
    return _choose(path, found, name)


def read_embeddings_by_token(path: Path) -> dict[str, Embedding]:
    """Read every embedding of a file by its token: that in a bundle, or the file's name.

    Raises:
        UserError: If there is none.
    """
    return _read(path)


def parse_embedding(
    tensors: Mapping[str, Tensor], *, name: str, metadata: Mapping[str, str], source: str
) -> Embedding:
    """Parse a file's tensors as an embedding.

    name: Used unless tensors or metadata have a name. source: The file, for messages.
    """
    renamed = {A1111_KEY if is_a1111(key) else key: tensor for key, tensor in tensors.items()}
    if len(renamed) == 1 and not is_vectors(next(iter(renamed))):
        name, renamed = next(iter(renamed)), {SINGLE_KEY: next(iter(renamed.values()))}
    if len(renamed) < max(len(tensors), 1) or not all(map(is_vectors, renamed)):
        raise _foreign_error(source, tensors)
    is_of_several = any(key.removesuffix(OUTPUT) in OF_SEVERAL for key in renamed)
    encoders = SEVERAL_KEYS if is_of_several else {}
    vectors: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    for key, tensor in renamed.items():
        side = outputs if key.endswith(OUTPUT) else vectors
        side[encoders.get(key.removesuffix(OUTPUT), "te")] = _rows(source, key, tensor)
    lengths = {len(rows) for rows in (*vectors.values(), *outputs.values())}
    if len(lengths) > 1:
        raise UserError(
            f"{source}: the text encoders have {' and '.join(map(str, sorted(lengths)))} vectors",
            "Expected the same number for each encoder",
            "Choose another file; this one is damaged",
        )
    return Embedding(metadata.get("name", name), vectors, outputs, metadata)


def bundled_embeddings(tensors: Mapping[str, Tensor]) -> dict[str, Embedding]:
    """Return the embeddings among a file's tensors by name; other tensors are ignored."""
    members_by_name: dict[str, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        if member := bundled(full):
            members_by_name.setdefault(member[0], {})[member[1]] = tensor
    return {
        name: parse_embedding(members, name=name, metadata={}, source=f'the embedding "{name}"')
        for name, members in sorted(members_by_name.items())
    }


def bundled_tensors(embedding: Embedding) -> dict[str, Tensor]:
    """Return an embedding's tensors by the keys of a bundle."""
    # With one encoder, the keys other programs expect in a bundle: A1111 and ComfyUI the first,
    # the only program that reads outputs the second.
    inside = {SINGLE_KEY: A1111_KEY, SINGLE_OUTPUT_KEY: next(iter(SEVERAL_KEYS)) + OUTPUT}
    return {inside.get(key, key): tensor for key, tensor in to_tensors(embedding).items()}


def to_tensors(embedding: Embedding) -> dict[str, Tensor]:
    """Return an embedding's tensors by the keys that other programs know."""
    several = {encoder: key for key, encoder in SEVERAL_KEYS.items()}
    keys = {"te": SINGLE_KEY, **several}
    outputs = {"te": SINGLE_OUTPUT_KEY, **{te: key + OUTPUT for te, key in several.items()}}
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
    """Write an embedding as .safetensors.

    Other programs use the file's name as its token.

    dtype: None keeps each tensor's own.
    hashes: Add the tensors' hashes to the metadata.

    Raises:
        UserError: If the path exists and must not be overwritten, or the dtype cannot hold the
            vectors.
    """
    tensors = {
        key: cast_lazily(tensor, dtype, name=key) for key, tensor in to_tensors(embedding).items()
    }
    write_safetensors(path, tensors, embedding.metadata, overwrite=overwrite, hashes=hashes)


def _read(path: Path) -> dict[str, Embedding]:
    """Read all embeddings of a file by token: bundled ones, and its own under the file's name."""
    with open_tensors(path) as file:
        members = [key for key in file.names if bundled(key)]
        others = [key for key in file.names if key not in members]
        own = [key for key in others if is_vectors(key)] if members else _vector_names(path, others)
        tensors = {key: file.read(key) for key in (*members, *own)}
        metadata = dict(file.metadata)
    found = bundled_embeddings(tensors)
    if own or not members:
        vectors = {key: tensors[key] for key in own}
        embedding = parse_embedding(vectors, name=path.stem, metadata=metadata, source=path.name)
        if path.stem in found:
            raise UserError(
                f'{path.name}: it bundles an embedding "{path.stem}" and holds one of its own',
                "Expected a different name for each",
                "Rename the file",
            )
        found[path.stem] = embedding
    return found


def _vector_names(path: Path, names: list[str]) -> list[str]:
    """Return the names to read; raise UserError without reading if they are no embedding's."""
    if any(map(is_adapter_key, names)):
        raise UserError(
            f"{path.name}: this is a LoRA without bundled embeddings",
            "Expected an embedding, or a LoRA that bundles some",
            "Choose another file, or leave out the embedding's name",
        )
    if len(names) > 2 * len(SEVERAL_KEYS) and not any(map(is_a1111, names)):
        raise _foreign_error(path.name, names)
    # A1111's files also hold its training state.
    return [name for name in names if is_a1111(name)] or names


def _choose(path: Path, embeddings: Mapping[str, Embedding], name: str) -> Embedding:
    if not name and len(embeddings) == 1:
        return next(iter(embeddings.values()))
    if name in embeddings:
        return embeddings[name]
    raise UserError(
        f"{path.name}: this file holds {len(embeddings)} embeddings: {', '.join(embeddings)}",
        f'Expected one named "{name}"' if name else "Expected one embedding",
        "Enter the name of one of them",
    )


def _rows(source: str, key: str, tensor: Tensor) -> Tensor:
    rows = tensor.unsqueeze(0) if tensor.ndim == 1 else tensor
    if rows.ndim != 2 or not rows.numel() or not rows.is_floating_point():
        raise UserError(
            f"{source}: {key} has the shape {tuple(tensor.shape)} in {tensor.dtype}",
            "Expected an embedding's vectors, one per row",
            "Choose another file; this one may hold something else",
        )
    if not rows.float().isfinite().all():
        raise UserError(
            f"{source}: {key} contains NaN or infinity",
            "Expected finite vectors",
            "Choose another file; the training of this one diverged, or it is damaged",
        )
    return rows


def _foreign_error(source: str, names: Iterable[str]) -> UserError:
    ordered = sorted(names)
    content = ", ".join(ordered[:3]) + (", …" if len(ordered) > 3 else "")
    return UserError(
        f"{source}: this is not an embedding; it holds {content or 'no tensors'}",
        "Expected emb_params, clip_l and clip_g, string_to_param or one tensor named by its token",
        "Choose another file",
    )
