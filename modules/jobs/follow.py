"""A process of a run that is not its first one: it does its part, as the first one orders."""

import gc
import os
import tempfile
from contextlib import closing
from pathlib import Path
from socket import gethostname

from modules.assembly.inputs import prepare_inputs
from modules.assembly.run_context import Run
from modules.assembly.trainer import assemble
from modules.jobs.base_model import local_model, recorded_revision, use_hardware
from modules.jobs.loading import START, Start, load
from modules.memory.determinism import determinism
from modules.memory.precision import choose_device, free_cached_memory, prefer_attention
from modules.training.failures import Failures
from modules.training.inbox import Inbox
from modules.world.world import Agreed, Order, World
from onetrainer.errors import UserError
from onetrainer.files.inside import open_inside
from onetrainer.run.event_log import EventWriter
from onetrainer.run.run_folder import STATE_FILE, RunFolder

_STDOUT, _STDERR = 1, 2


def follow(world: World) -> int:
    """Take part in a run until its first process ends, which ends this one."""
    world.join()
    order: Order | None = None
    while True:
        name, (start,) = order or world.follow({})
        assert name == START
        try:
            order = _take_part(world, start)
        except Agreed:
            order = None  # rank 0 handles it, and may start the run again
        # Outside the except clause, where the error keeps everything on the device alive.
        gc.collect()
        free_cached_memory()


def _take_part(world: World, start: Start) -> Order:
    """Load what rank 0 loads, and carry out its orders up to the next start."""
    folder = _visible_folder(world, start)
    if not world.place.address:
        _log_to(folder.log_of(world.rank))
    hardware = start.config.hardware
    use_hardware(hardware)
    device = choose_device(*world.place.device_of(hardware.device))
    scratch = Path(tempfile.gettempdir()) / f"onetrainer-process-{os.getpid()}"
    with (
        closing(EventWriter(None)) as events,
        prefer_attention(hardware.attention),
        determinism(hardware.deterministic, device),
    ):
        run = Run(
            folder.without_writing(scratch),
            start.config,
            start.document,
            start.digest,
            start.versions,
            events,
            Inbox(None),
            device,
            start.last,
            [],
            Failures(lambda _: None),
            undecided=start.undecided,
            world=world,
        )
        section = start.config.model
        revision = recorded_revision(start.versions)
        path = local_model(section.path, events.write, offline=section.offline, revision=revision)
        loaded = load(run, path)
        with loaded.residency.phase("caching"):
            inputs = prepare_inputs(run, loaded.family, loaded.digests)
        with closing(inputs), loaded.residency.phase("training"):
            assembled = assemble(run, loaded.attached, inputs, loaded.rewards, loaded.residency)
            with closing(assembled):
                return world.follow(assembled.orders)


def _visible_folder(world: World, start: Start) -> RunFolder:
    """Return the run folder. Raises UserError if this computer sees another one, or none."""
    folder = RunFolder(start.folder)
    needed = [folder.config]
    if start.last is not None:
        needed.append(folder.checkpoint(start.last.step) / STATE_FILE)
    missing = next((path for path in needed if not path.is_file()), None)
    if missing is None and folder.config.stat().st_size == start.config_size:
        return folder
    raise UserError(
        f"{missing or folder.config}: process {world.rank} of {world.size}, on {gethostname()},"
        f" {'does not find this file' if missing else 'finds another file here'}",
        "Expected the run folder at the same path on every computer of the run",
        "Put output.folder on a disk that all of them see, such as a network drive.",
        failure="file missing",
    )


def _log_to(path: Path) -> None:
    """Write what this process prints to a file from now on: another program has started it."""
    with open_inside(path, "ab") as log:
        for stream in (_STDOUT, _STDERR):
            os.dup2(log.fileno(), stream)
