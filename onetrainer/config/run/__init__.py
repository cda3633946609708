"""Sections that every run has: model, schedule, hardware, sampling, validation and output."""
