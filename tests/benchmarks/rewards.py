"""Reward training compared with plainer loops in the same run, and its memory by K.

    python -m tests.benchmarks.rewards [--memory]

"sampling": UNet calls per second of the steps without a gradient, of the real rollout with merged
adapters, as a fraction of a bare loop over diffusers' own scheduler and UNet, without adapters and
with separate adapters. "updates": updates per second of the real objective, as a fraction of
the straightforward loop: autograd and checkpoints through every step with a `detach` at the cut,
two calls for guidance, separate adapters. All on one thread, in turns, in processor
seconds, so that a busy machine gives the same.
"memory": the peak of an update of a full-sized SD 1.5 on the pretended GPU, by K, with each step
checkpointed and without. Tensors have shapes there, and no numbers.
"""

import argparse
import gc
import json
import sys
from collections.abc import Callable
from statistics import median
from time import process_time
from unittest.mock import patch

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from modules.data.prompts import time_ids_of
from modules.families.load import empty
from modules.interfaces import Conditioning, PromptBatch
from modules.memory.precision import autocast
from modules.memory.residency import move_module
from modules.methods.adapters.adapters import Adapters
from modules.objectives.alignprop import AlignProp
from modules.objectives.denoising import Denoising
from modules.rewards.measures import Measure, brightness
from modules.rewards.mixer import Mixer, NamedReward
from modules.sampling.rollout import Rollout, untrained
from onetrainer.config.methods.low_rank import Lora
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.rewards.alignprop import AlignProp as Section
from onetrainer.families.registry import family_spec
from tests import pretend, tiny
from tests.batches import loss_of
from tests.own_user import own_user

CPU, CARD = torch.device("cpu"), torch.device("cuda")
MIB = 1 << 20
STEPS, GUIDANCE, TURNS = 20, 5.0, 5
THROUGH = (1, 10)
"""K, of STEPS: DRaFT-1, and about the mean of a random fraction."""
WIDTHS = {"tiny": [8, 12, 16, 16], "medium": [32, 64, 96, 96]}
SIDES = {"tiny": 64, "medium": 128}  # pixels
MEMORY_STEPS, MEMORY_THROUGH, MEMORY_SIDE = 10, (1, 2, 5, 10), 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true", help="only memory")
    torch.set_num_threads(1)
    if not parser.parse_args().memory:
        for size in WIDTHS:
            _report(sampling(size))
            for last_steps in THROUGH:
                _report(updates(size, last_steps))
    _report(memory())


def sampling(size: str) -> dict[str, object]:
    """UNet calls per second without a gradient."""
    given, plain, separate = _Given(size), _Given(size, has_adapters=False), _Given(size)
    loops: dict[str, Callable[[], object]] = {
        "ours": lambda: given.sample(given.adapters.merged),
        "bare": lambda: plain.bare_sample(),
        "bare with adapters": lambda: separate.bare_sample(),
    }
    times = _in_turns(loops)
    return {
        "benchmark": "sampling",
        "size": size,
        "calls_per_second": round(STEPS / median(times["ours"]), 1),
        "fraction_of_bare": _fraction(times, "bare"),
        "fraction_of_bare_with_adapters": _fraction(times, "bare with adapters"),
    }


def updates(size: str, last_steps: int) -> dict[str, object]:
    """Updates per second: forward, backward and a step."""
    ours, plain = _Given(size), _Given(size)
    times = _in_turns(
        {
            "ours": lambda: ours.update(last_steps),
            "straightforward": lambda: plain.straightforward_update(last_steps),
        }
    )
    return {
        "benchmark": "updates",
        "size": size,
        "through": f"{last_steps} of {STEPS}",
        "seconds": round(median(times["ours"]), 3),
        "fraction_of_straightforward": _fraction(times, "straightforward"),
    }


