"""The table family × method × objective × precision × memory: tiny runs, resumed in the middle.

What cannot be is refused by the config, with the reason; what is not refused has to work.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file

from modules.jobs.train import train
from onetrainer.presets.presets import resolve
from onetrainer.rules.rules import check_rules
from onetrainer.run.events import Finished, Progress, Sample, Validated
from onetrainer.run.run_folder import STATE_FILE, RunFolder
from tests import pretend, runs, tiny

STEPS = 2
HALF = 1
WORD = "<thing>"
PRECISIONS = ("fp32", "bf16", "fp16")
# "rich": most of what an objective can do at once, masks and prior preservation with it.
RICH: dict[str, Any] = {
    "objective": {
        "kind": "denoising",
        "loss": {"mse": 0.5, "huber": 0.5},
        "weighting": {"kind": "min_snr"},
        "timesteps": {"kind": "logit_normal"},
        "noise": {"offset": 0.05, "input_perturbation": 0.1},
        "mask": {"prior_weight": 0.5},
        "prior": {"kind": "own_prediction"},
    },
    "data": {
        "folder": "pictures",
        "resolution": 64,
        "masks": "files",
        "conditioning": "masks",
        "class_folder": "class",
        "captions": {"dropout": 0.1, "shuffle": True},
        # Random transforms are others where images are not cached.
        "augmentation": {"flip": "always", "contrast": 0.1, "fixed": True},
    },
    "ema": {"use": True},
}
# Everything of reward training at once: guidance, an anchor, ordinary steps, evaluations.
REWARDED: dict[str, Any] = {
    "objective": {
        "kind": "alignprop",
        "rewards": [{"reward": "color"}, {"reward": "contrast", "train": False}],
        "prompts": {"text": f"a {WORD} square\na {WORD}\na blue {WORD}"},
        "rollout": {"steps": 2, "guidance": 2.0, "width": 64, "height": 64},
        "keep": {"anchor": 0.1, "denoising_fraction": 0.3},
        "evaluation": {"prompts": f"a red {WORD}", "seeds": 2, "every": HALF, "guard": "off"},
    }
}
OBJECTIVES: dict[str, dict[str, Any]] = {"plain": {}, "rich": RICH, "reward": REWARDED}
GENERATING = tuple(family for family in tiny.FAMILIES if not family.endswith("inpainting"))
"""The families that can be trained by rewards."""
# What is kept, and where things are; a plain run on the processor computes the same in each case.
_UNCACHED = {"cache_latents": False, "cache_text": False}
MEMORY: dict[str, dict[str, dict[str, Any]]] = {
    "cached": {},
    "uncached": {"data": _UNCACHED},
    "same-device": {"hardware": {"offload_device": "same", "gradient_checkpointing": "selective"}},
    "offload": {"hardware": {"offload_layers": 0.5, "offload_activations": 0.5}},
    "uncached-offload": {
        "data": _UNCACHED,
        "hardware": {"offload_layers": 0.9, "offload_activations": 1.0, "prefetch": True},
    },
    "quantized": {"hardware": {"quantization": "int8", "gradient_checkpointing": "block"}},
}
NO_CHANGES: Mapping[str, dict[str, Any]] = MappingProxyType({})
_ADAPTER = {"targets": "full", **tiny.encoders()}
METHODS: dict[str, dict[str, Any]] = {
    "lora": {"method": {"kind": "lora", "rank": 2, **_ADAPTER}},
    "dora": {"method": {"kind": "dora", "rank": 2, **_ADAPTER}},
    "loha": {"method": {"kind": "loha", "rank": 2, **_ADAPTER}},
    "lokr": {"method": {"kind": "lokr", "rank": 2, **_ADAPTER}},
    "oft": {"method": {"kind": "oft", **_ADAPTER}},
    "full-fp32": {"method": {"kind": "full", "weights": "fp32", **tiny.encoders()}},
    "full-bf16": {"method": {"kind": "full", "weights": "bf16", **tiny.encoders()}},
    "embedding": {
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [{"token": WORD, "initial_text": "a red square"}]},
    },
    "output-embedding": {
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [{"token": WORD, "initial_text": "red", "place": "output"}]},
    },
    "lora-and-embedding": {
        "method": {"kind": "lora", "rank": 2},
        "embeddings": {"tokens": [{"token": WORD, "initial_text": "red", "vectors": 2}]},
    },
    "vae": {
        "method": {"kind": "vae", "weights": "fp32"},
        "objective": {"kind": "reconstruction"},
    },
}


@dataclass(frozen=True)
class Case:
    """One cell of the table."""

    family: str
    method: str
    objective: str
    precision: str
    memory: str = "cached"

    def __str__(self) -> str:
        return f"{self.family}-{self.method}-{self.objective}-{self.precision}-{self.memory}"


def every_case() -> list[Case]:
    """The whole table."""
    return [
        Case(family, method, objective, precision, memory)
        for family in tiny.FAMILIES
        for method in METHODS
        for objective in (*_objectives(method), *_rewarded(family, method))
        for precision in PRECISIONS
        for memory in MEMORY
    ]


def some_cases() -> list[Case]:
    """A part in which any two of family, method, objective, precision and memory meet."""
    cases, memories = [], tuple(MEMORY)
    for row, family in enumerate(tiny.FAMILIES):
        for column, method in enumerate(METHODS):
            objectives = _objectives(method)
            # Halves and thirds go round at different paces, so that they meet, too.
            objective = objectives[(row + column) // 3 % len(objectives)]
            precision = PRECISIONS[(row + column) % len(PRECISIONS)]
            memory = memories[(row - column) % len(memories)]
            cases.append(Case(family, method, objective, precision, memory))
    for column, method in enumerate(METHODS):
        family = GENERATING[column % len(GENERATING)]
        for objective in _rewarded(family, method):
            # Three by three, since the families go round by one.
            precision = PRECISIONS[(column // len(GENERATING) + 1) % len(PRECISIONS)]
            memory = memories[-column % len(memories)]
            cases.append(Case(family, method, objective, precision, memory))
    return cases


_REWARDED = "lora-and-embedding"


def few_cases() -> list[Case]:
    """One of those for each method; the layers of every other one are offloaded.

    They hold every family, objective, precision and way of saving memory; rewards, whose runs take
    three times as long, with one method.
    """
    chosen = []
    for column, method in enumerate(METHODS):
        own = [case for case in some_cases() if case.method == method and not is_refused(case)]
        own = [case for case in own if (case.objective == "reward") == (method == _REWARDED)]
        ways = [case for case in own if ("offload" in case.memory) == bool(column % 2)]
        # Begun where every value has its turn.
        chosen.append(ways[(column + 2) % len(ways)])
    return chosen


def _objectives(method: str) -> tuple[str, ...]:
    """What a method can be trained for: the VAE has an objective of its own."""
    return ("plain",) if method == "vae" else ("plain", "rich")


def _rewarded(family: str, method: str) -> tuple[str, ...]:
    """The same of what is trained by rewards: every model but those of inpainting."""
    return ("reward",) if method != "vae" and family in GENERATING else ()


def write_project(folder: Path, family: str) -> Path:
    """A tiny model of the family, captioned images, a mask, images of a class; the folder.

    SD 2 predicts velocity under zero terminal SNR, as some of its models do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    v = {"prediction": "v_prediction", "zero_terminal_snr": True} if family == "sd2" else {}
    tiny.write_folder(folder / "base", name=family, **v)
    tiny.write_images(folder / "class", ("a square", "a circle"))
    tiny.write_images(folder / "held-out", (f"a green {WORD}",))
    captions = (f"a {WORD} square", f"a blue {WORD}", f"{WORD}", f"night {WORD}")
    tiny.write_images(folder / "pictures", captions)
    Image.linear_gradient("L").resize((64, 64)).save(folder / "pictures/picture-0-masklabel.png")
    return folder


