"""The demo's configs: one per training method, each taking one to three minutes."""

from typing import Any

Config = dict[str, Any]

# Combinations of color and background that the training images do not have.
SAMPLES = (
    ("a yellow smiley on a green background", 1),
    ("a pink smiley on a sunset background", 2),
    ("a green smiley on a yellow background", 3),
    ("an orange smiley on a night background", 4),
)
TOKEN = "<sign>"
"""The token of the embedding demos, used in the captions of the images in `signs`."""
TOKEN_SAMPLES = ((TOKEN, 1), (TOKEN, 2), (f"a drawing of {TOKEN}", 3), (f"a drawing of {TOKEN}", 4))
REWARDED = (
    "a red circle on a green background",
    "a blue heart on a night background",
    "a yellow star on a blue background",
    "a pink square on a gray background",
    "a green triangle on a white background",
    "an orange ring on a purple background",
    "a white diamond on a blue background",
    "a purple cross on a pink background",
    "a big white star on a night background",
    "a small red heart on a blue background",
    "a green ring on a black background",
    "a blue diamond on a yellow background",
)
"""The reward demo's training prompts, with every shape of the model."""
VALIDATION = (
    "a blue circle on a green background",
    "a green heart on a blue background",
    "a purple star on a night background",
    "a red square on a white background",
    "a yellow cross on a black background",
    "a pink triangle on a purple background",
)
"""The reward demo's validation prompts."""

# Other precisions and a second thread do not speed up such a small model; on a busy machine two
# threads wait for each other at each of thousands of tiny layers (measured: no step in four
# minutes, against 0.2 s per step with one).
_HARDWARE = {"precision": "fp32", "threads": 1}


def demo_configs() -> dict[str, Config]:
    """Return the configs by file name: the settings that differ from the defaults.

    Paths are relative to the file.
    """
    return {
        "demo.json": demo_config(),
        "demo-dora.json": _smileys(
            "Teaches the tiny model smileys by DoRA: a LoRA with lengths learned apart.",
            name="demo-dora",
            method={"kind": "dora", "rank": 16, "alpha": 16.0, "targets": "full"},
            lr=4e-3,
        ),
        "demo-loha.json": _smileys(
            "Teaches the tiny model smileys by LoHa: a product of two small LoRAs.",
            name="demo-loha",
            method={"kind": "loha", "rank": 8, "alpha": 8.0, "targets": "full"},
            lr=4e-3,
        ),
        "demo-lokr.json": _smileys(
            "Teaches the tiny model smileys by LoKr: Kronecker products, in the smallest files.",
            name="demo-lokr",
            method={"kind": "lokr", "factor": 4, "full_matrix": True, "targets": "full"},
            lr=1e-2,
        ),
        "demo-oft.json": _smileys(
            "Teaches the tiny model smileys by OFT: the weights are turned, never stretched.",
            name="demo-oft",
            method={"kind": "oft", "targets": "full"},
            lr=4e-3,
        ),
        "demo-full.json": _full(),
        "demo-embedding.json": _word(
            "Teaches the tiny model a word: only the word's vectors are learned.",
            name="demo-embedding",
            word={"token": TOKEN, "initial_text": "a shape", "vectors": 4},
        ),
        "demo-output-embedding.json": _word(
            "Teaches the tiny model a word by vectors that replace what the encoder says of it.",
            name="demo-output-embedding",
            word={"token": TOKEN, "initial_text": "a shape", "vectors": 4, "place": "output"},
        ),
        "demo-folders.json": _folders(),
        "demo-vae.json": _vae(),
        "demo-alignprop.json": _alignprop(),
    }


def demo_config() -> Config:
    """Return the config that the window opens with: a LoRA of smileys."""
    return _smileys(
        "Teaches the demo's tiny model to draw smileys, in about a minute.",
        name="demo-smiley",
        method={"kind": "lora", "rank": 16, "alpha": 16.0, "targets": "full"},
        lr=4e-3,
    )


def _smileys(description: str, *, name: str, method: Config, lr: float) -> Config:
    return {
        "version": 4,
        "description": description,
        "model": {"family": "sd15", "path": "base"},
        "data": {"folder": "pictures", "resolution": 128},
        "method": method,
        "training": {"steps": 200, "batch_size": 6},
        "optimizer": {"kind": "adamw", "lr": lr},
        "schedule": {"kind": "cosine", "warmup_steps": 10},
        "sampling": _sampling(SAMPLES, every=50),
        "output": {"name": name, "folder": "runs", "save_every": 100},
        "hardware": _HARDWARE,
    }


