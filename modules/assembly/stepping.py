"""How a run computes its steps: as recordings or operation by operation, compiled or not."""

import importlib.util

from modules.assembly.method import Attached
from modules.assembly.optimizer import Optimization
from modules.assembly.run_context import Run
from modules.assembly.sharding import is_sharded
from modules.data.loader import Loader
from modules.memory.compiled import compile_blocks
from modules.objectives.inputs import Inputs, Objective
from modules.optim.learning_rate import keep_lr_in_memory
from modules.stepping.captured import CapturedStep
from modules.stepping.eager import EagerStep, Step
from modules.stepping.recordings import recorder_for
from modules.training.accumulation import Accumulation
from modules.training.checkpoints import TrainState
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.low_rank import LowRank
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.caption_caching import encodes_text_each_step


def step_of(
    run: Run,
    attached: Attached,
    objective: Objective,
    made: Optimization,
    state: TrainState,
    loader: Loader[Inputs],
) -> Step:
    """Return what computes the run's steps; call it after the checkpoint is restored."""
    accumulate = Accumulation(run.world, loader, made.engine, attached.sharding)
    eager = EagerStep(state, objective, attached.method, made.engine, accumulate)
    if not run.config.hardware.capture:
        return eager
    recorder = recorder_for(run.device)
    reason = capture_refusal(run.config)
    if not run.world.is_alone:
        reason = "several processes add their gradients in between"
    if recorder is None:
        reason = f"{run.device} has no recordings; GPUs of NVIDIA and AMD have"
    if recorder is None or reason:
        run.warn(f"steps are not captured (hardware.capture): {reason}")
        return eager
    scale = "the loss scale of fp16 is decided on the host" if made.engine.state_dict() else ""
    if reads := scale or made.updater.reads:
        run.warn(f"the optimizer's steps are not captured (hardware.capture): {reads}")
    else:
        keep_lr_in_memory(made.optimizer, run.device)
    return CapturedStep(eager, loader, recorder, records_update=not reads, report=run.warn)


def capture_refusal(config: TrainConfig) -> str:
    """Return why no step of a config can be recorded, in words; empty if some can."""
    hardware, method = config.hardware, config.method
    if isinstance(config.objective, Slider):
        return "concept sliders generate images in every step"
    if encodes_text_each_step(config):
        return "captions are encoded in every step"
    if config.optimizer.is_fused:
        return "a fused backward pass updates weights one by one"
    if hardware.offload_layers or hardware.offload_activations:
        return "offloaded layers and activations are copied from RAM"
    if hardware.quantization == "nf4":
        return "nf4 is computed by a library that may wait for the GPU"
    if not isinstance(method, AdapterSection):
        return ""
    if isinstance(method, LowRank) and method.module_dropout:
        return "module dropout is decided on the host"
    drops = isinstance(method, LowRank) and (method.dropout or method.rank_dropout)
    if drops and hardware.gradient_checkpointing != "off":
        return "gradient checkpointing restores the random state of dropout on the host"
    return ""


def compile_unet(run: Run, attached: Attached) -> None:
    """Compile the UNet's blocks if the config asks for it; call it before layers are managed."""
    hardware = run.config.hardware
    if not hardware.compile:
        return
    reason = ""
    if hardware.gradient_checkpointing != "off":
        reason = "checkpointed blocks are computed in another thread, too"
    elif hardware.offload_layers or hardware.offload_activations:
        reason = "offloaded blocks change their memory"
    elif is_sharded(run):
        reason = "sharded blocks change their memory"
    elif hardware.quantization != "none":
        reason = "quantized layers are computed by other libraries"
    elif run.device.type != "cuda" or importlib.util.find_spec("triton") is None:
        reason = f"it needs a GPU with Triton, and this is {run.device}"
    if reason:
        run.warn(f"blocks are not compiled (hardware.compile): {reason}")
    else:
        compile_blocks(attached.family.layers()["unet"])
