"""The trainer and its tasks, from a run's config and model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from modules.assembly.inputs import Inputs as RunInputs
from modules.assembly.metadata import ModelFacts, output_metadata
from modules.assembly.method import Attached, objective_of
from modules.assembly.optimizer import Optimization, optimization_of
from modules.assembly.rewards import (
    REWARD_UNITS,
    LoadedRewards,
    LossSource,
    prompt_evaluation_of,
    reward_loss_source,
)
from modules.assembly.run_context import Run
from modules.assembly.sliders import slider_evaluation_of, slider_loss_source
from modules.assembly.stepping import step_of
from modules.assembly.task_times import RunTaskTimes
from modules.assembly.tasks import TimedTask, ToleratedTask
from modules.assembly.validation_set import grid_of, validation_files, validation_record
from modules.broken_steps.cause import Investigator
from modules.broken_steps.response import BrokenSteps
from modules.broken_steps.retries import Retries
from modules.data.loader import AT_ONCE, Loader, reading_threads
from modules.evaluation.scores import EVALUATE, PromptEvaluation
from modules.evaluation.validation import VALIDATE, ImageEvaluation, ValidationImages
from modules.interfaces import Microbatch, named_parameters
from modules.memory.residency import Residency
from modules.memory.tensors import pinned
from modules.objectives.denoising import Denoising
from modules.objectives.inputs import Inputs
from modules.objectives.slider import Slider as SliderObjective
from modules.optim.custom import lr_curve
from modules.optim.learning_rate import effective_lrs
from modules.sampling.image_files import base_name
from modules.trainer import STEP, Task, Trainer
from modules.training.checkpoint_writer import CheckpointWriter
from modules.training.checkpoints import TrainState
from modules.training.disk_space import DiskSpaceTask
from modules.training.evaluate_task import EvaluateTask, Evaluation, KeepBestTask
from modules.training.failures import SAMPLING
from modules.training.reporter import Reporter
from modules.training.sample_task import SAMPLE, SampleTask
from modules.training.tasks import ExportTask, SaveTask
from modules.training.time_left import TaskTimes
from modules.training.try_task import TryTask
from onetrainer.captions.sample_prompts import all_shots
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.optimizers.adaptive import AdaptiveSection
from onetrainer.metrics.watch import Watch
from onetrainer.run.events import BrokenStep
from onetrainer.schedules.learning_rate import warmup_steps


@dataclass(frozen=True)
class _Parts:
    """What a run's tasks are made of."""

    run: Run
    attached: Attached
    inputs: RunInputs
    residency: Residency
    optimization: Optimization


@dataclass(frozen=True)
class Tasks:
    """Tasks between steps.

    Attributes:
        evaluate: Those that may end the run early: of images, then of prompts.
        deciding: Which evaluation decides on the best step; None if none is kept.
        times: How often, and how long so far: those of `evaluate`, of samples, exports, saving.
    """

    evaluate: tuple[EvaluateTask, ...]
    sample: SampleTask
    save: SaveTask
    export: ExportTask
    deciding: Evaluation | None
    disk_space: DiskSpaceTask
    times: tuple[TaskTimes, ...]

    def in_order(self) -> tuple[Task, ...]:
        """Return the tasks in the order in which they run after a step."""
        failures = self.save.failures
        keep = (KeepBestTask(self.deciding, self.save),) if self.deciding else ()
        planned: list[Task] = [
            *(ToleratedTask(task, task.evaluation.phase_name, failures) for task in self.evaluate),
            ToleratedTask(self.sample, SAMPLING, failures),
            self.export,
            self.save,
        ]
        *evaluate, sample, export, save = map(TimedTask, planned, self.times)
        tried = ToleratedTask(TryTask(self.sample), SAMPLING, failures)
        return (self.disk_space, *evaluate, sample, tried, export, save, *keep)

    def should_stop_early(self) -> bool:
        """Return whether any evaluation asks to stop."""
        return any(task.evaluation.should_stop_early() for task in self.evaluate)


@dataclass(frozen=True)
class Assembled:
    """The trainer with its tasks; orders: what the run's other processes do when rank 0 says so."""

    trainer: Trainer
    tasks: Tasks
    orders: Mapping[str, Callable[..., object]]
    inputs: Loader[Inputs]

    def close(self) -> None:
        """End reading ahead, and the writing of a checkpoint."""
        self.inputs.close()
        self.tasks.save.writer.close()


