"""Models of transformers in folders: only the library's own classes, and only safetensors."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, AutoTokenizer
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from modules.memory.precision import compute_dtype, usual_precision
from onetrainer import install_command
from onetrainer.errors import UserError

_SAFE = {"local_files_only": True, "trust_remote_code": False}
_MOST_NAMED = 3


def load_pretrained(model_class: Any, folder: Path, device: torch.device) -> tuple[Any, Any]:  # noqa: ANN401 # untyped
    """Return a model on the device and what prepares its input. Raises UserError.

    No code of the folder is run, and nothing is unpickled.
    """
    processor = _processor(folder)
    try:
        model, info = model_class.from_pretrained(
            folder,
            use_safetensors=True,
            dtype=compute_dtype(usual_precision(device)),
            output_loading_info=True,
            **_SAFE,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise _unusable(folder, error) from error
    if missing := sorted(info["missing_keys"]):
        raise UserError(
            f"{folder}: {len(missing):,} weights are missing, such as"
            f" {', '.join(missing[:_MOST_NAMED])}",
            "Expected a model in the layout of transformers, complete",
            "Choose one that was converted for transformers, such as florence-community's for"
            " Florence-2, or download it again",
        )
    return model.eval().requires_grad_(False).to(device), processor


def _processor(folder: Path) -> Any:  # noqa: ANN401 # untyped
    try:
        try:
            return AutoProcessor.from_pretrained(folder, **_SAFE)
        except ImportError:
            return _still_image_processor(folder)
    except ImportError as error:
        raise UserError(
            f"{folder.name}: this model needs a package that is not installed"
            f" ({str(error).strip().partition(chr(10))[0]})",
            "torchvision comes with the extra “perceptual” of this program",
            f"Install it with: {install_command('perceptual')}; or choose another model",
            failure="package",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(folder, error) from error


def _still_image_processor(folder: Path) -> Any:  # noqa: ANN401 # untyped
    """Return a processor that has no part for videos, which needs torchvision (transformers 5.23).

    Those that take images and text only need Pillow.
    """
    base: Any = PROCESSOR_MAPPING[type(AutoConfig.from_pretrained(folder, **_SAFE))]

    class StillImageProcessor(base):  # type: ignore[misc] # its base is known when it runs
        def check_argument_for_proper_class(self, name: str, value: object) -> object:
            if value is None and name == "video_processor":
                return None
            return super().check_argument_for_proper_class(name, value)

    StillImageProcessor.__name__ = base.__name__
    parts = {"image_processor": AutoImageProcessor, "tokenizer": AutoTokenizer}
    names = StillImageProcessor.get_attributes()
    values, _ = StillImageProcessor.get_processor_dict(folder, **_SAFE)
    loaded = [parts[n].from_pretrained(folder, **_SAFE) if n in parts else None for n in names]
    return StillImageProcessor.from_args_and_dict(loaded, values)


def _unusable(folder: Path, error: Exception) -> UserError:
    reason = str(error).strip().partition("\n")[0][:300]
    return UserError(
        f"{folder}: this model cannot be loaded ({reason})",
        "Expected a complete model of a kind that transformers knows, with .safetensors weights;"
        " code that comes with a model is never run",
        "Choose another model, or download it again",
    )
