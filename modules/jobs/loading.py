"""The model of a run, loaded and attached: the same in each of its processes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modules.assembly.inputs import encoder_digests_of
from modules.assembly.method import Attached, attach
from modules.assembly.optimizer import require_training_to_the_end
from modules.assembly.placement import manage, offload_device_of, quantize, residency_of
from modules.assembly.rewards import LoadedRewards, load_rewards
from modules.assembly.run_context import Run
from modules.assembly.sharding import with_sharding
from modules.assembly.start_files import with_start_files_copied
from modules.assembly.stepping import compile_unet
from modules.data.cache import EncoderDigests
from modules.interfaces import Family
from modules.jobs.base_model import load_base
from modules.memory.channels_last import use_channels_last
from modules.memory.residency import Residency
from modules.methods.model_source import ModelSource
from modules.training.checkpoint_record import CheckpointRecord
from onetrainer.config.train import TrainConfig
from onetrainer.run.events import Phase

START = "start"
"""The order to load a run and to take part in it."""


@dataclass(frozen=True)
class Start:
    """What the other processes need to know of a run, as rank 0 has decided it.

    Attributes:
        config_size: Bytes of the run's config.json, by which another computer knows that it sees
            the same folder.
    """

    folder: Path
    config_size: int
    config: TrainConfig
    document: dict[str, Any]
    digest: str
    versions: dict[str, str]
    last: CheckpointRecord | None
    undecided: TrainConfig | None

    @staticmethod
    def of(run: Run) -> "Start":
        """Return what the others need of a run."""
        return Start(
            run.folder.path,
            run.folder.config.stat().st_size,
            run.config,
            run.document,
            run.digest,
            run.versions,
            run.last,
            run.undecided,
        )


@dataclass(frozen=True)
class Loaded:
    """A run's model with its method, before its data is encoded."""

    family: Family
    digests: EncoderDigests | None
    attached: Attached
    rewards: LoadedRewards | None
    residency: Residency


def load(run: Run, path: Path) -> Loaded:
    """Load, quantize, attach, and manage layers, in this order. path: Of the model on this disk."""
    offload = offload_device_of(run.config.hardware.offload_device, run.device)
    family, model = load_base(
        run.config, path, run.events.write, device=run.device, components_device=offload
    )
    if run.config.hardware.quantization != "none":
        run.events.write(Phase("loading", detail="quantizing"))
    for note in quantize(run.config, family, device=run.device):
        run.warn(note)
    digests = encoder_digests_of(run, family)
    # Before images are encoded, so that errors show early.
    source = ModelSource.of(model)
    with run.world.rank_0_first():
        config = with_start_files_copied(run.config, run.folder)
    attached = attach(config, family, source)
    require_training_to_the_end(run.config, attached.method.parameter_groups())
    for note in attached.notes:
        run.warn(note)
    if run.config.hardware.channels_last:
        use_channels_last(family.unet)
    rewards = load_rewards(run)
    compile_unet(run, attached)
    layers = manage(run.config, attached.family, device=run.device)
    attached = with_sharding(run, attached)
    networks = None if rewards is None else rewards.networks
    residency = residency_of(run.config, attached, layers, device=run.device, rewards=networks)
    return Loaded(family, digests, attached, rewards, residency)
