"""Reported losses, rewards and samples of a run, without Tk."""
