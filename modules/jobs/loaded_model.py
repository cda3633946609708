"""A base model that stays loaded from one sampling request to the next."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from modules.families.registry import load_family
from modules.formats.embeddings.embedding_file import (
    Embedding,
    parse_embedding,
    read_embeddings_by_token,
)
from modules.formats.lora.lora_file import LoraFile, read_lora
from modules.interfaces import Family
from modules.jobs.base_model import local_model
from modules.jobs.lora_sources import file_of, place_of
from modules.memory.precision import compute_dtype, free_cached_memory
from modules.methods.layers.layer_presets import layer_names
from modules.methods.merge import MergedLoras
from modules.sampling.image_files import base_name
from onetrainer.config.run.hardware import Precision
from onetrainer.errors import UserError
from onetrainer.jobs.sample_request import (
    SampledLora,
    SampleRequest,
    model_section,
    require_additions,
)
from onetrainer.run.events import Phase, Report, Warned

_KEPT_FILES = 4
"""LoRA files that stay in RAM, so that another strength does not read them again."""
_Key = tuple[object, ...]


class LoadedModel:
    """Loads a request's base model unless it is loaded, and changes only the LoRAs in it."""

    def __init__(self) -> None:
        self._key: _Key = ()
        self._base: Family | None = None
        self._merged: MergedLoras | None = None
        self._loras: list[tuple[_Key, float]] | None = []  # merged, with their strengths
        self._files: dict[_Key, LoraFile] = {}  # the last used one comes last

    def base(
        self, request: SampleRequest, device: torch.device, precision: Precision, report: Report
    ) -> Family:
        """Return the base model, with whatever LoRAs were merged into it last."""
        path = local_model(request.base, report, offline=request.offline)
        section = model_section(request, path)
        require_additions(request, section.family)
        key = (section, device, precision, _stamp(path), request.vae and _stamp(Path(request.vae)))
        if self._base is None or key != self._key:
            self._base, self._merged, self._key, self._loras = None, None, (), []
            self._files.clear()
            free_cached_memory()
            report(Phase("loading", detail=f"loading the model {base_name(request.base)}"))
            self._base = load_family(section, compute_dtype=compute_dtype(precision), device=device)
            self._key = key
        return self._base

    def with_additions(
        self,
        request: SampleRequest,
        loras: tuple[SampledLora, ...],
        texts: Sequence[str],
        report: Report,
    ) -> Family:
        """Return the base model with LoRAs and the request's embeddings, after `base`.

        texts: All prompts, one of which should contain each embedding's placeholder.
        """
        assert self._base is not None
        keys = [self._read(lora, report) for lora in loras]
        files = [self._files[key] for key in keys]
        while len(self._files) > max(_KEPT_FILES, len(keys)):
            del self._files[next(iter(self._files))]
        # By what was read: a file may have been replaced, and a run goes on.
        wanted = [(key, lora.strength) for key, lora in zip(keys, loras, strict=True)]
        if loras and self._merged is None:
            self._merged = MergedLoras(self._base)
        if self._merged is not None and wanted != self._loras:
            self._loras = None  # if it fails, it is unknown which
            self._merge(self._merged, files, loras, report)
            self._loras = wanted
        embeddings: dict[str, Embedding] = {}
        for source, found in embeddings_of(request, loras, files):
            embeddings |= found
            if not any(token.lower() in text.lower() for text in texts for token in found):
                placeholders = " or ".join(f'"{placeholder}"' for placeholder in found)
                report(Warned(f"{source}: no prompt contains {placeholders}"))
        family = self._base.with_embeddings(embeddings) if embeddings else self._base
        return family.with_prompt_weights(request.prompt_weights)

    def _merge(
        self,
        merged: MergedLoras,
        files: Sequence[LoraFile],
        loras: Sequence[SampledLora],
        report: Report,
    ) -> None:
        strengths = [lora.strength for lora in loras]
        try:
            notes = merged.replace(list(zip(files, strengths, strict=True)))
        except UserError as error:
            names = ", ".join(Path(lora.path).name for lora in loras)
            raise UserError(f"{names}: {error.what}", error.expected, error.remedy) from error
        for note in notes:
            report(Warned(note))

    def _read(self, lora: SampledLora, report: Report) -> _Key:
        """Read a LoRA's file, or write and read that of a run's step; return its key."""
        assert self._base is not None
        names = layer_names(self._base)
        place = place_of(lora)
        key = (str(place), *_stamp(place))
        file = self._files.pop(key, None)
        if file is None:
            with TemporaryDirectory(prefix="onetrainer-step-") as folder:
                file = read_lora(file_of(lora, Path(folder), report), names)
        self._files[key] = file
        return key


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when a file, or one in a folder, is replaced."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    stamps = []
    for each in files:
        with suppress(OSError):
            status = each.stat()
            stamps.append((str(each), status.st_size, status.st_mtime_ns))
    return tuple(stamps)


def embeddings_of(
    request: SampleRequest, loras: Sequence[SampledLora], files: Sequence[LoraFile]
) -> Iterator[tuple[str, Mapping[str, Embedding]]]:
    """Yield each file's name with its embeddings by placeholder; those bundled with LoRAs last."""
    for path in map(Path, request.embeddings):
        by_placeholder = {}
        for name, embedding in read_embeddings_by_token(path).items():
            # Programs use the file's name as placeholder; its author may use the one inside.
            for token in (name, embedding.name):
                if re.search(r"\w", token):
                    by_placeholder[token] = embedding
        yield path.name, by_placeholder
    for used, lora in zip(loras, files, strict=True):
        if lora.embeddings:
            yield (
                Path(used.path).name,
                {
                    token: parse_embedding(tensors, name=token, metadata={}, source=token)
                    for token, tensors in lora.embeddings.items()
                },
            )
