"""How weights move: optimizers, rounding, averages, and what of them a checkpoint holds."""
