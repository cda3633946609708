"""NVIDIA's driver, asked through the program that comes with it."""

import shutil
import subprocess
from pathlib import Path

_TIMEOUT_S = 20.0  # a driver that hangs


def ask_nvidia(*fields: str, gpu: str = "") -> list[str]:
    """Return a line of comma-separated values for each GPU; takes some tenths of a second.

    Args:
        fields: As `nvidia-smi --help-query-gpu` lists them. Numbers come without units.
        gpu: The id of the only GPU to ask; "" for all of them.

    Returns:
        No line if there is no driver, or it does not answer.
    """
    program = shutil.which("nvidia-smi")
    if program is None or not Path(program).is_absolute():  # relative: in the current folder
        return []
    query = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    query += [f"--id={gpu}"] * bool(gpu)
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []
