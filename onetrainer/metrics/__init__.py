"""Statistics of validation losses and rewards: confidence bands, paired differences, verdicts."""
