"""The contract between window, terminal and engine: plain Python, no torch, no tkinter."""

from pathlib import Path

__version__ = "0.1.0"

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds the program: its packages and `configs/`."""