def memory() -> dict[str, object]:
    """Peaks in MiB, less what lies there anyway."""
    return {
        "benchmark": "memory",
        "steps": MEMORY_STEPS,
        **{
            name: {through: peak(through, is_checkpointed=own) for through in MEMORY_THROUGH}
            for name, own in (("checkpointed", True), ("not", False))
        },
    }


def peak(last_steps: int, *, is_checkpointed: bool) -> int:
    """The peak of an update of SD 1.5 on the pretended GPU, less what lies there anyway, MiB."""
    gc.collect()
    with pretend.accelerator(storage="meta") as gpu:
        dtypes = {"unet": torch.bfloat16, "vae": torch.float32, "te": torch.bfloat16}
        family = empty(family_spec("sd15"), dtypes=dtypes)
        adapters = Adapters.attach(family, Lora(rank=4, alpha=4.0), seed=0)
        for part in (family.unet, family.vae, adapters.extra_modules()):
            move_module(part, CARD)
        objective = _objective(
            family,
            adapters,
            steps=MEMORY_STEPS,
            last_steps=last_steps,
            is_checkpointed=is_checkpointed,
            device=CARD,
        )
        adapters.train(True)
        before = gpu.allocated
        batch = _batch(family, (MEMORY_SIDE, MEMORY_SIDE), tokens=77)
        gpu.reset_peak()
        with autocast(CARD, "bf16"):
            loss = loss_of(objective, batch, seed=0, step=0, device=CARD)
        loss.value.backward()
        return (gpu.peak - before) // MIB


