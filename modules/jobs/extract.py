"""The job that extracts the difference of two models as a LoRA."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch

from modules.formats.files.component_configs import MODELS
from modules.formats.files.tensor_source import PRECISIONS
from modules.jobs.comparison import compare
from modules.jobs.merge import lora_metadata, open_model, owning_gpu, save_lora
from modules.lora_tools.difference import difference
from modules.lora_tools.losses import loss_lines
from modules.lora_tools.low_rank import RankLimit
from modules.memory.precision import choose_device
from onetrainer.jobs.lora_requests import (
    DEFAULT_RANK,
    ExtractRequest,
    examine_extract,
    require_model,
)
from onetrainer.run.events import Finished, Phase, Report


def extract(request: ExtractRequest, report: Report, *, configs: Path = MODELS) -> Finished:
    """Write the LoRA that makes the trained model of the base model; see `difference`.

    Waits until the GPU is free, if it is used.

    configs: Folder with each base's component configs, for models without their own.

    Raises:
        UserError: If the models do not fit each other, or do not differ.
    """
    examine_extract(request)
    family = require_model(Path(request.base), request.family)
    unlimited = request.energy is not None
    rank = request.rank if request.rank or unlimited else DEFAULT_RANK
    limit = RankLimit(rank, request.energy if request.energy is not None else 1.0)
    precision = request.precision if request.precision != "keep" else "fp32"
    with (
        owning_gpu(request, "onetrainer extract", report),
        ExitStack() as stack,
        torch.no_grad(),
    ):
        base = open_model(stack, Path(request.base), family, configs)
        tuned = open_model(stack, Path(request.tuned), family, configs)
        report(Phase("saving", detail=f"comparing {Path(request.tuned).name}"))
        file, names, losses, notes = difference(
            base,
            tuned,
            limit,
            report,
            dtype=PRECISIONS[precision] or torch.float32,
            device=choose_device(request.device),
        )
        prediction = tuned.description.prediction
    target = Path(request.target)
    metadata = lora_metadata(file, names.base, prediction, target)
    notes += save_lora(replace(file, metadata=metadata), names, request, precision)
    images, lines = compare(request, report)
    return Finished(0, [request.target, *images], [*notes, *loss_lines(losses), *lines])
