"""Learning-rate schedule of both trainings of the demo's base model."""

import math

WARMUP = 0.04
HOLD = 0.4


def one_cycle(step: int, steps: int) -> float:
    """Return the factor of the peak rate: rises over 4 %, holds to 40 %, falls to 1 %."""
    done = step / steps
    if done < WARMUP:
        return (step + 1) / (steps * WARMUP + 1)
    if done < HOLD:
        return 1.0
    falling = (done - HOLD) / (1 - HOLD)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * falling))
