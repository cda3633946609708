"""Temperature and power as `nvidia-smi` prints them."""

import torch

from modules.training.gpu_health import (
    GpuHealth,
    GpuHealthReader,
    parse_gpu_health,
    read_gpu_health,
)
from tests.each import each

TOLD = {
    "61, 214.32\n": GpuHealth(61, 214.32),
    "61, [N/A]\n": GpuHealth(61, None),
    "[Not Supported], [Not Supported]": GpuHealth(),
    "No devices were found\n": None,
    "": None,
}


@each("told, expected", TOLD.items())
def test_a_line_of_the_driver_is_read_with_what_it_does_not_tell(told, expected):
    assert parse_gpu_health(told) == expected


def test_without_such_a_gpu_there_is_nothing_and_no_thread():
    cpu = torch.device("cpu")
    assert read_gpu_health(cpu) is None
    reader = GpuHealthReader(cpu)
    assert reader.newest() == GpuHealth()
    assert reader._thread is None
