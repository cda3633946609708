"""What a checkpoint holds of an optimizer: everything it has written, and none of its settings."""

import itertools
import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from modules.optim.learning_rate import effective_lr
from modules.optim.optimizer_state import OptimizerProgress
from modules.training.checkpoint_record import find_restore_point
from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative
from onetrainer.config.optimizers.adam import AdamW, Sgd
from onetrainer.config.optimizers.adaptive import Prodigy, ProdigyScheduleFree
from onetrainer.config.optimizers.momentum import Lion
from onetrainer.run.run_folder import create_run
from tests.each import each, few_each
from tests.stepping import SECTIONS, Training, equal


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, name="run", config={})


def resumed(folder, section, **options):
    """A training that takes the newest checkpoint up, from other weights."""
    made = Training(section, **options, seed=1)
    return made, made.checkpoints(folder).restore(find_restore_point(folder).record)


ROUNDED = {"dtype": torch.bfloat16, "rounding_seed": 7}
FORMATS = {"fp32": {}, "bf16": {"dtype": torch.bfloat16}, "rounded": ROUNDED}
MORE = [
    (AdamW(lr=0.01), {**ROUNDED, "ema": True, "in_backward": True}),
    (Lion(), {"ema": True}),
    (AdamW(), {"precision": "fp16"}),
]
CASES = [*itertools.product(SECTIONS, FORMATS.values()), *MORE]
# All in fp32, three in every format, and the rest in long runs.
FEW = [
    (section, options)
    for section, options in CASES
    if not options or section.kind in ("adamw", "prodigy", "adamw8bit") or "ema" in options
]


@few_each(("section", "options"), CASES, FEW)
def test_ten_steps_equal_five_and_five_after_a_checkpoint(tmp_path, section, options):
    folder = create_run(tmp_path, name="run", config={})
    whole = Training(section, **options).run(0, 5)
    whole.save(folder, 5)
    for step in range(5, 10):
        whole.step(step)
    other, _ = resumed(folder, section, **options)
    other.run(5, 10)
    assert equal(other.snapshot(), whole.snapshot())
    assert other.engine.state_dict() == whole.engine.state_dict()
    if "ema" in options:
        assert equal(other.ema.state_dict(), whole.ema.state_dict())
        assert not equal(other.ema.state_dict(), whole.snapshot())


def test_settings_are_those_of_the_config(folder):
    Training(Prodigy(weight_decay=0.1)).run(0, 5).save(folder, 5)
    other, _ = resumed(folder, Prodigy(weight_decay=0.2, beta1=0.8))
    for group in other.optimizer.param_groups:
        assert (group["weight_decay"], group["betas"][0]) == (0.2, 0.8)


def test_the_estimate_of_the_rate_is_taken_up_and_reported(folder):
    made = Training(Prodigy()).run(0, 6)
    made.save(folder, 6)
    group = made.optimizer.param_groups[0]
    assert group["d"] > group["d0"]
    other, _ = resumed(folder, Prodigy())
    assert other.optimizer.param_groups[0]["d"] == group["d"]
    other.optimizer.param_groups[0]["lr"] = 0.5
    assert float(effective_lr(other.optimizer)) == 0.5 * group["d"]
    other.optimizer.param_groups[0] |= {"shared_d": torch.tensor(0.0), "lr": 1.0}
    assert float(effective_lr(other.optimizer)) == 0


def test_another_optimizer_starts_again_and_says_so(folder):
    Training(AdamW()).run(0, 3).save(folder, 3)
    other, messages = resumed(folder, Lion())
    assert "AdamW" in messages[0]
    assert not other.optimizer.state
    other.run(3, 4)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (Adafactor(), Adafactor(beta1=0.9), "betas"),
        (Adafactor(beta1=0.9), Adafactor(), "betas"),
        (
            Adafactor(beta1=0.9),
            AdafactorRelative(beta1=0.9, scale_parameter=False),
            "relative_step",
        ),
        (ProdigyScheduleFree(), ProdigyScheduleFree(factored=False), "factored"),
    ],
    ids=lambda section: section if isinstance(section, str) else section.kind,
)
def test_settings_that_shape_what_is_remembered_start_again_and_say_so(
    folder, before, after, named
):
    Training(before).run(0, 3).save(folder, 3)
    other, messages = resumed(folder, after)
    assert len(messages) == 1
    assert f"({named})" in messages[0]
    assert "reset" in messages[0]
    assert not other.optimizer.state
    other.run(3, 5)


