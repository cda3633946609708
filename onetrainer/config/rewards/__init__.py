"""Sections about reward training."""