def document_of(case: Case, device: str = "cpu") -> dict[str, Any]:
    """The case's config; paths are relative to the project's folder."""
    document = {
        "model": {"path": "base", "family": case.family},
        "data": {"folder": "pictures", "resolution": 64},
        "training": {"steps": STEPS, "batch_size": 2, "seed": 5},
        "optimizer": {"lr": 1e-3},
        "schedule": {"warmup_steps": 1},
        "validation": {"use": True, "folder": "held-out", "every": HALF, "timesteps": 2},
        "sampling": {
            "prompts": [{"prompt": f"a {WORD}", "width": 64, "height": 64}],
            "every": 0,
            "at_start": False,
            "steps": 1,
        },
        "output": {"name": "made", "save_every": HALF, "keep_checkpoints": 9, "precision": "fp32"},
        "hardware": {
            "precision": case.precision,
            "device": device,
            "threads": 1,
            "deterministic": "on" if device == "cuda" else "auto",
        },
        **OBJECTIVES[case.objective],
        **METHODS[case.method],
    }
    for section, values in MEMORY[case.memory].items():
        document[section] = {**document[section], **values}
    if case.objective == "reward" and "offload" in case.memory:
        # Offloaded layers keep their adapters separate; on the processor none waits, and those
        # that are merged round otherwise.
        rollout = document["objective"]["rollout"] | {"merge": False}
        document["objective"] = document["objective"] | {"rollout": rollout}
    return document


