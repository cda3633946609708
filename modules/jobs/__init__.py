"""What a worker can be asked to do: train, plan, cache, sample, convert."""
