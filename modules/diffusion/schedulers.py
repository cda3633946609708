"""The samplers: diffusers' schedulers, configured like those of inference programs.

Euler, Euler a and DPM++ have the timesteps of k-diffusion (evenly spaced from the last to the first
one, then no noise at all), which AUTOMATIC1111's web UI and ComfyUI call "uniform" and "normal";
Karras' spacing: Karras et al. 2022, arXiv:2206.00364, equation 5. DDIM follows Stable Diffusion's
own scheduler config: "leading", offset by one, ending at the noise of the first timestep.
With zero terminal SNR timesteps are "trailing", since they must include the last one: Lin et al.
2023, arXiv:2305.08891, section 3.3.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

# The modules themselves: `from diffusers import …` would also import every pipeline.
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from diffusers.schedulers.scheduling_dpmsolver_multistep import DPMSolverMultistepScheduler
from diffusers.schedulers.scheduling_euler_ancestral_discrete import (
    EulerAncestralDiscreteScheduler,
)
from diffusers.schedulers.scheduling_euler_discrete import EulerDiscreteScheduler
from diffusers.schedulers.scheduling_lcm import LCMScheduler
from diffusers.schedulers.scheduling_unipc_multistep import UniPCMultistepScheduler
from torch import Tensor

from modules.diffusion.sampling_steps import SamplingStep
from modules.diffusion.schedule import ScheduleSettings
from onetrainer.config.run.sampling import SamplerName
from onetrainer.errors import UserError
from onetrainer.families.spec import Prediction

FLOW_SAMPLERS: tuple[SamplerName, ...] = ("ddim", "euler", "dpmpp_2m", "unipc")
LCM_STEPS = 50  # of the teacher that LCMs are distilled from: Luo et al. 2023, arXiv:2310.04378


class StepOutput(Protocol):
    """The result of a diffusers scheduler's step; prev_sample: the less noisy latents."""

    prev_sample: Tensor


class Scheduler(Protocol):
    """What the sampler uses of a diffusers scheduler; those of diffusers have no types.

    timesteps: (steps,), on the CPU, from most to least noisy; fractional for some samplers.
    init_noise_sigma: the standard deviation that the initial noise must have.
    """

    config: Any
    timesteps: Tensor

    @property
    def init_noise_sigma(self) -> float | Tensor: ...
    def scale_model_input(self, sample: Tensor, timestep: Tensor) -> Tensor: ...
    def step(
        self,
        model_output: Tensor,
        timestep: Tensor,
        sample: Tensor,
        *,
        generator: list[torch.Generator],
    ) -> StepOutput: ...


def ddpm_scheduler(
    name: SamplerName, settings: ScheduleSettings, prediction: Prediction, *, steps: int
) -> Scheduler:
    """Build the sampler's scheduler for a model's noise schedule, ready for an image.

    Raises:
        UserError: The sampler does not support this number of steps.
    """
    common = {
        "num_train_timesteps": settings.steps,
        "beta_start": settings.beta_start,
        "beta_end": settings.beta_end,
        "beta_schedule": "scaled_linear",
        "prediction_type": prediction,
        "rescale_betas_zero_snr": settings.zero_terminal_snr,
    }
    with _known_warnings():
        scheduler = _make(name, common, has_zero_snr=settings.zero_terminal_snr)
        _set_steps(scheduler, steps)
    if not isinstance(scheduler, DDIMScheduler):
        # Otherwise the first of two equal timesteps is skipped: Karras' are rounded.
        scheduler.set_begin_index(0)
    if settings.zero_terminal_snr:
        assert int(scheduler.timesteps[0]) == settings.steps - 1, "no timestep of noise alone"
    return scheduler


class DiffusersScheduler(Scheduler, Protocol):
    """A scheduler of diffusers before its steps are set."""

    def set_timesteps(self, num_inference_steps: int) -> None: ...
    def set_begin_index(self, begin_index: int) -> None: ...


@dataclass
class Less:
    """Less noisy latents."""

    prev_sample: Tensor


class FlowEuler:
    """Euler's method along a flow, through given steps, with the interface of diffusers'."""

    config: Any = None
    init_noise_sigma = 1.0

    def __init__(self, steps: Sequence[SamplingStep]) -> None:
        self.timesteps = torch.tensor([step.timestep for step in steps])
        self._rest = iter(steps)

    def scale_model_input(self, sample: Tensor, _timestep: Tensor) -> Tensor:
        return sample

    def step(
        self,
        model_output: Tensor,
        _timestep: Tensor,
        sample: Tensor,
        *,
        generator: list[torch.Generator],  # as diffusers' schedulers
    ) -> Less:
        return Less(next(self._rest).next(sample, model_output, None))


