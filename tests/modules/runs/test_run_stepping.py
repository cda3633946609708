"""Whole runs with what moves weights: rounding, the step in backward, averages, ends."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends

from modules.jobs.train import train
from modules.training.checkpoints import EMA_FILE, WEIGHTS_FILE
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths
from onetrainer.run.checkpoint_files import state_content
from onetrainer.run.events import Progress, Warned
from onetrainer.run.run_folder import STATE_FILE, create_run
from tests import runs
from tests.close import near
from tests.stepping import equal

pytestmark = pytest.mark.slow

FULL = {
    "method": {"kind": "full", "weights": "bf16", "stochastic_rounding": True, "targets": "attn"},
    "optimizer": {"kind": "adamw", "lr": 1e-3, "fused_backward": True},
    "training": {"steps": 6, "batch_size": 2, "gradient_clipping": 0.0},
    "ema": {"use": True, "every": 2},
    "schedule": {"kind": "constant", "warmup_steps": 4},
}
NO_SAMPLES = {"sampling": {"prompts": [], "every": 0, "at_start": False, "at_end": False}}


def new_run(config, changes):
    """A run of the project whose sections are replaced, not merged, where their kind changes."""
    document = load_document(config) | changes
    for section in ("training", "sampling"):
        document[section] = {**runs.SETTINGS[section], **changes.get(section, {})}
    resolved = with_absolute_paths(resolve(document, source=str(config)))
    folder = resolved.output.folder
    return create_run(Path(folder), name="run", config=resolved.model_dump(mode="json"))


def kept(folder, step, name=WEIGHTS_FILE):
    return load_file(folder.checkpoint(step) / name)


def test_a_run_in_backward_that_died_resumes_to_the_same_weights_and_average(config, crash_in):
    straight = new_run(config, FULL | NO_SAMPLES)
    assert train(straight) == 0
    died = new_run(config, FULL | NO_SAMPLES)
    crash_in(died, 5)
    assert train(died) == 0
    for name in (WEIGHTS_FILE, EMA_FILE):
        assert equal(kept(died, 6, name), kept(straight, 6, name))
        # The warm-up is over only after the resume: a stale rate would have stayed small.
        assert not equal(kept(died, 6, name), kept(died, 3, name))


def test_an_average_is_what_the_file_holds_and_may_be_switched_on_later(config):
    changes = {"ema": {"use": True, "decay": 0.5}, "training": {"steps": 4, "batch_size": 2}}
    folder = new_run(config, changes | NO_SAMPLES)
    assert train(folder) == 0
    output = load_file(folder.output / "my-lora.safetensors")
    average = kept(folder, 4, EMA_FILE)
    common = [name for name in average if name in output]
    assert common
    assert all(output[name].equal(average[name]) for name in common)
    (folder.checkpoint(4) / EMA_FILE).unlink()
    state = folder.checkpoint(4) / STATE_FILE
    record = json.loads(state.read_text())
    digests = {name: value for name, value in record.pop("files").items() if name != EMA_FILE}
    del record["sha256"]
    state.write_bytes(state_content(record, digests))
    document = json.loads(folder.config.read_text())
    document["training"]["steps"] = 5
    folder.config.write_text(json.dumps(document))
    assert train(folder) == 0
    texts = [event.text for event in runs.events_of(folder) if isinstance(event, Warned)]
    assert any("no EMA" in text for text in texts)


def test_an_adaptive_rate_is_reported_as_it_really_is(config):
    changes = {
        "optimizer": {"kind": "prodigy"},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "training": {"steps": 6, "batch_size": 2},
    }
    folder = new_run(config, changes | NO_SAMPLES)
    assert train(folder) == 0
    rates = [event.lr for event in runs.events_of(folder) if isinstance(event, Progress)]
    assert rates[0] == near(1e-6)  # Prodigy's first guess
    assert rates[-1] > 2 * rates[0]


def test_a_run_scales_its_rate_with_the_batch_and_limits_the_norm_of_changes(config):
    changes = {
        "method": {"max_norm": 0.05},
        "optimizer": {"kind": "adamw", "lr": 0.01},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "training": {"steps": 3, "batch_size": 2, "accumulation": 2, "lr_scaling": "linear"},
    }
    folder = new_run(config, changes | NO_SAMPLES)
    assert train(folder) == 0
    assert {e.lr for e in runs.events_of(folder) if isinstance(e, Progress)} == {0.04}
    (file,) = folder.output.glob("*.safetensors")
    state = load_file(file)
    norms = [
        float((state[up].flatten(1) @ state[up.replace("lora_up", "lora_down")].flatten(1)).norm())
        * float(state[up.replace("lora_up.weight", "alpha")]) / state[up].shape[1]
        for up in state if up.endswith("lora_up.weight")
    ]  # fmt: skip
    assert max(norms) == pytest.approx(0.05, rel=1e-2)  # the file is in half precision


def test_a_run_tries_its_attention_kernel_first_and_leaves_the_process_as_it_was(
    config, monkeypatch
):
    seen, usual = [], _cur_sdpa_kernel_backends(with_priority=True)

    def look(run):
        seen.append(_cur_sdpa_kernel_backends(with_priority=True))
        return 0

    monkeypatch.setattr("modules.jobs.train._prepare_and_train", look)
    for kernel in ("auto", "flash", "efficient", "cudnn"):
        train(new_run(config, {"hardware": {"attention": kernel}}))
        assert _cur_sdpa_kernel_backends(with_priority=True) == usual
    first = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    assert [order[0] for order in seen[1:]] == first and seen[0] == usual
    assert all(order[-1] == SDPBackend.MATH and len(order) == 4 for order in seen[1:])