def test_settings_that_are_only_larger_or_smaller_keep_what_is_remembered(folder):
    Training(Adafactor(beta1=0.9)).run(0, 3).save(folder, 3)
    other, messages = resumed(folder, Adafactor(beta1=0.8, beta2=0.9, weight_decay=0.1))
    assert messages == []
    assert other.optimizer.state
    other.run(3, 5)


def test_a_mean_of_updates_that_was_kept_in_bfloat16_goes_on_in_float32(folder):
    before = Training(Adafactor(beta1=0.9))
    before.optimizer.momentum_dtype = torch.bfloat16
    before.run(0, 3).save(folder, 3)
    other, messages = resumed(folder, Adafactor(beta1=0.9))
    other.run(3, 5)
    assert messages == []
    assert {state["exp_avg"].dtype for state in other.optimizer.state.values()} == {torch.float32}


def test_paged_state_is_restored_into_memory_of_the_optimizer():
    asked = []

    class Paged(torch.optim.SGD):
        """As bitsandbytes has them, on a device that is no processor."""

        is_paged = True

        def get_state_buffer(self, p, dtype):
            asked.append((p.shape, dtype))
            return torch.zeros_like(p, dtype=dtype)

    weight = nn.Parameter(torch.zeros(3, device="meta"))
    progress = OptimizerProgress(optimizer := Paged([weight]), {"a": weight})
    optimizer.state[weight] = {"step": 1, "state1": torch.zeros(3, dtype=torch.uint8)}
    tensors, document = progress.save()
    progress.load(tensors, document)
    assert asked == [((3,), torch.uint8)]
    assert optimizer.state[weight]["state1"].device.type == "meta"


def test_progress_belongs_to_names_and_not_to_places():
    # A changed config may split a network into groups, or put it behind another.
    def made(order, fill):
        weights = {name: nn.Parameter(torch.full((2,), fill)) for name in "ab"}
        optimizer = torch.optim.AdamW([{"params": [weights[name]]} for name in order])
        return weights, optimizer, OptimizerProgress(optimizer, weights)

    weights, optimizer, progress = made("ab", 1.0)
    for group, (name, weight) in zip(optimizer.param_groups, weights.items(), strict=True):
        weight.grad = torch.full_like(weight, ord(name))
        group["k"] = name
    optimizer.step()
    others, other, restored = made("ba", 2.0)
    restored.load(*progress.save())
    assert [group["k"] for group in other.param_groups] == ["b", "a"]
    for name, weight in others.items():
        assert equal(other.state[weight], optimizer.state[weights[name]])


def test_tied_tensors_are_saved_once_and_stay_tied(folder):
    section = next(section for section in SECTIONS if section.kind == "adamw8bit")
    made = Training(section).run(0, 1)
    tensors, _ = made.progress.save()
    assert len({tensor.data_ptr() for tensor in tensors.values()}) == len(tensors)


def test_checkpoints_from_before_groups_had_progress_still_load(folder):
    made = Training(AdamW(lr=0.01)).run(0, 3)
    made.save(folder, 3)
    path = folder.checkpoint(3)
    # As they were: numbers in the optimizer's order, and the step as the only plain value.
    state = made.optimizer.state_dict()["state"]
    tensors = {
        f"{number}.{name}": value.clone()
        for number, values in state.items()
        for name, value in values.items()
    }
    assert set(load_file(path / "optimizer.safetensors")) != set(tensors)
    other = Training(AdamW(lr=0.01), seed=1)
    other.load_state_dict(made.state_dict())
    assert other.progress.load(tensors, {}) == []
    assert equal(other.run(3, 6).snapshot(), made.run(3, 6).snapshot())


@each(
    "document",
    [
        {"layout": 2, "optimizer": "AdamW"},
        {"layout": 2, "optimizer": "AdamW", "state": {"first.weight": 3}, "groups": []},
        {"layout": 2, "optimizer": "AdamW", "state": {"other": {"map": {}}}, "groups": []},
        {
            "layout": 2,
            "optimizer": "AdamW",
            "state": {"first.weight": {"tensor": "x"}},
            "groups": [],
        },
    ],
)
def test_what_does_not_fit_is_refused(document):
    with pytest.raises((ValueError, KeyError, TypeError)):
        Training(AdamW()).progress.load({}, json.loads(json.dumps(document)))


@each("name", ["os:system", "torchao.optim:AdamW4bit", "builtins:eval"])
def test_a_file_cannot_name_a_class_that_is_no_known_tensor(name):
    state = {"first.weight": {"map": {"x": {"class": name, "parts": {}, "context": []}}}}
    with pytest.raises(ValueError, match="tensor class"):
        Training(Sgd()).progress.load(
            {}, {"layout": 2, "optimizer": "SGD", "state": state, "groups": []}
        )
