"""Which embeddings a file holds: alone, or bundled with a LoRA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onetrainer.model_files.embedding_keys import OUTPUT, bundled, is_vectors
from onetrainer.model_files.kinds import NAMES, Kind, ModelFile
from onetrainer.model_files.tensors import family_of_vectors
from onetrainer.tensor_files import TensorTable

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Embedding:
    """A made-up word. vectors: how many stand for it. widths: numbers in each, per encoder."""

    name: str
    vectors: int
    widths: Sequence[int]
    made_for: Kind | None

    def summary(self) -> str:
        """For example "cat: 4 vectors × 768 + 1280, for SDXL"."""
        count = f"{self.vectors} vector{'s' if self.vectors != 1 else ''}"
        name = NAMES.get(self.made_for or "", "")
        made_for = f", for {name}" if name else ""
        return f"{self.name}: {count} × {' + '.join(str(w) for w in self.widths)}{made_for}"


def embeddings_of(table: TensorTable, model: ModelFile) -> list[Embedding]:
    """The embeddings in a LoRA's or an embedding's file, sorted by name."""
    found: dict[str, dict[str, Sequence[int]]] = {}
    for name, entry in table.entries.items():
        if member := bundled(name):
            found.setdefault(member[0], {})[member[1]] = entry.shape
        elif model.kind != "embedding":
            continue
        elif is_vectors(name):
            word = table.metadata.get("name") or table.path.stem
            found.setdefault(word, {})[name] = entry.shape
        elif len(table.entries) == 1:  # diffusers' form: the name is the word
            found.setdefault(name, {})[name] = entry.shape
    return [_embedding(name, shapes) for name, shapes in sorted(found.items()) if _is_one(shapes)]


def _is_one(shapes: Shapes) -> bool:
    return all(shapes.values())  # a number alone is no vector


def _embedding(name: str, shapes: Shapes) -> Embedding:
    # What replaces an encoder's output is told only where nothing replaces its input.
    inputs = {key: shape for key, shape in shapes.items() if not key.endswith(OUTPUT)} or shapes
    counts = [shape[0] if len(shape) > 1 else 1 for shape in inputs.values()]
    widths = sorted(shape[-1] for shape in inputs.values())
    return Embedding(name, max(counts), widths, family_of_vectors(inputs))
