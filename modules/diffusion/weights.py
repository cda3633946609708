"""Loss weights of timesteps as tables, see `onetrainer.schedules.loss_weights`."""

import torch
from torch import Tensor

from modules.diffusion.schedule import NoiseLevels
from onetrainer.config.objectives.weighting import Plain, Weighting
from onetrainer.families.spec import Prediction
from onetrainer.schedules.loss_weights import loss_weight


def weight_table(section: Weighting, levels: NoiseLevels, prediction: Prediction) -> Tensor | None:
    """Return the loss weight of each timestep, (steps,), float32; None if all are 1."""
    if isinstance(section, Plain):
        return None
    is_noise = prediction == "epsilon"
    pairs = zip(levels.signal.tolist(), levels.noise.tolist(), strict=True)
    weights = [loss_weight(section, signal, noise, is_noise=is_noise) for signal, noise in pairs]
    return torch.tensor(weights, dtype=torch.float32, device=levels.signal.device)