def assemble(
    run: Run,
    attached: Attached,
    inputs: RunInputs,
    rewards: LoadedRewards | None,
    residency: Residency,
) -> Assembled:
    """Build the trainer: create, restore, register hooks, in this order."""
    config, training = run.config, run.config.training
    optimization = optimization_of(
        config, run.folder, attached.method, device=run.device, sharding=attached.sharding
    )
    if run.last is not None:
        for text in optimization.checkpoints.restore(run.last):
            run.warn(text)
    if config.optimizer.is_fused:
        optimization.engine.enable_fused_backward()
    attached.method.train(True)
    parts = _Parts(run, attached, inputs, residency, optimization)
    if rewards is not None:
        source = reward_loss_source(run, attached, inputs, rewards)
    elif isinstance(config.objective, Slider):
        source = slider_loss_source(run, attached, inputs)
    else:
        assert inputs.images is not None
        objective = objective_of(config, attached, device=run.device)
        source = LossSource(inputs.images.batches, objective)
    tasks = _tasks(parts, source, rewards)
    retries = Retries.read(run.folder.retries)
    for entry in retries.entries:
        if entry.event is not None and entry.event not in run.past_events:
            run.events.write(entry.event)
        run.warn(str(entry))

    factor = training.lr_factor
    scheduled = lr_curve(config.schedule, steps=training.total_steps, lr=config.optimizer.lr)

    def multiplier(step: int) -> float:
        return factor * scheduled(step) * retries.lr_factor(step)

    state, loader = TrainState(run.first_step), _loader_of(run, attached, source, retries)
    trainer = Trainer(
        state=state,
        steps=training.total_steps,
        seed_of=lambda step: retries.seed(training.seed, step),
        plan=source.batches,
        compute=step_of(run, attached, source.objective, optimization, state, loader),
        engine=optimization.engine,
        optimizer=parts.optimization.optimizer,
        lr_multiplier=multiplier,
        ema=parts.optimization.ema,
        report=_reporter(parts, source, retries, multiplier, tasks),
        inbox=run.inbox,
        tasks=tasks.in_order(),
        world=run.world,
        should_stop_early=tasks.should_stop_early,
    )
    return Assembled(trainer, tasks, {STEP: trainer.step, **_orders(tasks, rewards)}, loader)


def _orders(tasks: Tasks, rewards: LoadedRewards | None) -> dict[str, Callable[..., object]]:
    """Return what the run's other processes do besides steps."""
    orders: dict[str, Callable[..., object]] = {SAMPLE: tasks.sample.take_part}
    orders |= tasks.save.orders()
    if rewards is not None:
        orders[REWARD_UNITS] = rewards.mixer.set_base
    for task in tasks.evaluate:
        match task.evaluation:
            case ImageEvaluation() as evaluation:
                orders[VALIDATE] = task.in_evaluation_mode(evaluation.take_part)
            case PromptEvaluation() as evaluation:
                orders[EVALUATE] = task.in_evaluation_mode(evaluation.take_part)
    return orders


def _loader_of(
    run: Run, attached: Attached, source: LossSource, retries: Retries
) -> Loader[Inputs]:
    """Return what reads and draws for each step, into pinned memory if there is a GPU."""
    data = run.config.data
    needs_pixels = isinstance(run.config.objective, Reconstruction)
    decodes_images = needs_pixels or not data.cache_latents

    seed, is_pinned = run.config.training.seed, run.device.type == "cuda"

    def draw(batch: Microbatch, step: int) -> Inputs:
        inputs = source.objective.draw(batch, seed=retries.seed(seed, step), step=step)
        return pinned(inputs) if is_pinned else inputs

    return Loader(
        source.batches,
        draw,
        threads=reading_threads(data.loader_threads, run.device, decodes_images=decodes_images),
        at_once=1 if decodes_images else AT_ONCE,
        steps=run.config.training.total_steps,
        rank=run.world.rank,
        size=run.world.size,
        fills_up=attached.sharding is not None,
    )


def _reporter(
    parts: _Parts,
    source: LossSource,
    retries: Retries,
    multiplier: Callable[[int], float],
    tasks: Tasks,
) -> Reporter:
    run, config = parts.run, parts.run.config
    base_lr = parts.optimization.optimizer.param_groups[0]["base_lr"]
    watch = Watch(
        run.warn,
        warmup_steps(config.schedule, steps=config.training.total_steps),
        full_lr=lambda step: base_lr * multiplier(step),
        d0=config.optimizer.d0 if isinstance(config.optimizer, AdaptiveSection) else None,
    )
    return Reporter(
        run.events,
        device=run.device,
        total_steps=config.training.total_steps,
        on_broken=_broken_steps(parts, source, retries, tasks.save.writer).report,
        task_times=tasks.times,
        watch=watch,
        rates=partial(effective_lrs, parts.optimization.optimizer),
    )


