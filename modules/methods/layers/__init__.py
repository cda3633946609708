"""The layers of a model: names, presets, rules, and inference in the middle of training."""
