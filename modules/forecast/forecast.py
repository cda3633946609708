"""Forecast of a run: how much memory each phase takes, before anything is loaded."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Self

import psutil
import torch

from modules.assembly.start_files import with_start_files
from modules.forecast.model import (
    Model,
    Stage,
    build_model,
    is_same_model,
    staged,
)
from modules.forecast.phases import ALL, NO_PHASES, measure_phases, training_alone
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


@dataclass(frozen=True)
class Target:
    """The device that a run is planned for.

    Attributes:
        available: Bytes that are free; 0 if unknown.
        program: Bytes of them that the program itself takes.
    """

    kind: DeviceKind
    available: int = 0
    program: int = 0


def target_of(config: TrainConfig, *, is_all_free: bool = False) -> Target:
    """Return the device of this computer that the config selects, with its free memory.

    is_all_free: Whether all memory counts as free, as after a failure, when what is free says
    nothing.

    Raises:
        UserError: If the config selects a GPU that does not exist.
    """
    device = choose_device(config.hardware.device)
    if device.type == "cuda":
        return Target("cuda", available=torch.cuda.mem_get_info(device)[1 if is_all_free else 0])
    # Apple's GPU has no memory of its own.
    memory = psutil.virtual_memory()
    if is_all_free:
        return Target("cpu", available=memory.total)
    # A run loads the same libraries as this process.
    program = psutil.Process().memory_info().rss
    return Target("cpu", available=memory.available, program=program)


class Planner:
    """Forecasts for one target, and a context within which torch computes on no real device.

    Neither models nor images need to exist. Keeps the latest model for configs with the same one.
    Raises UserError for configs with which no run could begin.

    headers: Images' headers that were read already.
    """

    def __init__(self, target: Target, headers: HeaderCache | None = None) -> None:
        self.target = target
        self._headers = headers or RecordedHeaders({})
        self._open = ExitStack()
        self._model: tuple[TrainConfig, Model] | None = None
        self._items: tuple[tuple[Data, str], Sequence[Item]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._model = None
        self._open.close()

    def forecast(
        self,
        config: TrainConfig,
        *,
        known: Mapping[str, Mapping[str, int]] = NO_PHASES,
        affected_phases: frozenset[str] = ALL,
    ) -> Forecast:
        """Return the peak memory of every phase, without fixes.

        `config` comes from `resolve_checkpointing`. known, affected_phases: See `measure_phases`.
        """
        with self.stage(config) as stage:
            phases = measure_phases(stage, known=known, affected_phases=affected_phases)
        program = {PROGRAM: self.target.program} if self.target.program else {}
        whole = {phase: {**parts, **program} for phase, parts in phases.items()}
        sums = {phase: sum(parts.values()) for phase, parts in whole.items()}
        peak = max(sums, key=lambda phase: sums[phase])
        return Forecast(whole, peak, sums[peak], self.target.available)

    def resolve_checkpointing(self, config: TrainConfig) -> TrainConfig:
        """Return the config with the fastest checkpointing that is sure to fit, if it is automatic.

        Selects the one that takes the least memory if none fits, or if the free memory is unknown.
        """
        if config.hardware.gradient_checkpointing != "auto":
            return config
        free = self.target.available - self.target.program
        for policy in POLICIES[:-1] if free > 0 else ():
            with self.stage(changed := _with_policy(config, policy)) as stage:
                if fits(sum(training_alone(stage).values()), free):
                    return changed
        return _with_policy(config, POLICIES[-1])

    @contextmanager
    def stage(self, config: TrainConfig) -> Iterator[Stage]:
        """Yield the run of a resolved config, ready for its first step."""
        config = with_start_files(config, lambda *_: "")  # which change no size that matters
        if self._model is None or not is_same_model(config, self._model[0]):
            self.__exit__()
            made = build_model(config, self.target.kind)
            self._model = config, self._open.enter_context(made)
        largest, has_several = self.bucket_of(config), len(self._buckets(config)) > 1
        with staged(self._model[1], config, bucket=largest, has_several=has_several) as stage:
            yield stage

    def bucket_of(self, config: TrainConfig) -> Bucket:
        """Return the bucket of the largest images; a square if there are none to read."""
        return max(self._buckets(config), key=lambda bucket: bucket.width * bucket.height)

    def _buckets(self, config: TrainConfig) -> set[Bucket]:
        """Return the buckets of the images; squares if there are none to read."""
        concepts = concepts_of(config)
        found = {
            bucket_at(item, concepts[item.concept], number)
            for item in self._sample_items(config)
            for number in range(len(concepts[item.concept].resolutions))
        }
        return found or set(_sizes(config))

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
