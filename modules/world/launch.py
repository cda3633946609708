"""Where a process stands among those of its run, and the start of the others on this computer.

Environment variables say it, the ones of torch's launchers and accelerate's: so a run whose
processes were started by `accelerate launch`, on several computers too, is the same as one that
starts them here.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import open_inside
from onetrainer.run.client import FOLLOW, OWN_GROUP, WORKER, environment
from onetrainer.run.run_folder import RunFolder, cannot_write

ADDRESS = "ONETRAINER_PROCESSES"
"""Variable with the address of the first process's `Hub`, in processes that it has started."""
_ON_CPU = "ACCELERATE_USE_CPU"
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class Place:
    """One process among those of a run.

    Attributes:
        rank: Its number, from 0.
        size: How many there are.
        local_rank: Its number among those on its computer.
        host: Name or address of the computer of the first process.
        address: Of the first process's `Hub`; "" if something else started this process.
        is_on_cpu: Whether all compute on the CPU, where there are GPUs, too.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    host: str = _HERE
    address: str = ""
    is_on_cpu: bool = False

    def device_of(self, configured: str) -> tuple[str, int]:
        """Return which device the process uses, and its number among those that choose by it.

        configured: The setting "hardware.device", over which a launcher's choice of the CPU goes.
        """
        return "cpu" if self.is_on_cpu else configured, self.local_rank


def place_in(variables: Mapping[str, str]) -> Place:
    """Return the place that environment variables tell."""
    size = int(variables.get("WORLD_SIZE", "1"))
    if size == 1:
        return Place()
    return Place(
        rank=int(variables.get("RANK", "0")),
        size=size,
        local_rank=int(variables.get("LOCAL_RANK", "0")),
        host=variables.get("MASTER_ADDR", _HERE),
        address=variables.get(ADDRESS, ""),
        is_on_cpu=variables.get(_ON_CPU, "").lower() in ("true", "1", "yes"),
    )


def variables_of(count: int, *, device: str, threads: int) -> dict[str, str]:
    """Return the environment variables of all processes of this computer, without their ranks.

    device: As the config names it. threads: That each computes with; 0 shares out the cores.
    """
    with socket.socket() as free:
        free.bind((_HERE, 0))
        port = free.getsockname()[1]
    return {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(port),
        _ON_CPU: str(device == "cpu").lower(),
        "OMP_NUM_THREADS": str(threads or max(1, (os.cpu_count() or 1) // count)),
    }


def start_others(
    folder: RunFolder, variables: Mapping[str, str]
) -> dict[int, "subprocess.Popen[bytes]"]:
    """Start all processes but the first, each with a log in the run folder; return them by rank."""
    processes = {}
    for rank in range(1, int(variables["WORLD_SIZE"])):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        path = folder.log_of(rank)
        with ExitStack() as stack:
            try:
                write_atomic(path, b"")
                log = stack.enter_context(open_inside(path, "ab"))
            except OSError as error:
                raise cannot_write(path, error) from error
            processes[rank] = subprocess.Popen(
                [sys.executable, "-m", WORKER, FOLLOW],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment(), **variables, **own},
                creationflags=OWN_GROUP,
            )
    return processes
