"""Texts about a run, its forecast and its cache, for terminals and windows."""
