"""Configuration, datasets, run folders and the command line: plain Python, no torch, no tkinter."""

from pathlib import Path

__version__ = "0.1.0"

ROOT = Path(__file__).resolve().parents[1]
"""The project folder: the packages and `configs/`."""
