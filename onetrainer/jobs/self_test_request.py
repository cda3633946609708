"""Request of the self-test: five steps of a tiny model."""

from typing import Literal

from onetrainer.config.base.section import Section
from onetrainer.config.run.hardware import Device


class SelfTestRequest(Section):
    """Where and how precisely to train five steps."""

    device: Device = "auto"
    """The device; "auto" is the GPU if there is one."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """The number format; "auto" is bf16 on GPUs that have it, fp16 on others, fp32 on the CPU."""
