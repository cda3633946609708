"""Loading of the model that a request names."""

from collections.abc import Callable
from pathlib import Path

import torch

from modules.captioning.describer import Describer
from modules.formats.files.hub_download import download
from onetrainer.captioning.kinds import KINDS, files_to_download, find_kind, require_makes
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.model_files.hub import is_hub_name


def load_describer(
    request: CaptionRequest, device: torch.device, report: Callable[[str], None]
) -> Describer:
    """Return the model on the device, downloaded if need be.

    report: Called with a description of each stage. Raises UserError if it cannot be used.
    """
    path = Path(request.model)
    if is_hub_name(request.model):
        path = download(request.model, files_to_download, offline=request.offline, report=report)
    kind = find_kind(path)
    require_makes(path, kind, request.makes)
    report(f"{KINDS[kind].title} {Path(request.model).name}")
    prompt = request.prompt.strip() or KINDS[kind].prompt
    # Imported here: those of .onnx files need none of transformers, which takes seconds to import.
    match kind:
        case "tagger":
            from modules.captioning.wd_tagger import WdTagger

            return WdTagger(path, device)
        case "background":
            from modules.captioning.background import Background

            return Background(path, device)
        case "clipseg":
            from modules.captioning.clipseg import ClipSeg

            return ClipSeg(path, device, prompt=prompt)
        case "blip" | "florence" | "chat":
            from modules.captioning.text_model import TextModel

            return TextModel(
                path,
                device,
                prompt=prompt,
                max_tokens=request.max_tokens,
                chats=kind == "chat",
            )
