"""Forecast of a run: how much memory each phase takes, before anything is loaded."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import psutil
import torch

from modules.forecast.dataset import forecast_dataset
from modules.forecast.meta_run import Model, Stage, build_model, is_same_model, staged
from modules.forecast.operator_costs import Machine
from modules.forecast.phases import ALL, NO_PHASES, measure_phases, training_alone
from modules.forecast.step_time import forecast_time
from modules.memory.precision import choose_device
from modules.meta_device.autocast import DeviceKind
from onetrainer.concepts.concepts import bucket_step, concepts_of
from onetrainer.config.data.data import Data
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.dataset.buckets import Bucket, nearest_bucket
from onetrainer.dataset.items import HeaderCache, Item, index_concept
from onetrainer.dataset.transforms import bucket_at
from onetrainer.errors import UserError
from onetrainer.jobs.plan_request import RecordedHeaders
from onetrainer.messages.memory import fits
from onetrainer.run.events import Forecast

Policy = Literal["off", "selective", "block"]
POLICIES: tuple[Policy, ...] = ("off", "selective", "block")
"""From the fastest to the one that takes the least memory."""
PROGRAM = "program"
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Target:
    """The device that a run is planned for.

    Attributes:
        kind: "cuda" or "cpu".
        available: Bytes that are free; 0 if unknown.
        program: Bytes of them that the program itself takes.
    """

    kind: DeviceKind
    available: int = 0
    program: int = 0


def target_of(config: TrainConfig) -> Target:
    """Return the device of this computer that the config selects, with its free memory.

    Raises:
        UserError: If the config selects a GPU that does not exist.
    """
    if choose_device(config.hardware.device).type == "cuda":
        return Target("cuda", available=torch.cuda.mem_get_info()[0])
    # A run loads the same libraries as this process.
    program = psutil.Process().memory_info().rss
    return Target("cpu", available=psutil.virtual_memory().available, program=program)


def forecast(config: TrainConfig, target: Target | None = None) -> Forecast:
    """Return the peak memory of every phase of a run, without fixes.

    Neither the model nor the images need to exist.

    config: Of the run. target: None for this computer.

    Raises:
        UserError: If no run could begin with the config.
    """
    with planner(target or target_of(config)) as plans:
        return plans.forecast(plans.resolve_checkpointing(config))


def choose_checkpointing(
    config: TrainConfig, free_bytes: int, *, target: Target | None = None
) -> Policy:
    """Return the fastest checkpointing with which a step is sure to fit; "block" if none is.

    config: Of the run. free_bytes: Free memory for the run including its model; 0 or less if
    unknown, which selects "block".
    """
    with planner(target or target_of(config)) as plans:
        return plans.choose_checkpointing(config, free_bytes)


@contextmanager
def planner(target: Target, headers: HeaderCache | None = None) -> Iterator["Planner"]:
    """Yield a planner for a target; within, torch computes nothing on a real device.

    Args:
        target: The device to plan for.
        headers: Images' headers that were read already.
    """
    plans = Planner(target, headers)
    try:
        yield plans
    finally:
        plans.close()


class Planner:
    """Forecasts for one target; keeps the latest model for configs with the same one."""

    def __init__(self, target: Target, headers: HeaderCache | None = None) -> None:
        self.target = target
        self._headers = headers or RecordedHeaders({})
        self._open = ExitStack()
        self._model: tuple[TrainConfig, Model] | None = None
        self._items: tuple[tuple[Data, str], Sequence[Item]] | None = None

    def close(self) -> None:
        """Free the model."""
        self._model = None
        self._open.close()

    def forecast(
        self,
        config: TrainConfig,
        *,
        known: Mapping[str, Mapping[str, int]] = NO_PHASES,
        affected_phases: frozenset[str] = ALL,
    ) -> Forecast:
        """Return the peak memory of every phase.

        `config` comes from `resolve_checkpointing`. known, affected_phases: See `measure_phases`.
        """
        phases = self._on_stage(
            config,
            lambda stage: measure_phases(stage, known=known, affected_phases=affected_phases),
        )
        program = {PROGRAM: self.target.program} if self.target.program else {}
        whole = {phase: {**parts, **program} for phase, parts in phases.items()}
        sums = {phase: sum(parts.values()) for phase, parts in whole.items()}
        peak = max(sums, key=lambda phase: sums[phase])
        return Forecast(whole, peak, sums[peak], self.target.available)

    def time(self, config: TrainConfig, machine: Machine | None, where: str) -> dict[str, Any]:
        """Return the time of a run, see `forecast_time`; `config` is resolved."""
        return self._on_stage(config, lambda stage: forecast_time(stage, machine, where))

    def data(self, config: TrainConfig, machine: Machine | None) -> dict[str, Any]:
        """Return facts about the images, see `forecast_dataset`; `config` is resolved."""
        return self._on_stage(config, lambda stage: forecast_dataset(stage, machine, self._headers))

    def resolve_checkpointing(self, config: TrainConfig) -> TrainConfig:
        """Return the config with automatic checkpointing resolved."""
        if config.hardware.gradient_checkpointing != "auto":
            return config
        free = self.target.available - self.target.program
        return _with_policy(config, self.choose_checkpointing(config, free))

    def choose_checkpointing(self, config: TrainConfig, free_bytes: int) -> Policy:
        """Return the fastest checkpointing that is sure to fit; see the function of this name."""
        for policy in POLICIES[:-1] if free_bytes > 0 else ():
            parts = self._on_stage(_with_policy(config, policy), training_alone)
            if fits(sum(parts.values()), free_bytes):
                return policy
        return POLICIES[-1]

    def bucket_of(self, config: TrainConfig) -> Bucket:
        """Return the bucket of the largest images; a square if there are none to read."""
        concepts = concepts_of(config)
        found = {
            bucket_at(item, concepts[item.concept], number)
            for item in self._sample_items(config)
            for number in range(len(concepts[item.concept].resolutions))
        }
        return max(found or _sizes(config), key=lambda bucket: bucket.width * bucket.height)

    def _on_stage(self, config: TrainConfig, measure: Callable[[Stage], Measured]) -> Measured:
        bucket = self.bucket_of(config)
        with staged(self._model_for(config), config, bucket=bucket) as stage:
            return measure(stage)

    def _model_for(self, config: TrainConfig) -> Model:
        if self._model is None or not is_same_model(config, self._model[0]):
            self.close()
            made = build_model(config, self.target.kind)
            self._model = config, self._open.enter_context(made)
        return self._model[1]

    def _sample_items(self, config: TrainConfig) -> Sequence[Item]:
        """Return an image of every shape in every folder of the config."""
        # The images stay the same while many other settings are tried.
        same = config.data.model_copy(
            update={"resolution": Data().resolution, "buckets": Data().buckets}
        )
        known = same, config.validation.folder if config.validation.use else ""
        if self._items is None or self._items[0] != known:
            self._items = known, _items(config, self._headers)
        return self._items[1]


def _items(config: TrainConfig, headers: HeaderCache) -> Sequence[Item]:
    found: dict[tuple[int, int, int], Item] = {}
    for number, concept in enumerate(concepts_of(config) if uses_images(config) else ()):
        try:
            plain = replace(concept, require_captions=False)
            index = index_concept(plain, number=number, headers=headers)
        except UserError:
            continue  # the images may come later
        found |= {(number, item.width, item.height): item for item in index.items}
    return tuple(found.values())


def _sizes(config: TrainConfig) -> list[Bucket]:
    """Return the sizes that are known without images: fixed ones, or squares."""
    data = config.data
    if data.buckets.sizes:
        return [Bucket(size.width, size.height) for size in data.buckets.sizes]
    sides = [data.resolution, *(each.resolution for each in data.buckets.resolutions)]
    steps = [bucket_step(config.model.family, data.buckets.step, side) for side in sides]
    return [nearest_bucket(side, side, side, step) for side, step in zip(sides, steps, strict=True)]


def _with_policy(config: TrainConfig, policy: Policy) -> TrainConfig:
    hardware = config.hardware.model_copy(update={"gradient_checkpointing": policy})
    return config.model_copy(update={"hardware": hardware})
