"""Concept sliders from the config: batches, objective, evaluation."""

from functools import partial

import torch

from modules import seeds
from modules.assembly.inputs import Inputs
from modules.assembly.method import Attached
from modules.assembly.prompts import MixedBatches
from modules.assembly.rewards import LossSource
from modules.assembly.run_context import Run
from modules.data.prompts import EncodedPrompts
from modules.evaluation.slider import SliderEvaluation
from modules.memory.eval_mode import inference_mode
from modules.objectives.slider import Slider
from modules.optim.exported_weights import ExportedWeights
from modules.training.engine import Engine
from onetrainer.config.objectives.slider import Slider as Section
from onetrainer.run.events import Validated

CHECKS = 8
"""Latents that an evaluation measures, or one for each direction if there are more."""


def slider_objective(
    section: Section,
    attached: Attached,
    texts: EncodedPrompts | None,
    *,
    device: torch.device,
) -> Slider:
    """Return the objective of a slider; the rules let only adapters train one."""
    family, method = attached.family, attached.method
    networks = (family.unet, *family.text_encoders.values(), method.extra_modules())
    return Slider(
        family,
        section=section,
        texts=texts,
        device=device,
        at_strength=method.at_strength,
        inference=partial(inference_mode, networks),
    )


def slider_loss_source(run: Run, attached: Attached, inputs: Inputs) -> LossSource:
    """Return the batches and the objective of a run."""
    section, prompts = run.config.objective, inputs.prompts
    assert isinstance(section, Section) and prompts is not None
    batches = MixedBatches(
        prompts.batches, None, denoising_fraction=0, is_leaving=run.inbox.is_leaving
    )
    objective = slider_objective(section, attached, prompts.texts, device=run.device)
    return LossSource(batches, objective)


def slider_evaluation_of(
    run: Run, source: LossSource, *, engine: Engine, exported: ExportedWeights
) -> SliderEvaluation:
    """Return the check of both ends, with its past."""
    section, training, objective = run.config.objective, run.config.training, source.objective
    assert isinstance(section, Section) and isinstance(objective, Slider)
    return SliderEvaluation(
        every=section.check_every,
        steps=training.total_steps,
        plan=source.batches,
        count=max(CHECKS, len(section.directions)),
        measure_one=partial(objective.measure, seed=seeds.derive(training.seed, "slider-check")),
        autocast=engine.autocast,
        exported=exported,
        warn=run.warn,
        past=[event for event in run.past_events if isinstance(event, Validated)],
    )
