"""Which embeddings a file holds: alone, or bundled with a LoRA."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from onetrainer.model_files.kinds import NAMES, Kind, ModelFile
from onetrainer.model_files.tensors import is_embedding
from onetrainer.tensor_files import TensorEntry, TensorTable

_BUNDLE = "bundle_emb."


@dataclass(frozen=True)
class Embedding:
    """A made-up word. vectors: how many stand for it. widths: numbers in each, per encoder."""

    name: str
    vectors: int
    widths: Sequence[int]
    made_for: Kind | None

    def words(self) -> str:
        """For example "cat: 4 vectors × 768 + 1280, for SDXL"."""
        count = f"{self.vectors} vector{'s' if self.vectors != 1 else ''}"
        name = NAMES.get(self.made_for or "", "")
        made_for = f", for {name}" if name else ""
        return f"{self.name}: {count} × {' + '.join(str(w) for w in self.widths)}{made_for}"


def embeddings_of(table: TensorTable, model: ModelFile) -> list[Embedding]:
    """The embeddings in a LoRA's or an embedding's file, sorted by name."""
    found: dict[str, list[TensorEntry]] = defaultdict(list)
    for name, entry in table.entries.items():
        if name.startswith(_BUNDLE):
            word, _, key = name.removeprefix(_BUNDLE).rpartition(".")
            if not key.endswith("_out"):
                found[word].append(entry)
        elif model.kind == "embedding" and entry.shape and not name.endswith("_out"):
            if is_embedding(name):
                found[table.metadata.get("name") or table.path.stem].append(entry)
            elif len(table.entries) == 1:  # diffusers' form: the name is the word
                found[name].append(entry)
    return [
        _embedding(name, entries, model.made_for)
        for name, entries in sorted(found.items())
        if all(entry.shape for entry in entries)
    ]


def _embedding(name: str, entries: list[TensorEntry], made_for: Kind | None) -> Embedding:
    counts = [entry.shape[0] if len(entry.shape) > 1 else 1 for entry in entries]
    return Embedding(name, max(counts), sorted(entry.shape[-1] for entry in entries), made_for)
