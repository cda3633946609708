"""Statistics of validation losses and rewards: bands, paired differences, verdicts."""