def refusal_of(case: Case) -> str:
    """Why the config refuses a case; "" if it does not."""
    config = resolve(document_of(case), source="")
    errors = [problem for problem in check_rules(config) if problem.severity == "error"]
    return "; ".join(f"{problem.path}: {problem}" for problem in errors)


def is_refused(case: Case) -> bool:
    """Whether the config is to refuse a case."""
    is_xl_vae = case.method == "vae" and case.family.startswith("sdxl")
    is_packed = case.method.startswith("full") and case.memory == "quantized"
    return is_xl_vae or is_packed or (case.method, case.precision) == ("full-bf16", "fp16")


def run(
    case: Case,
    project: Path,
    device: str = "cpu",
    changes: Mapping[str, dict[str, Any]] = NO_CHANGES,
    *,
    pretends: bool = False,
) -> str:
    """Train, generate, and train the second half again; raises where anything is wrong.

    changes: settings over those of the case, by section. pretends: whether the second half is
    made on a pretended GPU, whose numbers are those of the processor.
    Gives the reason where the config refuses the case.
    """
    document = document_of(case, device)
    document |= {name: {**document.get(name, {}), **more} for name, more in changes.items()}
    if reason := refusal_of(case):
        return reason
    done = _new_run(case, project, document)
    assert train(done) == 0
    _require_whole(done)
    if pretends:
        document["hardware"] |= {"device": "cuda"}
        # A cache of its own, or there would be nothing to encode on the GPU.
        document["data"] |= {"cache_folder": f"cache-{case.memory}"}
    again = _new_run(case, project, document)
    shutil.copytree(done.checkpoint(HALF), again.checkpoint(HALF))
    shutil.copy(done.events, again.events)
    # What comes after the checkpoint is ignored.
    shutil.copytree(done.validation, again.validation)
    if done.rewards.is_dir():
        shutil.copytree(done.rewards, again.rewards)
    with pretend.accelerator() if pretends else nullcontext():
        assert train(again) == 0
    _require_same(done, again, has_same_config=not pretends)
    return ""


def _new_run(case: Case, project: Path, document: dict[str, Any]) -> RunFolder:
    config = project / f"{case}.json"
    folder = {"folder": f"runs-{case}"}
    config.write_text(json.dumps({**document, "output": {**document["output"], **folder}}))
    return runs.new_run(config)


def _require_whole(done: RunFolder) -> None:
    events = runs.events_of(done)
    assert [e.step for e in events if isinstance(e, Progress)] == list(range(1, STEPS + 1))
    assert isinstance(events[-1], Finished)
    (path,) = [done.path / e.path for e in events if isinstance(e, Sample)]
    with Image.open(path) as image:
        assert image.size == (64, 64)
    weights = [load_file(done.checkpoint(step) / "weights.safetensors") for step in (HALF, STEPS)]
    assert weights[0].keys() == weights[1].keys()
    has_moved = any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    # A step of fp16 whose gradients overflow changes nothing but the loss scale.
    states = [(done.checkpoint(step) / STATE_FILE).read_text() for step in (HALF, STEPS)]
    scales = [json.loads(state)["engine"].get("scale", 1.0) for state in states]
    assert has_moved != (scales[1] < scales[0])
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights[1].values())


def _require_same(one: RunFolder, other: RunFolder, *, has_same_config: bool) -> None:
    """Both runs wrote the same files, and measured the same, bit for bit."""
    files = sorted(path.relative_to(one.output) for path in one.output.rglob("*.safetensors"))
    assert files
    for file in files:
        if has_same_config:  # which files say in their metadata
            assert (one.output / file).read_bytes() == (other.output / file).read_bytes(), file
        first, second = (load_file(folder.output / file) for folder in (one, other))
        assert first.keys() == second.keys()
        for name, tensor in first.items():
            assert torch.equal(tensor, second[name]), f"{file}: {name}"
    measured = [
        [event.loss for event in runs.events_of(folder) if isinstance(event, Validated)]
        for folder in (one, other)
    ]
    assert len(measured[0]) == STEPS // HALF + 1
    assert measured[0] == measured[1]
