"""Forecast a run's memory and time by running it on the meta device."""
