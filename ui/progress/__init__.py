"""What a run has reported: losses, rewards, samples. No Tk."""
