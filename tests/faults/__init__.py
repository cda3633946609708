"""Faults planted into runs, files and configs, by a seed: `python -m tests.faults`."""
