"""NVIDIA's driver, asked through the program that comes with it."""

import subprocess

from onetrainer.files.lines import split_lines
from onetrainer.files.programs import find_program

_TIMEOUT_S = 20.0  # a driver that hangs


def ask_nvidia(*fields: str, gpu: str = "") -> list[str]:
    """Return a line of comma-separated values for each GPU; takes some tenths of a second.

    Args:
        fields: As `nvidia-smi --help-query-gpu` lists them. Numbers come without units.
        gpu: The id of the only GPU to ask; "" for all of them.

    Returns:
        No line if there is no driver, or it does not answer.
    """
    program = find_program("nvidia-smi")
    if not program:
        return []
    query = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    query += [f"--id={gpu}"] * bool(gpu)
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return split_lines(done.stdout.strip()) if done.returncode == 0 else []