def _broken_steps(
    parts: _Parts, source: LossSource, retries: Retries, writer: CheckpointWriter
) -> BrokenSteps:
    run, attached, images = parts.run, parts.attached, parts.inputs.images
    config, objective = run.config, source.objective

    def timesteps(step: int) -> Sequence[int]:
        if not isinstance(objective, Denoising):
            return ()
        count = len(source.batches.names_at(step)["images"])
        seed = retries.seed(config.training.seed, step)
        return objective.timesteps(range(count), seed=seed, step=step)

    investigator = Investigator(
        components=attached.whole_networks(),
        trained=named_parameters(attached.method.parameter_groups()),
        model=config.model.path,
        precision=config.hardware.precision,
        is_cached=images is None or images.batches.batch_source.images.is_cached,
        names=source.batches.names_at,
        batches=source.batches.at,
        timesteps=timesteps,
    )
    broken = [event for event in run.past_events if isinstance(event, BrokenStep)]
    return BrokenSteps(
        config.training.broken_steps,
        investigator,
        folder=run.folder,
        retries=retries,
        events=run.events,
        past={event.step for event in broken if not event.went_back},
        first_step=run.first_step,
        finish_saving=writer.wait,
    )


def _tasks(parts: _Parts, source: LossSource, rewards: LoadedRewards | None) -> Tasks:
    run, attached, inputs = parts.run, parts.attached, parts.inputs
    made = parts.optimization
    evaluations: list[Evaluation] = []
    if inputs.validation is not None:
        evaluations.append(_image_evaluation(parts, inputs.validation, source))
    if rewards is not None:
        evaluations.append(
            prompt_evaluation_of(
                run,
                attached,
                inputs,
                rewards,
                plan=source.batches,
                engine=made.engine,
                exported=made.exported,
            )
        )
    if isinstance(source.objective, SliderObjective):
        evaluations.append(
            slider_evaluation_of(run, source, engine=made.engine, exported=made.exported)
        )
    evaluate = tuple(
        EvaluateTask(each, run.config.training.total_steps, attached.method, run.events, run.inbox)
        for each in evaluations
    )
    # If both could, the evaluation of rewards decides which step is the best.
    deciding = next((each for each in reversed(evaluations) if each.keeps_best), None)
    sample = SampleTask(
        section=run.config.sampling,
        shots=all_shots(run.config),
        steps=run.config.training.total_steps,
        plan=source.batches,
        family=attached.family.with_prompt_weights(run.config.sampling.prompt_weights),
        method=attached.method,
        engine=made.engine,
        exported=made.exported,
        samples_last_weights=run.config.ema.use and run.config.ema.sample_both,
        folder=run.folder,
        events=run.events,
        inbox=run.inbox,
        config_digest=run.digest,
        model=base_name(run.config.model.path),
        clip_skip=run.config.model.clip_skip,
        phase=parts.residency.phase,
        world=run.world,
    )
    steps = run.config.training.total_steps
    save = _save_task(parts, source, sample, deciding)
    disk_space = DiskSpaceTask(run.folder, save.writer, run.inbox, steps)
    of = RunTaskTimes(run.config, source.batches)
    times = (
        *map(of.of_evaluation, evaluations),
        *(of.of_samples(sample.shots), of.of_export(), of.of_saving()),
    )
    return Tasks(evaluate, sample, save, ExportTask(save, steps), deciding, disk_space, times)


def _save_task(
    parts: _Parts, source: LossSource, sample: SampleTask, deciding: Evaluation | None
) -> SaveTask:
    run, attached, inputs = parts.run, parts.attached, parts.inputs
    made = parts.optimization
    model = ModelFacts.of(attached.family)
    return SaveTask(
        section=run.config.output,
        plan=source.batches,
        folder=run.folder,
        method=attached.method,
        engine=made.engine,
        exported=made.exported,
        writer=CheckpointWriter(made.checkpoints, run.events),
        events=run.events,
        inbox=run.inbox,
        failures=run.failures,
        config=run.document,
        config_digest=run.digest,
        data_digest=inputs.digest,
        data=inputs.digests,
        validation_files=list(inputs.validation.files if inputs.validation else ()),
        validation=validation_record(inputs.validation, run.last),
        versions=run.versions,
        metadata=partial(output_metadata, run.config, model, inputs.facts()),
        thumbnail=sample.thumbnail,
        best_step=deciding.best_step if deciding else lambda: None,
        phase=parts.residency.phase,
        sharding=attached.sharding,
    )


def _image_evaluation(
    parts: _Parts, images: ValidationImages, source: LossSource
) -> ImageEvaluation:
    config, section = parts.run.config, parts.run.config.validation
    measures_last = config.ema.use and section.without_ema
    return ImageEvaluation(
        section=section,
        steps=config.training.total_steps,
        images=replace(images, world=parts.run.world),
        grid=grid_of(config),
        precision=config.hardware.precision,
        at_once=config.training.batch_size,
        objective=source.objective,
        autocast=parts.optimization.engine.autocast,
        exported=parts.optimization.exported,
        weights=("sampling", "without_ema") if measures_last else ("sampling",),
        files=validation_files(parts.run, images),
        plan=source.batches,
        phase=parts.residency.phase,
    )
