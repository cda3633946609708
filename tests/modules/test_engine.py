"""The engine's steps against torch's own loss scale, and what they ask the device."""

import torch
from torch import nn

from onetrainer.config.optimizers.adam import AdamW
from tests import pretend
from tests.close import ROUNDINGS, close
from tests.each import each
from tests.stepping import CPU, Training, equal

CUDA = torch.device("cuda")


def reference(steps, *, microbatches, clipping, wrong_step):
    """The same training, as torch's documentation writes it with a GradScaler."""
    made = Training(AdamW())
    optimizer = torch.optim.AdamW(
        [
            {"params": list(group.parameters.values()), "lr": group.lr or AdamW().lr}
            for group in made.parameter_groups()
        ],
        fused=True,
    )
    scaler = torch.amp.GradScaler("cpu")
    for step in range(steps):
        for number in range(microbatches):
            scaler.scale(_loss(made, step, number, wrong_step)).backward()
        scaler.unscale_(optimizer)
        if clipping:
            nn.utils.clip_grad_norm_(made.updater.parameters, clipping)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return made.snapshot(), scaler.state_dict()


def _loss(made, step, number, wrong_step):
    return made.loss(10 * step + number) * (float("inf") if step == wrong_step else 1.0)


@each("microbatches, clipping, wrong_step", [(1, 0.0, None), (3, 0.05, 1), (1, 0.05, None)])
def test_fp16_steps_are_those_of_torchs_own_loss_scale(microbatches, clipping, wrong_step):
    made = Training(AdamW(), precision="fp16", clipping=clipping)
    for step in range(3):
        made.engine.begin(step)
        for number in range(microbatches):
            made.engine.backward(_loss(made, step, number, wrong_step))
        made.engine.clip_gradients()
        made.engine.step()
    weights, scale = reference(
        3, microbatches=microbatches, clipping=clipping, wrong_step=wrong_step
    )
    # Clipping divides here, and multiplies in torch: the last bit of a gradient may differ.
    close(made.snapshot(), weights, roundings=ROUNDINGS if clipping else 0)
    assert made.engine.state_dict() == scale


def test_clipping_changes_what_is_trained_in_fp16():
    # The test above would notice a step without it.
    one, other = (
        Training(AdamW(), precision="fp16", clipping=clipping).run(0, 3) for clipping in (0, 0.05)
    )
    assert not equal(one.snapshot(), other.snapshot())


@each(
    ("precision", "in_backward", "reads"),
    [
        ("bf16", False, 0),
        ("fp16", False, 1),
        ("bf16", True, 0),
        ("fp16", True, 1),
    ],
)
def test_a_step_asks_the_device_once_in_fp16_and_else_never(precision, in_backward, reads):
    with pretend.accelerator() as gpu:
        made = Training(
            AdamW(),
            precision=precision,
            in_backward=in_backward,
            clipping=0.0 if in_backward else 1.0,
            device=CUDA,
        ).run(0, 2)
        made.engine.begin(2)
        loss = made.loss(2)
        gpu.syncs.clear()
        made.engine.backward(loss)
        made.engine.clip_gradients()
        made.engine.step()
        assert len(gpu.syncs) == reads, gpu.syncs


def test_a_step_on_the_gpu_gives_the_processors_weights():
    with pretend.accelerator():
        gpu = Training(AdamW(), precision="fp16", clipping=1.0, device=CUDA).run(0, 3)
        found = {name: weight.cpu() for name, weight in gpu.snapshot().items()}
    host = Training(AdamW(), precision="fp16", clipping=1.0, device=CPU).run(0, 3)
    assert equal(found, host.snapshot())


def test_a_loss_scale_of_torchs_own_is_taken_up_from_old_checkpoints():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**9)
    scaler.scale(torch.ones(()))
    made = Training(AdamW(), precision="fp16")
    made.engine.load_state_dict(scaler.state_dict())
    assert made.engine.state_dict() == scaler.state_dict()


@each("precision", ["fp32", "bf16"])
def test_other_precisions_have_no_scale_and_pass_over_one(precision):
    made = Training(AdamW(), precision=precision)
    assert made.engine.state_dict() == {}
    made.engine.load_state_dict(torch.amp.GradScaler("cpu").state_dict())
    assert made.engine.state_dict() == {}
