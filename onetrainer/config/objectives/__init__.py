"""Sections about the objective and its loss."""
