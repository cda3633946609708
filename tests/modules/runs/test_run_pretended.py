"""Whole runs on a pretended GPU: no mixed devices in any phase, no waiting in steps."""

import json
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file

from modules.assembly import placement
from modules.jobs.train import train
from modules.trainer import Trainer
from modules.training import reporter
from onetrainer.run.events import Phase, Sample, Validated
from tests import pretend, runs, table, tiny

SAMPLES = {
    "prompts": [{"prompt": "a square", "width": 64, "height": 64}],
    "every": 2,
    "steps": 2,
}
VALIDATION = {"use": True, "folder": "held-out", "every": 2, "at_start": False, "timesteps": 1}
STEPS = 2
FAMILIES = ("sd15", "sd15-inpainting", "sdxl")


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretended")
    return {name: table.write_project(folder / name, name) for name in FAMILIES}


def new_run(project, case, device, **changes):
    """A run of a case of the table, with sections changed."""
    document = table.document_of(case)
    document["training"] |= {"steps": STEPS}
    document["hardware"] |= {"device": device}
    document["data"] |= {"cache_folder": f"cache-{device.replace(':', '-')}"}
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    config = project / "pretended.json"
    config.write_text(json.dumps(document))
    return runs.new_run(config)


def weights(folder):
    return load_file(folder.checkpoint(STEPS) / "weights.safetensors")


def assert_same_on_gpu(project, case, **changes):
    """Trains on the processor and on a pretended GPU; gives the events of the latter."""
    plain = new_run(project, case, "cpu", **changes)
    assert train(plain) == 0
    on_card = new_run(project, case, "cuda", **changes)
    with pretend.accelerator():
        assert train(on_card) == 0
    expected, found = weights(plain), weights(on_card)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    return runs.events_of(on_card)


@pytest.mark.long  # the table's runs on a pretended GPU are validated and sampled, too
@pytest.mark.parametrize("offload_device", ["cpu", "same"])
def test_sdxl_is_validated_and_sampled_after_latents_and_captions_were_cached(
    projects, offload_device
):
    case = table.Case("sdxl", "dora", "plain", "bf16")
    events = assert_same_on_gpu(
        projects["sdxl"],
        case,
        method=tiny.encoders(train=False),
        hardware={"offload_device": offload_device},
        sampling=SAMPLES,
        validation=VALIDATION,
    )
    phases = {event.name for event in events if isinstance(event, Phase)}
    assert {"caching", "training", "validating", "sampling", "saving"} <= phases
    assert [e.step for e in events if isinstance(e, Validated)] == [2]
    assert [e.step for e in events if isinstance(e, Sample)] == [2]


AVERAGED = {"ema": {"use": True, "device": "host"}}
CHECKPOINTED = {"hardware": {"precision": "bf16", "gradient_checkpointing": "selective"}}
OFFLOADED = {
    "hardware": {
        "precision": "bf16",
        "offload_layers": 0.5,
        "offload_activations": 0.5,
        "prefetch": True,
    }
}
IN_BACKWARD = {
    "optimizer": {"fused_backward": True},
    "training": {"gradient_clipping": 0.0},
}
# Between steps there is an evaluation, which waits for its results.
_WATCHED = table.REWARDED["objective"]["evaluation"] | {"every": 10 * STEPS}
EVALUATES_LATE = {"objective": table.REWARDED["objective"] | {"evaluation": _WATCHED}}
STEP_CASES = {
    "lora": (table.Case("sdxl", "lora", "rich", "bf16"), {}),
    "no cache": (table.Case("sd15", "lora", "plain", "bf16", "uncached"), {}),
    "inpainting": (table.Case("sd15-inpainting", "lora", "rich", "bf16"), {}),
    "inpainting, no cache": (table.Case("sd15-inpainting", "lora", "rich", "bf16", "uncached"), {}),
    "full": (table.Case("sd15", "full-bf16", "plain", "bf16"), AVERAGED),
    "words": (table.Case("sd15", "lora-and-embedding", "rich", "fp32"), {}),
    "vae": (table.Case("sd15", "vae", "plain", "fp32"), {}),
    "checkpointed": (table.Case("sd15", "lora", "plain", "bf16"), CHECKPOINTED),
    "offloaded": (table.Case("sd15", "lora", "plain", "bf16"), OFFLOADED),
    "in backward": (table.Case("sd15", "full-bf16", "plain", "bf16"), IN_BACKWARD),
    "rewards": (table.Case("sd15", "lora-and-embedding", "reward", "bf16"), EVALUATES_LATE),
    # It computes with the model's original weights in between, which are in host memory.
    "own prediction": (table.Case("sd15", "full-bf16", "rich", "bf16"), {}),
}
QUIET = {"sampling": {"at_end": False}, "validation": {"use": False}, "output": {"save_every": 0}}


def syncs_in_steps(monkeypatch, folder):
    """What the host waited for between the first step's beginning and the last one's end."""
    marks = []
    with pretend.accelerator() as gpu:
        do_tasks, begin = Trainer._run_due_tasks, reporter.Reporter.start_clock

        def started(self, step):
            begin(self, step)
            marks.append(len(gpu.syncs))

        def ended(self, step):
            marks.append(len(gpu.syncs))
            do_tasks(self, step)
            marks.append(len(gpu.syncs))

        monkeypatch.setattr(reporter.Reporter, "start_clock", started)
        monkeypatch.setattr(Trainer, "_run_due_tasks", ended)
        # Slow steps are read at once; on this GPU all are slow.
        monkeypatch.setattr(reporter, "_MAX_UNREAD_SECONDS", float("inf"))
        assert train(folder) == 0
    pairs = zip(marks[:-1:2], marks[1::2], strict=True)
    return [sync for first, last in pairs for sync in gpu.syncs[first:last]]


