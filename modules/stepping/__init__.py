"""Compute a step: operation by operation, or as a recording that is replayed."""
