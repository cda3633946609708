"""The embeddings in a file, alone or bundled with a LoRA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onetrainer.model_files.embedding_keys import OUTPUT, bundled, is_vectors
from onetrainer.model_files.kinds import NAMES, Kind, ModelFile
from onetrainer.model_files.tensors import family_of_vectors
from onetrainer.tensor_files.entries import TensorTable

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Embedding:
    """An embedding. vectors: Number of vectors. widths: Size of each vector by encoder."""

    name: str
    vectors: int
    widths: Sequence[int]
    made_for: Kind | None

    def summary(self) -> str:
        """Describe it, for example "cat: 4 vectors × 768, for SD 1.5"."""
        count = f"{self.vectors} vector{'s' if self.vectors != 1 else ''}"
        name = NAMES.get(self.made_for or "", "")
        made_for = f", for {name}" if name else ""
        return f"{self.name}: {count} × {' + '.join(str(w) for w in self.widths)}{made_for}"


def embeddings_of(table: TensorTable, model: ModelFile) -> list[Embedding]:
    """Return the embeddings in a LoRA or embedding file, sorted by name."""
    shapes_of: dict[str, dict[str, Sequence[int]]] = {}
    for name, entry in table.entries.items():
        if member := bundled(name):
            shapes_of.setdefault(member[0], {})[member[1]] = entry.shape
        elif model.kind != "embedding":
            continue
        elif is_vectors(name):
            token = table.metadata.get("name") or table.path.stem
            shapes_of.setdefault(token, {})[name] = entry.shape
        elif len(table.entries) == 1:  # diffusers' form: the name is the token
            shapes_of.setdefault(name, {})[name] = entry.shape
    # Scalars are no vectors.
    return [_embedding(name, s) for name, s in sorted(shapes_of.items()) if all(s.values())]


def _embedding(name: str, shapes: Shapes) -> Embedding:
    # Output vectors are described only if there are no input vectors.
    inputs = {key: shape for key, shape in shapes.items() if not key.endswith(OUTPUT)} or shapes
    counts = [shape[0] if len(shape) > 1 else 1 for shape in inputs.values()]
    widths = sorted(shape[-1] for shape in inputs.values())
    return Embedding(name, max(counts), widths, family_of_vectors(inputs))