def flow_scheduler(
    name: SamplerName, steps: Sequence[SamplingStep], *, times: int, shift: float
) -> Scheduler:
    """Build the sampler's scheduler for a rectified flow, ready for an image.

    DDIM without new noise is Euler's method here.

    Args:
        name: The sampler.
        steps: Of the flow, for Euler's method.
        times: The timestep of noise alone.
        shift: Of the flow's timesteps.

    Raises:
        UserError: The sampler cannot follow a flow.
    """
    flow = {"use_flow_sigmas": True, "prediction_type": "flow_prediction", "flow_shift": shift}
    scheduler: Any
    match name:
        case "ddim" | "euler":
            return FlowEuler(steps)
        case "dpmpp_2m":
            scheduler = DPMSolverMultistepScheduler(num_train_timesteps=times, **flow)
        case "unipc":
            scheduler = UniPCMultistepScheduler(num_train_timesteps=times, **flow)
        case _:
            raise UserError(
                f'the sampler "{name}" cannot follow a flow, which this model predicts',
                f"Expected one of {', '.join(FLOW_SAMPLERS)}",
                'Choose "euler"',
            )
    with _known_warnings():
        scheduler.set_timesteps(len(steps))
    scheduler.set_begin_index(0)
    made: Scheduler = scheduler
    return made


def step(
    scheduler: Scheduler,
    predicted: Tensor,
    timestep: Tensor,
    latents: Tensor,
    generators: Sequence[torch.Generator],
) -> Tensor:
    """Run one step, and return the latents after it, (B, 4, h, w), float32.

    Args:
        scheduler: Of a noise process.
        predicted: For the scaled latents.
        timestep: One of the scheduler's own.
        latents: (B, 4, h, w).
        generators: One per image, from which stochastic samplers draw noise.
    """
    match scheduler:
        case UniPCMultistepScheduler():  # deterministic; takes no generator
            result = scheduler.step(predicted, timestep, latents)
        case _:
            result = scheduler.step(predicted, timestep, latents, generator=list(generators))
    latents_after: Tensor = result.prev_sample
    return latents_after


def _make(name: SamplerName, common: dict[str, Any], *, has_zero_snr: bool) -> DiffusersScheduler:
    even = common | {"timestep_spacing": "trailing" if has_zero_snr else "linspace"}
    scheduler: DiffusersScheduler
    match name:
        case "ddim":
            spacing = "trailing" if has_zero_snr else "leading"
            options = {"timestep_spacing": spacing, "steps_offset": 1, "set_alpha_to_one": False}
            scheduler = DDIMScheduler(**common, **options, clip_sample=False)
        case "euler":
            scheduler = EulerDiscreteScheduler(**even)
        case "euler_a":
            scheduler = EulerAncestralDiscreteScheduler(**even)
        case "dpmpp_2m" | "dpmpp_2m_karras" | "dpmpp_2m_sde" | "dpmpp_2m_sde_karras":
            scheduler = DPMSolverMultistepScheduler(
                **even,
                algorithm_type="sde-dpmsolver++" if "sde" in name else "dpmsolver++",
                use_karras_sigmas=name.endswith("karras"),
                final_sigmas_type="zero",
            )
        case "unipc":
            scheduler = UniPCMultistepScheduler(**even, final_sigmas_type="zero")
        case "lcm":
            scheduler = LCMScheduler(**common, original_inference_steps=LCM_STEPS)
    return scheduler


def _set_steps(scheduler: DiffusersScheduler, steps: int) -> None:
    last = scheduler.config.num_train_timesteps - 1
    match scheduler:
        case DDIMScheduler():
            scheduler.set_timesteps(steps)
            # With as many steps as there are timesteps the offset points past the table.
            scheduler.timesteps = scheduler.timesteps.clamp(max=last)
        case LCMScheduler():
            _require_at_most(LCM_STEPS, steps, "LCM")
            scheduler.set_timesteps(steps)
        case UniPCMultistepScheduler():
            _require_at_most(last, steps, "UniPC")
            scheduler.set_timesteps(steps)
        case DPMSolverMultistepScheduler(config=config) if (
            config.timestep_spacing == "linspace" and not config.use_karras_sigmas
        ):
            # Its own "linspace" has steps + 1 timesteps without the last one.
            timesteps = torch.linspace(last, 0, steps).round().int().tolist()
            scheduler.set_timesteps(timesteps=timesteps)
        case _:
            scheduler.set_timesteps(steps)


def _require_at_most(most: int, steps: int, name: str) -> None:
    if steps > most:
        raise UserError(
            f"{steps} sampling steps are too many for {name}",
            f"It supports at most {most}",
            "Lower the number of sampling steps or choose another sampler",
        )


@contextmanager
def _known_warnings() -> Iterator[None]:
    """Suppress numpy's warning about how diffusers 0.42 reads a tensor."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        yield