def _folders() -> Config:
    """Return smileys with a second folder that has its own trigger word, captions and repeats."""
    config = _smileys(
        "Teaches the tiny model smileys and a word of its own at once, from two folders.",
        name="demo-folders",
        method={"kind": "lora", "rank": 16, "alpha": 16.0, "targets": "full"},
        lr=4e-3,
    )
    config["data"] |= {
        "captions": {"dropout": 0.1},
        "augmentation": {"flip": "random", "crop_jitter": 0.05, "variations": 2},
        "concepts": [
            {
                "name": "signs",
                "folder": "signs",
                "repeats": 2.0,
                "caption_source": "text",
                "caption_text": "{a drawing|a picture} in two colors",
                "trigger": "zqsign",
                "own_captions": True,
                "captions": {"wildcards": True},
            }
        ],
    }
    config["validation"] = {"use": True, "split": 0.15, "every": 50}
    config["sampling"] = _sampling((*SAMPLES[:2], ("zqsign, a picture in two colors", 3)), every=50)
    return config


def _full() -> Config:
    """Return a full training, exported as a folder since single files need published sizes."""
    config = _smileys(
        "Teaches the tiny model smileys by moving all of its own weights; Prodigy finds how fast.",
        name="demo-full",
        method={"kind": "full", "weights": "fp32"},
        lr=1.0,
    )
    config["optimizer"]["kind"] = "prodigy"
    config["schedule"] = {"kind": "cosine"}
    config["output"]["model_format"] = "diffusers"
    return config


def _word(description: str, *, name: str, word: Config) -> Config:
    return {
        "version": 4,
        "description": description,
        "model": {"family": "sd15", "path": "base"},
        "data": {"folder": "signs", "resolution": 128},
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [word]},
        "training": {"steps": 200, "batch_size": 4},
        "optimizer": {"kind": "adamw", "lr": 0.05, "weight_decay": 0.0},
        "schedule": {"kind": "constant", "warmup_steps": 10},
        "sampling": _sampling(TOKEN_SAMPLES, every=50),
        "output": {"name": name, "folder": "runs", "save_every": 100},
        "hardware": _HARDWARE,
    }


def _vae() -> Config:
    return {
        "version": 4,
        "description": "Teaches the tiny model's decoder to bring smileys back sharper.",
        "model": {"family": "sd15", "path": "base"},
        "data": {"folder": "pictures", "resolution": 128},
        "method": {"kind": "vae", "weights": "fp32"},
        "objective": {"kind": "reconstruction", "l1": 1.0},
        "training": {"steps": 100, "batch_size": 2},
        "optimizer": {"kind": "adamw", "lr": 1e-3, "weight_decay": 0.0},
        "schedule": {"kind": "cosine", "warmup_steps": 5},
        "sampling": _sampling((("a big yellow circle on a blue background", 1),), every=50),
        "output": {"name": "demo-vae", "folder": "runs", "save_every": 50},
        "hardware": _HARDWARE,
    }


def _alignprop() -> Config:
    """Return reward training, which scores generated images and uses no training images."""
    return {
        "version": 4,
        "description": "Teaches the tiny model warmer colors by a reward; a guard watches whether"
        " its pictures stay like the demo's.",
        "model": {"family": "sd15", "path": "base"},
        "method": {"kind": "lora", "rank": 8, "alpha": 8.0, "targets": "full"},
        "objective": {
            "kind": "alignprop",
            "algorithm": {"kind": "alignprop", "max_fraction": 0.5},
            "rewards": [
                {"reward": "color", "color": "warm", "target": 0.3},
                # Yellow without a shape, where a hacked reward ends, is surely less like these;
                # in contrast and sharpness its blotches pass for pictures.
                {"reward": "reference", "folder": "pictures", "train": False},
            ],
            "prompts": {"text": "\n".join(REWARDED)},
            "rollout": {"steps": 10, "guidance": 3.0, "width": 128, "height": 128},
            "evaluation": {"prompts": "\n".join(VALIDATION), "every": 4, "guard": "stop"},
        },
        "training": {"steps": 20, "batch_size": 4},
        "optimizer": {"kind": "adamw", "lr": 2e-3},
        "schedule": {"kind": "cosine", "warmup_steps": 2},
        "sampling": {"every": 0, "at_start": False},  # the validation prompts are sampled anyway
        "output": {"name": "demo-alignprop", "folder": "runs", "save_every": 10},
        "hardware": _HARDWARE,
    }


def _sampling(samples: tuple[tuple[str, int], ...], *, every: int) -> Config:
    return {
        "prompts": [
            {"prompt": prompt, "seed": seed, "width": 128, "height": 128}
            for prompt, seed in samples
        ],
        "every": every,
        "steps": 20,
        "guidance": 3.0,
    }
