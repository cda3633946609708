"""Stable Diffusion in the layout of its first releases: one file, other names."""