class _Given:
    """A model with adapters, a prompt, and what trains on it."""

    def __init__(self, size: str, *, has_adapters: bool = True) -> None:
        with patch.dict(tiny.configs("sd15")["unet"], {"block_out_channels": WIDTHS[size]}):
            self.family = tiny.family()
        self.side = SIDES[size]
        section = Lora(rank=4, alpha=4.0)
        if has_adapters:
            self.adapters = Adapters.attach(self.family, section, seed=0)
            self.adapters.train(True)
            groups = self.adapters.parameter_groups()
            self.weights = [weight for group in groups for weight in group.parameters.values()]
            self.optimizer = torch.optim.AdamW(self.weights, fused=True)
        with torch.no_grad():
            texts = self.family.encode_text(["a red square", ""])
        self.prompt, self.empty = (Conditioning(row[None]) for row in texts.hidden)
        self.objectives: dict[int, AlignProp] = {}
        self.step = 0

    def sample(self, inference_mode: Callable) -> Tensor:
        """A sample from the real rollout."""
        rollout = _rollout(self.family, steps=STEPS, device=CPU)
        with torch.no_grad():
            return rollout.generate(
                self.start(),
                conditioning=self.prompt,
                empty=self.empty,
                time_ids=time_ids_of((self.side, self.side), 1),
                trajectories=[untrained(STEPS)],
                noise=lambda _, __: self.start()[0],
                inference_mode=inference_mode,
            )

    @torch.no_grad()
    def bare_sample(self) -> Tensor:
        """The same by diffusers' scheduler and UNet, both halves of guidance in one call."""
        scheduler, unet = self.scheduler(), self.family.unet
        assert isinstance(unet, UNet2DConditionModel)
        unet.eval()
        latents, texts = self.start(), torch.cat([self.empty.hidden, self.prompt.hidden])
        for timestep in scheduler.timesteps:
            both = unet(torch.cat([latents, latents]), timestep, texts).sample
            without, prompted = both.chunk(2)
            guided = without + GUIDANCE * (prompted - without)
            latents = scheduler.step(guided, timestep, latents, eta=1.0).prev_sample
        return latents

    def update(self, last_steps: int) -> None:
        """An update by the real objective."""
        if last_steps not in self.objectives:
            self.objectives[last_steps] = _objective(
                self.family, self.adapters, steps=STEPS, last_steps=last_steps, device=CPU
            )
        batch = _batch(self.family, (self.side, self.side))
        loss_of(self.objectives[last_steps], batch, seed=0, step=self.step).value.backward()
        self.move()

    def straightforward_update(self, last_steps: int) -> None:
        """An update by autograd through everything that is run, detached before the last steps."""
        scheduler, unet, vae = self.scheduler(), self.family.unet, self.family.vae

        def predicted(latents: Tensor, timestep: Tensor, texts: Tensor) -> Tensor:
            return checkpoint(
                lambda *given: unet(*given).sample, latents, timestep, texts, use_reentrant=False
            )

        latents = self.start().requires_grad_()  # as checkpoints of then ask for it
        for number, timestep in enumerate(scheduler.timesteps):
            if number == STEPS - last_steps:
                latents = latents.detach()
            without = predicted(latents, timestep, self.empty.hidden)
            prompted = predicted(latents, timestep, self.prompt.hidden)
            guided = without + GUIDANCE * (prompted - without)
            latents = scheduler.step(guided, timestep, latents, eta=1.0).prev_sample
        factor = vae.config.scaling_factor
        image = checkpoint(lambda own: vae.decode(own / factor).sample, latents,
                             use_reentrant=False)  # fmt: skip
        (-brightness(((image + 1) / 2).clamp(0, 1)).sum()).backward()
        self.move()

    def move(self) -> None:
        """The optimizer's step."""
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1

    def start(self) -> Tensor:
        """Noise to begin with."""
        return torch.randn(1, 4, self.side // 8, self.side // 8)

    def scheduler(self) -> DDIMScheduler:
        """Of diffusers, as the rollout goes."""
        made = self.family.process.scheduler("ddim", STEPS)
        assert isinstance(made, DDIMScheduler)
        return made


def _rollout(
    family: object, *, steps: int, device: torch.device, is_checkpointed: bool = True
) -> Rollout:
    return Rollout(
        family,
        steps=steps,
        eta=1.0,
        guidance=GUIDANCE,
        checkpoint=is_checkpointed,
        train_device=device,
        offload_device=CPU,
    )


def _objective(
    family: object,
    adapters: Adapters,
    *,
    steps: int,
    last_steps: int,
    device: torch.device,
    is_checkpointed: bool = True,
) -> AlignProp:
    mixer = Mixer([NamedReward("brightness", Measure(brightness))])
    section = Section.model_validate({"algorithm": {"kind": "draft", "last_steps": last_steps}})
    return AlignProp(
        family,
        section=section,
        mixer=mixer,
        rollout=_rollout(family, steps=steps, device=device, is_checkpointed=is_checkpointed),
        denoising=Denoising(family, section=DenoisingSection(), device=device),
        device=device,
        merged=adapters.merged,
    )


def _batch(family: object, size: tuple[int, int], *, tokens: int = 0) -> PromptBatch:
    """A prompt. tokens: of an encoding without numbers; 0 encodes it."""
    if tokens:
        width = family.unet.config.cross_attention_dim
        texts = Conditioning(torch.zeros(2, tokens, width, dtype=torch.bfloat16))
    else:
        with torch.no_grad():
            texts = family.encode_text(["a red square", ""])
    prompt, empty = (Conditioning(row[None]) for row in texts.hidden)
    return PromptBatch(
        prompts=("a red square",),
        step_prompts=("a red square",),
        conditioning=prompt,
        empty=empty,
        time_ids=time_ids_of(size, 1),
        positions=(0,),
        weight=1.0,
        size=size,
    )


def _in_turns(loops: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Processor seconds of each loop, one after the other, again and again."""
    times: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(TURNS + 1):
        for name, run in loops.items():
            began = process_time()
            run()
            if turn:  # the first warms up
                times[name].append(process_time() - began)
    return times


def _fraction(times: dict[str, list[float]], other: str) -> float:
    """Our speed as a fraction of another's, the median of the turns."""
    pairs = zip(times[other], times["ours"], strict=True)
    return round(median(theirs / own for theirs, own in pairs), 3)


def _report(result: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with own_user():
        main()