FEW_STEP_CASES = ("full", "offloaded", "rewards")
IN_LONG = [pytest.param(n, marks=pytest.mark.long) for n in STEP_CASES if n not in FEW_STEP_CASES]


@pytest.mark.parametrize("name", [*FEW_STEP_CASES, *IN_LONG])
def test_no_step_waits_for_the_gpu(projects, monkeypatch, name):
    case, changes = STEP_CASES[name]
    folder = new_run(projects[case.family], case, "cuda", **(QUIET | changes))
    assert syncs_in_steps(monkeypatch, folder) == []


def test_a_step_in_fp16_synchronizes_once_for_its_overflow(projects, monkeypatch):
    case = table.Case("sd15", "lora", "plain", "fp16")
    folder = new_run(projects["sd15"], case, "cuda", **QUIET)
    assert len(syncs_in_steps(monkeypatch, folder)) == STEPS


def waits_with_layers_offloaded(monkeypatch, project, method, *, prefetch):
    """By kind, how often steps wait while half of the layers do, and which layers that are."""
    found = []

    def managing(*args, **kwargs):
        found.append(placement.manage(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr("modules.jobs.loading.manage", managing)
    case = table.Case("sd15", method, "plain", "bf16")
    hardware = {"precision": "bf16", "offload_layers": 0.5, "prefetch": prefetch}
    folder = new_run(project, case, "cuda", **QUIET, hardware=hardware)
    waits = syncs_in_steps(monkeypatch, folder)
    (managed,) = found
    layers = [layer for layer in managed.layers if set(layer.parameters()) & managed.offloaded]
    assert 0 < len(layers) < len(managed.layers)
    return Counter((sync.what, sync.where.partition(":")[0]) for sync in waits), layers


@pytest.mark.parametrize("prefetch", [False, pytest.param(True, marks=pytest.mark.long)])
def test_full_fine_tuning_waits_once_for_the_gradients_of_each_layer_that_waits(
    projects, monkeypatch, prefetch
):
    waits, layers = waits_with_layers_offloaded(
        monkeypatch, projects["sd15"], "full-bf16", prefetch=prefetch
    )
    weights = sum(len(list(layer.parameters())) for layer in layers)
    expected = {
        ("event.synchronize", "modules/memory/layers/transfer.py"): STEPS * len(layers),
        # Gradients in host memory are clipped by what is computed on the GPU.
        ("copy to the host", "modules/optim/clipping.py"): STEPS,
        # They are not updated in a broken step, which is known on the GPU.
        ("item", "modules/optim/update.py"): STEPS,
    }
    if not prefetch:
        expected["copy to the GPU", "modules/memory/layers/transfer.py"] = STEPS * 2 * weights
    assert waits == expected


def test_losses_are_read_eight_steps_late_at_most(projects, monkeypatch):
    case = table.Case("sd15", "output-embedding", "plain", "fp32")
    folder = new_run(projects["sd15"], case, "cuda", **QUIET, training={"steps": 17})
    waits = syncs_in_steps(monkeypatch, folder)
    # From the ninth step on, each waits for the one eight steps before.
    assert len(waits) == 17 - 8
    assert all(sync.where.startswith("modules/memory/to_device.py") for sync in waits)


def test_residency_alone_moves_networks(projects):
    case = table.Case("sd15", "lora-and-embedding", "plain", "fp32")
    folder = new_run(projects["sd15"], case, "cuda")
    with pretend.accelerator() as gpu:
        assert train(folder) == 0
    assert gpu.module_moves
    assert all(place.startswith("modules/memory/residency.py") for place in gpu.module_moves)


def test_automatic_checkpointing_is_decided_before_the_model_is_loaded(projects):
    case = table.Case("sd15", "lora", "plain", "fp32")
    hardware = {"gradient_checkpointing": "auto"}
    folder = new_run(projects["sd15"], case, "cpu", **QUIET, hardware=hardware)
    assert train(folder) == 0
    details = [e.detail for e in runs.events_of(folder) if isinstance(e, Phase)]
    chosen = details.index("gradient checkpointing: off")
    assert details.index("counting memory") < chosen < details.index("base model")


ON_OTHERS = {
    "mps": {"ema": {"use": True, "device": "host"}, "sampling": SAMPLES},
    "cuda:1": {"hardware": {"precision": "bf16", "offload_layers": 0.5, "prefetch": True}},
}


@pytest.mark.parametrize("device", ["mps", pytest.param("cuda:1", marks=pytest.mark.long)])
def test_apples_gpu_gets_nothing_that_it_lacks_and_a_second_one_leaves_the_first_alone(
    projects, device
):
    case = table.Case("sd15", "lora", "plain", "fp16")
    folder = new_run(projects["sd15"], case, device, **(QUIET | ON_OTHERS[device]))
    with pretend.accelerator(name={"mps": "mps:0"}.get(device, device)) as gpu:
        assert train(folder) == 0
    assert gpu.peak > 0
