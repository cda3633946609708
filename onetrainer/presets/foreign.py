"""Recognize files of other programs, and others of our own, where a config is expected."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from onetrainer.errors import UserError
from onetrainer.json_file import MAX_BYTES, Document, shortened

_NOT_IMPORTED = (
    "Choose a preset, and set what you need there: other programs' settings are not read"
)


class Foreign(NamedTuple):
    """What a file is instead of a config. remedy: What to do with it here."""

    noun: str
    remedy: str = _NOT_IMPORTED


_JOB = Foreign("a job of this program, not a run", "Repeat the job by its own command.")
_QUEUE = Foreign("this program's queue", "Choose the config of one of its runs.")
_OWN = Foreign(
    "a file that this program writes of a run", "Choose config.json in the run's folder."
)
_OLD = "another version of OneTrainer"
_CONCEPTS = Foreign(f"a list of concepts of {_OLD}", "Enter its folders in data.concepts.")
_SAMPLES = Foreign("a list of prompts", "Choose it as the prompt file (sampling.file).")
_MODEL = Foreign("a model file", "Choose it as the base model of a config (model.path).")
_PROMPTS = Foreign("a text, not a config", "If it holds prompts, choose it as sampling.file.")
_DATASET = "a list of image folders of"

KEYS: tuple[tuple[Foreign, int, frozenset[str]], ...] = (
    (
        _JOB,
        2,
        frozenset(["job", "request"]),
    ),
    (
        Foreign("a ComfyUI workflow"),
        2,
        frozenset(["nodes", "links", "last_node_id", "last_link_id"]),
    ),
    (
        Foreign("an InvokeAI workflow"),
        2,
        frozenset(["nodes", "edges", "exposedFields", "meta"]),
    ),
    (
        Foreign("a config of ai-toolkit"),
        2,
        frozenset(["job", "config", "meta"]),
    ),
    (
        Foreign("a config of SimpleTuner"),
        2,
        frozenset(
            [
                *("model_family", "model_flavour", "data_backend_config", "lora_type"),
                *("base_model_precision", "checkpoint_step_interval", "checkpointing_steps"),
                *("tracker_run_name", "caption_dropout_probability", "disable_bucket_pruning"),
            ]
        ),
    ),
    (
        Foreign("a LyCORIS config of SimpleTuner"),
        2,
        frozenset(["algo", "linear_dim", "apply_preset"]),
    ),
    (
        Foreign("settings of AUTOMATIC1111's web UI"),
        2,
        frozenset(
            [
                *("sd_model_checkpoint", "samples_format", "outdir_samples"),
                *("outdir_txt2img_samples", "sampler_name", "cfg_scale", "override_settings"),
                *("sd_vae", "CLIP_stop_at_last_layers"),
            ]
        ),
    ),
    (
        Foreign("what a model browser notes of a model"),
        2,
        frozenset(
            [
                *("activation text", "preferred weight", "modelId", "trainedWords", "baseModel"),
                *("sd version",),
            ]
        ),
    ),
    (
        Foreign("a config of EveryDream"),
        2,
        frozenset(["resume_ckpt", "data_root", "project_name", "max_epochs"]),
    ),
    (
        Foreign(f"a config of {_OLD}"),
        2,
        frozenset(
            [
                *("__version", "training_method", "model_type", "base_model_name"),
                *("concept_file_name", "output_model_destination", "output_model_format"),
                *("workspace_dir", "backup_after", "learning_rate_scheduler"),
                *("sample_definition_file_name", "weight_dtype"),
            ]
        ),
    ),
    (
        Foreign("a config of kohya's GUI or of sd-scripts"),
        3,
        frozenset(
            [
                *("LoRA_type", "pretrained_model_name_or_path", "train_data_dir", "max_resolution"),
                *("lr_warmup", "save_model_as", "network_dim", "network_alpha", "mixed_precision"),
                *("num_cpu_threads_per_process", "caption_extension", "bucket_no_upscale", "v2"),
                *("v_parameterization", "lr_scheduler", "output_name", "reg_data_dir", "clip_skip"),
                *("train_batch_size", "max_data_loader_n_workers", "network_module"),
                *("optimizer_args",),
            ]
        ),
    ),
    (
        Foreign("a config of a model's component", "Choose the model itself (model.path)."),
        1,
        frozenset(["_class_name", "_diffusers_version", "transformers_version", "architectures"]),
    ),
)
"""Files by their keys: what has so many of them, or more, is one of theirs."""

_TEXTS: tuple[tuple[re.Pattern[str], Foreign], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), Foreign(noun))
    for pattern, noun in (
        (r"^\s*job:\s*\S+\s*$[\s\S]*^\s*process:", "a config of ai-toolkit"),
        (r"^\s*\[\[datasets\]\]|^\s*\[\[?datasets\.subsets\]", f"{_DATASET} sd-scripts"),
        (r"^\s*pretrained_model_name_or_path\s*=\s*[\"']", "a config of sd-scripts"),
        (r"^\s*\[\[directory\]\]", f"{_DATASET} diffusion-pipe"),
        (r"accelerate\s+launch|\b\w*train_\w+\.py\b", "a command line of another trainer"),
        (r"^\s*(export\s+)?[A-Z][A-Z0-9_]+=", "a file of environment variables, as of SimpleTuner"),
        (r"^\s*\[[\w.\-]+\]\s*$", "a TOML file"),
        (r"\A(---\s*$|(#.*\n|\s)*[\w\-]+:(\s|$))", "a YAML file"),
    )
)


def require_config(path: Path, document: Document | None) -> None:
    """Raise UserError that names what a file is, if that is known to be no config.

    document: What was read of it; None if it is no JSON.
    """
    found = kind_of_content(path) if document is None else kind_of_document(document)
    if found is not None:
        raise _error(path, found)


def kind_of_document(document: object) -> Foreign | None:
    """Return whose file a JSON document is; None if it may be a config, or is not known."""
    if isinstance(document, list):
        return _kind_of_list([entry for entry in document if isinstance(entry, dict)])
    if not isinstance(document, Mapping):
        return None
    keys = {key.removeprefix("--") for key in document}
    for found, least, known in KEYS:
        if len(keys & known) >= least:
            return found
    nodes = [node for node in document.values() if isinstance(node, dict)]
    if nodes and all("class_type" in node for node in nodes):
        return Foreign("a ComfyUI workflow")
    if isinstance(document.get("entries"), list):
        return _QUEUE
    return _OWN if {"step", "files"} <= keys or {"tags", "notes", "label"} <= keys else None


def _kind_of_list(entries: list[Document]) -> Foreign | None:
    if not entries:
        return None
    keys = set(entries[0])
    if keys & {"instance_data_dir", "dataset_type", "metadata_backend"}:
        return Foreign(f"{_DATASET} SimpleTuner")
    if "path" in keys and keys & {"image", "text", "balancing", "include_subdirectories"}:
        return _CONCEPTS
    return _SAMPLES if "prompt" in keys else None


def kind_of_content(path: Path) -> Foreign | None:
    """Return what a file is that is no config in JSON; None if it is not known."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES)
    except OSError:
        return None
    if path.suffix.lower() in (".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf"):
        return _MODEL
    if content[8:9] == b"{" and 0 < int.from_bytes(content[:8], "little") < 1 << 30:
        return _MODEL
    from onetrainer.images.file_kind import HEAD, kind_of  # the first page needs no images

    kind = kind_of(content[:HEAD])
    if kind is not None and (kind.is_image or kind.is_container):
        remedy = "Choose a config file, as presets and runs have"
        return Foreign(kind.noun, f"{remedy}; the settings in an image's metadata are not read")
    try:
        text = content.decode("utf-8-sig")
        return kind_of_document(json.loads(text))
    except (UnicodeDecodeError, RecursionError):
        return None
    except ValueError:
        pass
    if text.lstrip()[:1] in ("{", "["):
        return None if not _TEXTS[1][0].search(text) else _TEXTS[1][1]
    return next((found for pattern, found in _TEXTS if pattern.search(text)), _PROMPTS)


def _error(path: Path, found: Foreign) -> UserError:
    return UserError(
        f"{shortened(path)}: this is {found.noun}",
        "Expected a config of this program: a preset, or config.json of a run",
        found.remedy,
    )
