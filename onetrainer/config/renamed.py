"""Settings that had another name in earlier versions."""

import re

# A star stands for the number of a list's entry. Version 6 renamed all of them.
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
    "objective.evaluation.most_prompts": "objective.evaluation.max_prompts",
    "objective.evaluation.share": "objective.evaluation.split",
    "optimizer.step_in_backward": "optimizer.fused_backward",
    "schedule.warmup_share": "schedule.warmup_fraction",
    "validation.most_pictures": "validation.max_images",
    "validation.share": "validation.split",
    "validation.turns": "validation.split_by",
    "validation.without_average": "validation.without_ema",
}


def current_path(path: str) -> str:
    """Return today's path of a setting; a path that was never renamed is returned as it is."""
    for old, new in RENAMED.items():
        pattern = re.escape(old).replace(r"\*", r"(\d+)") + r"(?=\.|$)"
        match = re.match(pattern, path)
        if match:
            number = match.group(1) if match.groups() else ""
            renamed = new.replace("*", number) + path[match.end() :]
            return renamed if renamed == path else current_path(renamed)
    return path


def former_names(path: str) -> list[str]:
    """Return the last names that a setting had in earlier versions; `*` stands for a number."""
    return [old.rpartition(".")[2] for old, new in RENAMED.items() if new == path]
