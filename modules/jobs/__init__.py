"""The worker's jobs: train, plan, cache, sample, convert."""
