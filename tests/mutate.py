"""Plant faults in the source, one at a time, and see whether the tests find them.

`python -m tests.mutate`, or `make mutate`: each fault is planted in a copy of the project, and the
tests of the part that it is in are run. Prints a line each; the exit code is 1 where one of them
was not found.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from onetrainer import ROOT

NEVER_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")


@dataclass(frozen=True)
class Fault:
    """What is wrong, in which file, which text becomes which, and the tests that are to find it."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "the sign of the velocity target",
        "modules/diffusion/ddpm.py",
        "signal * noise - spread * latents",
        "signal * noise + spread * latents",
        (
            "tests/modules/diffusion",
            "tests/modules/objectives/test_denoising.py",
        ),
    ),
    Fault(
        "min-SNR weights are clamped from below",
        "modules/diffusion/weights.py",
        "(section.gamma / levels.snr).clamp(max=1)",
        "(section.gamma / levels.snr).clamp(min=1)",
        ("tests/modules/diffusion/test_weights.py",),
    ),
    Fault(
        "the weights are saved in place of their EMA",
        "modules/optim/ema.py",
        "return dict(self._averages)",
        "return dict(self._weights)",
        ("tests/modules/optim/test_ema.py",),
    ),
    Fault(
        "rounding to the nearest in place of stochastic",
        "modules/optim/stochastic_rounding.py",
        "each.round(noise)",
        "pass",
        ("tests/modules/optim/test_stochastic_rounding.py",),
    ),
    Fault(
        "guidance leads away from the prompt",
        "modules/sampling/sampler.py",
        "negative + guidance * (prompted - negative)",
        "negative - guidance * (prompted - negative)",
        ("tests/modules/sampling/test_sampler.py",),
    ),
    Fault(
        "the warm-up is a step too long",
        "onetrainer/schedules/learning_rate.py",
        "round(schedule.warmup_fraction * steps)",
        "round(schedule.warmup_fraction * steps) + 1",
        ("tests/onetrainer/schedules",),
    ),
    Fault(
        "a checkpoint without its state file counts",
        "onetrainer/run/run_folder.py",
        "if number.isdecimal() and (path / STATE_FILE).is_file():",
        "if number.isdecimal():",
        (
            "tests/onetrainer/run",
            "tests/modules/training/test_checkpoints.py",
        ),
    ),
    Fault(
        "a checkpoint's files are not compared with their digests",
        "onetrainer/run/checkpoint_files.py",
        "if found != expected:",
        "if not found:",
        ("tests/modules/training/test_damaged_checkpoints.py",),
    ),
    Fault(
        "a step that fails while it updates weights is saved",
        "modules/stepping/eager.py",
        "        self.state.is_whole = False\n",
        "",
        ("tests/modules/runs/test_run_failures.py",),
    ),
    Fault(
        "a file that was not written completely replaces the old one",
        "onetrainer/files/atomic.py",
        "        _replace(temporary, path)\n    finally:\n        with",
        "    finally:\n        _replace(temporary, path)\n        with",
        ("tests/onetrainer/files",),
    ),
    Fault(
        "the last event of each read is lost",
        "onetrainer/run/event_log.py",
        "[event for event in decoded if event is not None]",
        "[event for event in decoded if event is not None][:-1]",
        ("tests/onetrainer/run",),
    ),
    Fault(
        "one tag too many is kept in front",
        "onetrainer/captions/tags.py",
        "Tags(tags[: captions.keep], tags[captions.keep :])",
        "Tags(tags[: captions.keep + 1], tags[captions.keep + 1 :])",
        (
            "tests/onetrainer/captions",
            "tests/onetrainer/dataset/test_caption_sampling.py",
        ),
    ),
    Fault(
        "offloaded weights are not copied to the device",
        "modules/memory/layers/transfer.py",
        "return copy_to_device(tensor, self._train_device)",
        "return tensor.detach()",
        (
            "tests/modules/memory/layers/test_transfer.py",
            "tests/modules/memory/layers/test_offload.py",
        ),
    ),
    Fault(
        "gradients of offloaded weights stay on the device",
        "modules/memory/layers/offload.py",
        "transfer.all_to_host([each for each in gradients if each is not None])",
        "[each for each in gradients if each is not None]",
        (
            "tests/modules/memory/layers/test_transfer.py",
            "tests/modules/memory/layers/test_offload.py",
        ),
    ),
    Fault(
        "the highest validation loss is the best",
        "onetrainer/metrics/bands.py",
        "return min(history, key=lambda measurement: measurement.mean)",
        "return max(history, key=lambda measurement: measurement.mean)",
        ("tests/onetrainer/metrics/test_validation.py",),
    ),
    Fault(
        "the weight of a reward is forgotten",
        "modules/rewards/mixer.py",
        "return member.weight * (limited - mean) / deviation",
        "return (limited - mean) / deviation",
        ("tests/modules/rewards/test_mixer.py",),
    ),
    Fault(
        "prior images count in full",
        "modules/objectives/denoising.py",
        "*= self._prior.weight",
        "*= 1.0",
        ("tests/modules/objectives",),
    ),
    Fault(
        "the alpha of LoRA files is lost",
        "modules/methods/adapters/kind.py",
        "ALPHA: self.alpha.detach()}",
        "ALPHA: self.alpha.detach() * 0 + 1}",
        ("tests/modules/methods/adapters",),
    ),
    Fault(
        "a default learning rate is ten times as large",
        "onetrainer/config/optimizers/adam.py",
        '    lr: shared.Lr = 1e-4\n    """',
        '    lr: shared.Lr = 1e-3\n    """',
        ("tests/onetrainer/presets/test_settings_reference.py",),
    ),
    Fault(
        "fp16 is accepted with weights in bf16",
        "onetrainer/rules/full.py",
        'config.hardware.precision == "fp16"',
        'config.hardware.precision == "none"',
        ("tests/onetrainer/rules/test_data_rules.py",),
    ),
    Fault(
        "undo makes the change again",
        "ui/model/draft.py",
        "self._move_in_history(self._undo, self._redo)",
        "self._move_in_history(self._redo, self._undo)",
        ("tests/ui/model",),
    ),
    Fault(
        "a changed image file is taken for the known one",
        "onetrainer/images/image_index.py",
        "row[0] != stamp or ",
        "",
        ("tests/onetrainer/images",),
    ),
)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(ROOT, project, ignore=NEVER_COPIED)
        found = [_is_found(fault, project) for fault in FAULTS]
    sys.stdout.write(f"{sum(found)} of {len(found)} faults found\n")
    return 0 if all(found) else 1


def _is_found(fault: Fault, project: Path) -> bool:
    path = project / fault.file
    text = path.read_text("utf-8")
    if fault.old not in text:
        raise SystemExit(f"{fault.file} no longer has: {fault.old}")
    path.write_text(text.replace(fault.old, fault.new, 1), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no"]
    done = subprocess.run([*command, *fault.tests], cwd=project, capture_output=True, text=True)
    path.write_text(text, "utf-8")
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode not in (0, 1):
        raise SystemExit(f"{fault.what}: the tests could not be run: {last}")
    sys.stdout.write(f"{'found' if done.returncode else 'MISSED':7}{fault.what} ({last})\n")
    sys.stdout.flush()
    return done.returncode == 1


if __name__ == "__main__":
    raise SystemExit(main())
