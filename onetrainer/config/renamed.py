"""Former names of settings."""

import re
from collections.abc import Iterable, Iterator

# Former paths of settings and sections, and current ones; a star is the index of a list entry. All
# changed in versions 6 and 7.
RENAMED = {
    "data.concepts.*.pictures": "data.concepts.*.images",
    "ema.place": "ema.device",
    "embeddings.words.*.word": "embeddings.tokens.*.token",
    "embeddings.words": "embeddings.tokens",
    "hardware.temp_device": "hardware.offload_device",
    "objective.algorithm.candidates": "objective.algorithm.candidates_per_prompt",
    "objective.algorithm.gradients": "objective.algorithm.gradients_per_image",
    "objective.algorithm.keep": "objective.algorithm.kept_per_prompt",
    "objective.algorithm.least_share": "objective.algorithm.min_fraction",
    "objective.algorithm.most_share": "objective.algorithm.max_fraction",
    "objective.algorithm.prompts": "objective.algorithm.prompts_per_round",
    "objective.algorithm.steps": "objective.algorithm.steps_per_round",
    "method.text_encoder": "method.text_encoders.te1",
    "method.text_encoder_2": "method.text_encoders.te2",
    "objective.evaluation.least_diversity": "objective.evaluation.min_diversity",
    "objective.evaluation.most_prompts": "objective.evaluation.max_prompts",
    "objective.evaluation.share": "objective.evaluation.split",
    "objective.keep.denoising_share": "objective.keep.denoising_fraction",
    "optimizer.step_in_backward": "optimizer.fused_backward",
    "schedule.warmup_share": "schedule.warmup_fraction",
    "validation.most_pictures": "validation.max_images",
    "validation.share": "validation.split",
    "validation.turns": "validation.split_by",
    "validation.without_average": "validation.without_ema",
}


def current_path(path: str) -> str:
    """Return a setting's current path; a path that was never renamed is returned unchanged."""
    for former, current in RENAMED.items():
        pattern = re.escape(former).replace(r"\*", r"(\d+)") + r"(?=\.|$)"
        match = re.match(pattern, path)
        if match:
            index = match.group(1) if match.groups() else ""
            renamed = current.replace("*", index) + path[match.end() :]
            return renamed if renamed == path else current_path(renamed)
    return path


def former_paths(path: str) -> list[str]:
    """Return the former paths of a setting; `*` is the index of a list entry."""
    return [
        former + path.removeprefix(current)
        for former, current in RENAMED.items()
        if f"{path}.".startswith(f"{current}.")
    ]


def rename_notes(overrides: Iterable[str]) -> Iterator[str]:
    """Yield a note for each `key.path=value` override that uses a former name."""
    for text in overrides:
        path = text.partition("=")[0].strip()
        if current_path(path) != path:
            yield f"{path} is now called {current_path(path)}"
