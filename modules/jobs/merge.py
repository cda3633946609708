"""The job that merges LoRAs, into a base model or into one LoRA."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Size, Tensor

from modules.formats.embeddings.modelspec import PREFIX, ModelSpec
from modules.formats.files.component_configs import MODELS
from modules.formats.files.tensor_source import PRECISIONS, as_lazy
from modules.formats.lora.convert_lora import open_lora, write_described
from modules.formats.lora.lora_file import LoraFile, read_lora
from modules.formats.lora.lora_metadata import ALPHA, ARGUMENTS, DIM, layout_of
from modules.formats.lora.lora_names import Layer, LayerNames
from modules.formats.lora.standard_names import standard_shapes
from modules.formats.models.stored_model import open_stored_model
from modules.formats.models.whole_model import WholeModel
from modules.jobs.comparison import compare
from modules.jobs.convert import convert_model, describe_stored, naming_of
from modules.jobs.lora_sources import files_of
from modules.lora_tools.bake import baked, names_of_model
from modules.lora_tools.combine import NamedLora, Weights, combine
from modules.lora_tools.losses import LayerLoss, loss_lines, rounding_line
from modules.lora_tools.low_rank import RankLimit
from modules.memory.precision import choose_device
from modules.methods.merge import unknown_notes
from onetrainer.config.run.model import FamilyName
from onetrainer.families.registry import family_spec, folder_of
from onetrainer.families.spec import Prediction
from onetrainer.jobs.convert_request import ConvertRequest, Precision
from onetrainer.jobs.lora_requests import (
    ExtractRequest,
    MergeRequest,
    examine_merge,
    require_model,
)
from onetrainer.jobs.sample_request import SampledLora
from onetrainer.model_files.adapter_keys import UP
from onetrainer.model_files.inspection import inspect_model
from onetrainer.run.device_owner import owning_for
from onetrainer.run.events import Finished, Phase, Report
from onetrainer.run.run_folder import cannot_write

MERGED_FROM = PREFIX + "merged_from"


def merge(request: MergeRequest, report: Report, *, configs: Path = MODELS) -> Finished:
    """Merge LoRAs; nothing is left half written. Waits until the GPU is free, if it is used.

    configs: Folder with each base's component configs, for models without their own.

    Raises:
        UserError: If the files do not fit each other.
    """
    examine_merge(request)
    with TemporaryDirectory(prefix="onetrainer-step-") as folder:
        return _merge(_of_files(request, Path(folder), report), report, configs)


def _of_files(request: MergeRequest, folder: Path, report: Report) -> MergeRequest:
    """Return a request with files in place of runs' steps, some written into a folder."""
    files = files_of(request.loras, folder, report)
    loras = [
        SampledLora(path=str(file), strength=lora.strength)
        for lora, file in zip(request.loras, files, strict=True)
    ]
    return request.model_copy(update={"loras": tuple(loras)})


def _merge(request: MergeRequest, report: Report, configs: Path) -> Finished:
    if request.into:
        notes = _bake(request, report, configs)
    else:
        with owning_gpu(request, "onetrainer merge", report):
            notes = _combine(request, report, configs)
    images, lines = compare(request, report)
    return Finished(0, [request.target, *images], [*notes, *lines])


def owning_gpu(
    request: MergeRequest | ExtractRequest, name: str, report: Report
) -> AbstractContextManager[object]:
    """Own the GPU for a job that computes there; on the processor it computes beside others."""
    return nullcontext() if request.device == "cpu" else owning_for(request.device, name, report)


def _bake(request: MergeRequest, report: Report, configs: Path) -> list[str]:
    """Write the base model with the LoRAs merged into its weights."""
    family = require_model(Path(request.into), request.family)
    conversion = ConvertRequest(
        source=request.into,
        target=request.target,
        to=request.to,
        precision=request.precision,
        family=family,
        overwrite=request.overwrite,
    )

    losses: dict[Layer, LayerLoss] = {}

    def change(model: WholeModel) -> tuple[WholeModel, list[str]]:
        names, notes, files = names_of_model(model), list[str](), []
        for lora in request.loras:
            path = Path(lora.path)
            file = read_lora(path, names)
            notes += unknown_notes(path.name, file, family)
            if file.embeddings:
                tokens = ", ".join(sorted(file.embeddings))
                notes.append(f"{path.name}: a model cannot hold its embeddings ({tokens}).")
            files.append((file, lora.strength))
        changed = baked(model, files, losses, dtype=PRECISIONS[request.precision])
        metadata = {**model.metadata, MERGED_FROM: _sources(request)}
        return replace(changed, metadata=metadata), notes

    report(Phase("saving", detail=Path(request.target).name))
    try:
        notes = convert_model(
            inspect_model(Path(request.into)), conversion, report, configs=configs, change=change
        )
    except OSError as error:
        raise cannot_write(Path(request.target), error, "OUT") from error
    return [*notes, rounding_line(losses.values())]


