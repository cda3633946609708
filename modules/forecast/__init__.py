"""Forecast of a run's memory and time, computed on the meta device."""
