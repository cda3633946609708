"""Whether this computer may have a GPU, without torch."""

import os
import sys

# Of the drivers: NVIDIA's, AMD's, and that of Windows' subsystem for Linux.
GPU_DEVICES: tuple[str, ...] = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def may_have_gpu() -> bool:
    """Return whether torch may find a GPU here; on Linux it is known without torch."""
    return sys.platform != "linux" or any(map(os.path.exists, GPU_DEVICES))