def _combine(request: MergeRequest, report: Report, configs: Path) -> list[str]:
    """Write one LoRA with the effect of all."""
    device, target = choose_device(request.device), Path(request.target)
    limit = None
    if request.rank is not None or request.energy is not None:
        limit = RankLimit(request.rank, 1.0 if request.energy is None else request.energy)
    report(Phase("loading", detail="reading the LoRAs"))
    with ExitStack() as stack:
        if request.base:
            model = _open_base(stack, request, configs)
            names, weights = names_of_model(model), _weights_of(model)
            files = [read_lora(Path(lora.path), names) for lora in request.loras]
        else:
            names, files = _open_all(request)
            weights = Weights(standard_shapes(names.base))
        loras = [
            NamedLora(Path(lora.path).name, file, lora.strength)
            for lora, file in zip(request.loras, files, strict=True)
        ]
        report(Phase("saving", detail=f"merging into {target.name}"))
        precision = request.precision if request.precision != "keep" else _precision(files)
        dtype = PRECISIONS[precision] or torch.float32
        with torch.no_grad():
            merged, losses, notes = combine(loras, weights, limit, dtype=dtype, device=device)
    metadata = {
        **merged.metadata,
        **lora_metadata(merged, names.base, _prediction(files), target),
        **({MERGED_FROM: _sources(request)} if len(loras) > 1 else {}),
    }
    notes += save_lora(replace(merged, metadata=metadata), names, request, precision)
    return [*notes, *loss_lines(losses)]


def _open_all(request: MergeRequest) -> tuple[LayerNames, list[LoraFile]]:
    """Read all LoRAs, of the first one's family, with the names of full-size models."""
    names, first = open_lora(Path(request.loras[0].path), request.family)
    others = [open_lora(Path(lora.path), names.base)[1] for lora in request.loras[1:]]
    return names, [first, *others]


def _open_base(stack: ExitStack, request: MergeRequest, configs: Path) -> WholeModel:
    family = require_model(Path(request.base), request.family)
    return open_model(stack, Path(request.base), family, configs)


def open_model(stack: ExitStack, path: Path, family: FamilyName, configs: Path) -> WholeModel:
    """Open a complete model, whose tensors are read when they are needed within the stack."""
    found = inspect_model(path)
    conversion = ConvertRequest(source=str(path), family=family)
    description = describe_stored(found, family, conversion, configs)
    return stack.enter_context(open_stored_model(found, description)).model


def _weights_of(model: WholeModel) -> Weights:
    shapes: dict[Layer, Size] = {}
    for layer in names_of_model(model).layers:
        tensor = model.components[folder_of(layer.component)].get(f"{layer.path}.weight")
        if tensor is not None:
            shapes[layer] = tensor.shape

    def read(layer: Layer) -> Tensor:
        return as_lazy(model.components[folder_of(layer.component)][f"{layer.path}.weight"]).read()

    return Weights(shapes, read)


def save_lora(
    file: LoraFile,
    names: LayerNames,
    request: MergeRequest | ExtractRequest,
    precision: Precision,
) -> list[str]:
    """Write a LoRA as a request asks for, and return a line about the file."""
    target = Path(request.target)
    naming = naming_of(request.to)
    try:
        summary = write_described(
            target, file, names, naming=naming, precision=precision, overwrite=request.overwrite
        )
    except OSError as error:
        raise cannot_write(target, error, "OUT") from error
    return [f"Wrote {target.name}: {summary}."]


def lora_metadata(
    file: LoraFile, base: str, prediction: Prediction, target: Path
) -> dict[str, str]:
    """Return what a LoRA's metadata says of a plain LoRA of this base."""
    ranks = {tensors[UP].shape[1] for tensors in file.layers.values() if UP in tensors}
    rank = str(ranks.pop()) if len(ranks) == 1 else "Dynamic"
    spec, side = family_spec(base), family_spec(base).side_of(prediction)
    described = ModelSpec(
        family=base,
        prediction=prediction,
        kind="lora",
        title=target.stem,
        resolution=(side, side),
        layout=layout_of(base, "kohya"),
    )
    return described.fields() | {
        "ss_network_module": "networks.lora",
        "ss_base_model_version": spec.kohya_versions.get(prediction, base),
        "ss_v2": str(spec.kohya_v2),
        DIM: rank,
        ALPHA: rank,
        ARGUMENTS: "{}",
    }


def _prediction(files: Sequence[LoraFile]) -> Prediction:
    """Return what all files' metadata says of their prediction; "epsilon" if it says nothing."""
    stated = {file.metadata.get(f"{PREFIX}prediction_type") for file in files}
    return "v_prediction" if stated == {"v"} else "epsilon"


def _precision(files: Sequence[LoraFile]) -> Precision:
    """Return the number format that all sources have in common; otherwise fp32."""
    dtypes = {
        tensor.dtype
        for file in files
        for tensors in file.layers.values()
        for tensor in tensors.values()
        if tensor.ndim
    }
    names: dict[torch.dtype, Precision] = {torch.float16: "fp16", torch.bfloat16: "bf16"}
    return names.get(dtypes.pop(), "fp32") if len(dtypes) == 1 else "fp32"


def _sources(request: MergeRequest) -> str:
    """Return the files' names with their strengths; never paths, which are private."""
    return ", ".join(f"{Path(lora.path).stem} ({lora.strength:g})" for lora in request.loras)
