"""Whether a run fits: how much memory each phase takes of the device, before anything is loaded."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import psutil
import torch

from modules.forecast.dataset import forecast_dataset
from modules.forecast.meta_run import Model, Stage, build_model, is_same_model, staged
from modules.forecast.operator_costs import Machine
from modules.forecast.phases import ALL, NONE_KNOWN, measure_phases, training_alone
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
"""From the fastest to that which takes least."""
PROGRAM = "program"
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Target:
    """What a run is planned for.

    kind: a graphics card ("cuda") or the processor. available: bytes that are free there; 0 where
    that is not known. program: bytes that the program itself takes of them.
    """

    kind: DeviceKind
    available: int = 0
    program: int = 0


def target_of(config: TrainConfig) -> Target:
    """This computer, as the config would use it, and what is free there now.

    Raises UserError where the config asks for a card that is not there.
    """
    if choose_device(config.hardware.device).type == "cuda":
        return Target("cuda", available=torch.cuda.mem_get_info()[0])
    # A run loads the same libraries as this process has.
    program = psutil.Process().memory_info().rss
    return Target("cpu", available=psutil.virtual_memory().available, program=program)


def forecast(config: TrainConfig, target: Target | None = None) -> Forecast:
    """What every phase of a run takes at its peak, without cures.

    Neither the model nor the pictures need to be there. Raises UserError for settings that no run
    could begin with.
    """
    with planner(target or target_of(config)) as plans:
        return plans.forecast(plans.resolve_checkpointing(config))


def choose_checkpointing(
    config: TrainConfig, free_bytes: int, *, target: Target | None = None
) -> Policy:
    """The fastest checkpointing with which a step is sure to fit; "block" if none is.

    free_bytes: what the device has for the run, its model included; 0 or less means not known,
    and "block" is safe then.
    """
    with planner(target or target_of(config)) as plans:
        return plans.choose_checkpointing(config, free_bytes)


@contextmanager
def planner(target: Target, headers: HeaderCache | None = None) -> Iterator["Planner"]:
    """What forecasts for a target. Within, torch computes nothing on a real device.

    headers: of pictures that were read already.
    """
    plans = Planner(target, headers)
    try:
        yield plans
    finally:
        plans.close()


class Planner:
    """Forecasts for one target; the model of the newest one is kept for others of the same."""

    def __init__(self, target: Target, headers: HeaderCache | None = None) -> None:
        self.target = target
        self._headers = headers or RecordedHeaders({})
        self._open = ExitStack()
        self._model: tuple[TrainConfig, Model] | None = None
        self._items: tuple[tuple[Data, str], Sequence[Item]] | None = None

    def close(self) -> None:
        """Lets the model go."""
        self._model = None
        self._open.close()

    def forecast(
        self,
        config: TrainConfig,
        *,
        known: Mapping[str, Mapping[str, int]] = NONE_KNOWN,
        touched: frozenset[str] = ALL,
    ) -> Forecast:
        """What every phase takes; config: `decided`. known, touched: see `measured`."""
        phases = self._staged(
            config, lambda stage: measure_phases(stage, known=known, touched=touched)
        )
        program = {PROGRAM: self.target.program} if self.target.program else {}
        whole = {phase: {**parts, **program} for phase, parts in phases.items()}
        sums = {phase: sum(parts.values()) for phase, parts in whole.items()}
        peak = max(sums, key=lambda phase: sums[phase])
        return Forecast(whole, peak, sums[peak], self.target.available)

    def time(self, config: TrainConfig, machine: Machine | None, where: str) -> dict[str, Any]:
        """How long it takes; config: `decided`. See `time_of`."""
        return self._staged(config, lambda stage: forecast_time(stage, machine, where))

    def data(self, config: TrainConfig, machine: Machine | None) -> dict[str, Any]:
        """What is told of its pictures; config: `decided`. See `data_of`."""
        return self._staged(config, lambda stage: forecast_dataset(stage, machine, self._headers))

    def resolve_checkpointing(self, config: TrainConfig) -> TrainConfig:
        """The config with automatic checkpointing decided."""
        if config.hardware.gradient_checkpointing != "auto":
            return config
        free = self.target.available - self.target.program
        return _with_policy(config, self.choose_checkpointing(config, free))

    def choose_checkpointing(self, config: TrainConfig, free_bytes: int) -> Policy:
        """As the function of this name."""
        for policy in POLICIES[:-1] if free_bytes > 0 else ():
            parts = self._staged(_with_policy(config, policy), training_alone)
            if fits(sum(parts.values()), free_bytes):
                return policy
        return POLICIES[-1]

    def bucket_of(self, config: TrainConfig) -> Bucket:
        """The size of the largest pictures; a square where there are none to see."""
        concepts = concepts_of(config)
        found = {
            bucket_at(item, concepts[item.concept], number)
            for item in self._items_of(config)
            for number in range(len(concepts[item.concept].resolutions))
        }
        return max(found or _sizes(config), key=lambda bucket: bucket.width * bucket.height)

    def _staged(self, config: TrainConfig, measure: Callable[[Stage], Measured]) -> Measured:
        bucket = self.bucket_of(config)
        with staged(self._model_of(config), config, bucket=bucket) as stage:
            return measure(stage)

    def _model_of(self, config: TrainConfig) -> Model:
        if self._model is None or not is_same_model(config, self._model[0]):
            self.close()
            made = build_model(config, self.target.kind)
            self._model = config, self._open.enter_context(made)
        return self._model[1]

    def _items_of(self, config: TrainConfig) -> Sequence[Item]:
        """A picture of every shape in every folder that the config names."""
        # Whatever else changes, the pictures are the same, and many settings are tried.
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
            continue  # the pictures may come later
        found |= {(number, item.width, item.height): item for item in index.items}
    return tuple(found.values())


def _sizes(config: TrainConfig) -> list[Bucket]:
    """The sizes that are known without pictures: fixed ones, or squares."""
    data = config.data
    if data.buckets.sizes:
        return [Bucket(size.width, size.height) for size in data.buckets.sizes]
    sides = [data.resolution, *(each.resolution for each in data.buckets.resolutions)]
    steps = [bucket_step(config.model.family, data.buckets.step, side) for side in sides]
    return [nearest_bucket(side, side, side, step) for side, step in zip(sides, steps, strict=True)]


def _with_policy(config: TrainConfig, policy: Policy) -> TrainConfig:
    hardware = config.hardware.model_copy(update={"gradient_checkpointing": policy})
    return config.model_copy(update={"hardware": hardware})
