"""The contract between window, terminal and engine: plain Python, no torch, no tkinter."""

__version__ = "0.1.0"
